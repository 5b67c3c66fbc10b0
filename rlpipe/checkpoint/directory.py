"""How a checkpoint directory comes to be in one step: staged beside its target, then renamed.

    stage    a new directory beside the target, in the same file system, under a name that no listing shows
    commit   everything is on the disk; one rename gives it the target's name, or exchanges it with the old checkpoint
    killed   before the rename: the target is as it was, and the staging directory is litter. After it: the new one

What a save replaces is what was there when it began: of two that replace one checkpoint at a time, the first to commit
wins, and the other gets an error. They take turns for the last step where directories can be locked (see `litter`);
readers take no lock (see `steady`).

Where the system cannot exchange two directories, the old one is set aside under a name that follows from the target's,
and `locate` finds it there if the process dies between the two renames.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias

from rlpipe.checkpoint.format import FORMAT, MANIFEST_NAME
from rlpipe.checkpoint.litter import is_litter, new_stage, remove
from rlpipe.checkpoint.refusals import reason
from rlpipe.checkpoint.swap import aside_of, seal_of, take_place, target_of
from rlpipe.errors import CheckpointError, CheckpointExistsError

_HEAD = 100

IfExists: TypeAlias = Literal["error", "replace"]
Durability: TypeAlias = Literal["fsync", "none"]


@contextmanager
def staged(
    target: Path, *, if_exists: IfExists, marker: str = MANIFEST_NAME, durability: Durability = "fsync"
) -> Iterator[Path]:
    """A new directory to fill; it takes the target's place when the block ends without an error.

    What killed processes left beside the target is removed on the way (see `litter`).

    Args:
        target: Its `real_path`. Missing parents are made; an empty directory there counts as nothing.
        if_exists: "replace" lets it take the place of an older one of its kind, never of anything else.
        marker: The file that makes a directory one of its kind.
        durability: "fsync" brings names to the disk; "none" leaves that to the system: safe against killed processes,
            not against power failures.

    Yields:
        The staging directory, made and empty. The block must bring to the disk what it writes there.

    Raises:
        CheckpointExistsError: There is something at the target that may not be replaced, or another process put
            something there meanwhile.
        CheckpointError: The system refuses a directory, or the rename.
    """
    parent = target.parent
    try:
        before = _what_is_replaced(target, if_exists, marker)
        make_directories(parent, durability=durability)
        with new_stage(parent) as stage:
            try:
                yield stage
                take_place(stage, target, before, marker)
            except BaseException:
                remove(stage)
                raise
            _settle(stage, target, parent, durability)
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"the checkpoint {target} was not written",
            expected="a directory that can be written",
            found=reason(error),
            fix="choose another path, or see to its permissions and the room on its disk",
        ) from error


def real_path(path: Path) -> Path:
    """The absolute path of what is there, or will be, with every link on the way followed.

    Raises:
        CheckpointError: Nothing that is written there could be found under this path: a name is too long, a part
            before ".." is missing, or it is the current directory, which would be another one for everybody but this
            process.
    """
    try:
        target = Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise _unwritable(path, "a current directory that was removed") from error
    if _is_there(target) and (current := _current()) and current.is_relative_to(target):
        raise _unwritable(path, "the current directory, or one around it")
    if ".." in path.parts and not _is_way_up(path):
        raise _unwritable(path, "a part before .. that is not there")
    return target


def _is_way_up(path: Path) -> bool:
    """Whether all that stands before the last ".." of a path is there, as the system will have it for readers."""
    parts = path.parts
    return os.path.isdir(Path(*parts[: len(parts) - parts[::-1].index("..")]))  # noqa: PTH112


def _is_there(target: Path) -> bool:
    try:
        os.lstat(target)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _unwritable(target, "a name that is too long for the system") from error
        return False
    return True


def _current() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _unwritable(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"nothing can be written at {path}",
        expected="the path of a new directory, or of one that is replaced",
        found=found,
        fix="choose another path",
    )


def locate(path: Path, *, marker: str = MANIFEST_NAME) -> Path:
    """The directory that holds the checkpoint of this path: itself, or where a killed replacement set it aside."""
    if not path.name or os.path.exists(path):  # noqa: PTH110  pathlib costs as much as the call itself
        return path
    aside = aside_of(path)
    return aside if os.path.isfile(f"{aside}/{marker}") else path  # noqa: PTH113


def list_checkpoints(parent: Path) -> list[Path]:
    """The complete checkpoints directly in a directory, sorted by name; litter is none of them.

    Returns:
        Their paths. One that a killed replacement set aside is listed under its own name; `locate` knows where it lies.
    """
    if not parent.is_dir():
        return []
    named = {target_of(each) if is_litter(each) else each for each in parent.iterdir()}
    # os.path, as pathlib raises where a directory is not for everybody.
    found = (each for each in named if each is not None)
    return sorted(each for each in found if os.path.isfile(locate(each) / MANIFEST_NAME))  # noqa: PTH113


def make_directories(path: Path, *, durability: Durability = "fsync") -> None:
    """Make a directory and its parents, and bring each new one to the disk."""
    if os.path.isdir(path):  # noqa: PTH112  pathlib costs as much as the call itself
        return
    missing = takewhile(lambda each: not each.exists(), (path, *path.parents))
    for each in reversed(list(missing)):
        each.mkdir(exist_ok=True)
        sync_directory(each.parent, durability=durability)


def sync_directory(path: str | os.PathLike[str], *, durability: Durability = "fsync") -> None:
    """Bring a directory's names to the disk, where the system can do that."""
    if durability == "none" or os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _what_is_replaced(target: Path, if_exists: IfExists, marker: str) -> str | None:
    """The seal of what a save may replace; None if there is nothing.

    Raises:
        CheckpointExistsError: There is something else, or it may not be replaced.
    """
    found = locate(target, marker=marker)
    if not os.path.lexists(found) or _is_empty_directory(found):
        return None
    seal = seal_of(found, marker)
    if seal is None or (marker == MANIFEST_NAME and not is_manifest(found / marker)):
        raise CheckpointExistsError(
            f"what is at {target} is no checkpoint, so it is not replaced",
            expected="nothing, or an empty directory" if if_exists == "error" else "nothing, or a checkpoint",
            found="a directory with other things" if target.is_dir() else "a file",
            fix="choose another path",
        )
    if if_exists == "error":
        raise CheckpointExistsError(
            f"there is a checkpoint at {target}",
            expected="a path where nothing is",
            found="a checkpoint",
            fix='choose another path, or allow it: checkpoint.if_exists=replace, in Python if_exists="replace"',
        )
    return seal


def is_manifest(file: Path) -> bool:
    """Whether a file is there and begins as manifests do; others are called manifest.json too."""
    try:
        with file.open("rb") as stream:
            return FORMAT.encode() in stream.read(_HEAD)
    except OSError:
        return False


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _settle(stage: Path, target: Path, parent: Path, durability: Durability) -> None:
    """Bring the new name to the disk, then remove what had it. What cannot be removed is litter, not a failure."""
    try:
        sync_directory(parent, durability=durability)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {target} is written, but a power failure may undo it",
            expected="a file system that takes an fsync of the directory",
            found=reason(error),
            fix="save it again",
        ) from error
    for former in (stage, aside_of(target)):
        if os.path.lexists(former):
            remove(former)
