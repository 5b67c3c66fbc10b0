"""How a checkpoint directory comes to be in one step: staged beside its target, then renamed.

    stage    a new directory beside the target, in the same file system, under a name that no listing shows
    commit   everything is on the disk; one rename gives it the target's name, or exchanges it with the old checkpoint
    killed   before the rename: the target is as it was, and the staging directory is litter. After it: the new one

What a save replaces is what was there when it began: of two that replace one checkpoint at a time, the first to commit
wins, and the other gets an error. No lock is needed for that, and readers take none (see `steady`).

Where the system cannot exchange two directories, the old one is set aside under a name that follows from the target's,
and `locate` finds it there if the process dies between the two renames.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias

from rlpipe.checkpoint.format import ATTACHMENTS, FORMAT, MANIFEST_NAME
from rlpipe.checkpoint.litter import is_litter, new_stage
from rlpipe.checkpoint.swap import aside_of, seal_of, take_place, target_of
from rlpipe.errors import CheckpointError, CheckpointExistsError, listed

_HEAD = 100
_OWN = re.compile(r"manifest\.json$|state\.[a-z0-9]+$")

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
                shutil.rmtree(stage, ignore_errors=True)
                raise
            _settle(stage, target, parent, durability)
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"the checkpoint {target} was not written", expected="a directory that can be written", found=str(error)
        ) from error


def real_path(path: Path) -> Path:
    """The absolute path of what is there, or will be, with every link on the way followed."""
    return Path(os.path.realpath(path))


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
    return sorted(each for each in named if each is not None and (locate(each) / MANIFEST_NAME).is_file())


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
    if seal is None or (marker == MANIFEST_NAME and not _is_manifest(found / marker)):
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
            fix="choose another path, or allow it: checkpoint.if_exists=replace",
        )
    if marker == MANIFEST_NAME and (foreign := sorted(_foreign(found))):
        raise CheckpointExistsError(
            f"the checkpoint at {target} is not replaced, as that would remove what else lies there",
            expected="nothing in its directory but the checkpoint",
            found=listed(foreign),
            fix="move that away, or choose another path",
        )
    return seal


def _is_manifest(file: Path) -> bool:
    """Whether a file begins as manifests do; others are called manifest.json too."""
    with file.open("rb") as stream:
        return FORMAT.encode() in stream.read(_HEAD)


def _foreign(directory: Path) -> Iterator[str]:
    """Names in a checkpoint's directory that no save makes."""
    for each in directory.iterdir():
        if each.is_dir():
            is_own = each.name == ATTACHMENTS or (each / MANIFEST_NAME).is_file()
        else:
            is_own = _OWN.match(each.name) is not None
        if not is_own and not is_litter(each):
            yield each.name


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
            found=str(error),
            fix="save it again",
        ) from error
    for former in (stage, aside_of(target)):
        if os.path.lexists(former):
            shutil.rmtree(former, ignore_errors=True)
