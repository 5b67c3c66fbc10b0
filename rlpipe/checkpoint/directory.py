"""How a checkpoint directory comes to be in one step: staged beside its target, then renamed.

    stage    a new directory beside the target, in the same file system, under a name that no listing shows
    commit   everything is on the disk; one rename gives it the target's name, or exchanges it with the old checkpoint
    killed   before the rename: the target is as it was, and the staging directory is litter. After it: the new one

Where the system cannot exchange two directories, the old one is set aside under a name that follows from the target's,
and `locate` finds it there if the process dies between the two renames.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import xxhash

from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.errors import CheckpointError, CheckpointExistsError

IfExists: TypeAlias = Literal["error", "replace"]

_STAGE_PREFIX = ".rlpipe-stage-"
_ASIDE_PREFIX = ".rlpipe-aside-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def staged(path: Path, *, if_exists: IfExists, marker: str = MANIFEST_NAME) -> Iterator[Path]:
    """A new directory to fill; it takes the target's place when the block ends without an error.

    Args:
        path: The target. Missing parents are made; an empty directory there counts as nothing.
        if_exists: "replace" lets it take the place of an older one of its kind, never of anything else.
        marker: The file that makes a directory one of its kind.

    Yields:
        The staging directory, made and empty. The block must bring to the disk what it writes there.

    Raises:
        CheckpointExistsError: There is something at the target that may not be replaced.
        CheckpointError: The system refuses a directory, or the rename.
    """
    target = Path(os.path.realpath(path))
    stage = target.parent / f"{_STAGE_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        _require_free(target, if_exists, marker)
        make_directories(target.parent)
        stage.mkdir()
        try:
            yield stage
            _commit(stage, target, if_exists, marker)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"the checkpoint {path} was not written", expected="a directory that can be written", found=str(error)
        ) from error


def locate(path: Path) -> Path:
    """The directory that holds the checkpoint of this path: itself, or where a killed replacement set it aside."""
    aside = _aside(path)
    return aside if not path.exists() and (aside / MANIFEST_NAME).is_file() else path


def list_checkpoints(parent: Path) -> list[Path]:
    """The complete checkpoints directly in a directory, sorted by name; litter is none of them."""
    if not parent.is_dir():
        return []
    return sorted(each for each in parent.iterdir() if not is_litter(each) and (each / MANIFEST_NAME).is_file())


def is_litter(path: Path) -> bool:
    """Whether a directory is what a killed process left over."""
    return path.name.startswith((_STAGE_PREFIX, _ASIDE_PREFIX))


def make_directories(path: Path) -> None:
    """Make a directory and its parents, and bring each new one to the disk."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_directory(each.parent)


def sync_directory(path: Path) -> None:
    """Bring a directory's names to the disk, where the system can do that."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a new file, its bytes on the disk when this returns."""
    with path.open("x", encoding="ascii", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _require_free(target: Path, if_exists: IfExists, marker: str) -> None:
    if not os.path.lexists(target) or _is_empty_directory(target):
        return
    if if_exists == "error":
        raise CheckpointExistsError(
            f"there is something at {target}",
            expected="a path where nothing is",
            found="a checkpoint" if (target / marker).is_file() else "something else",
            fix="choose another path, or allow it: checkpoint.if_exists=replace",
        )
    if not (target / marker).is_file():
        raise CheckpointExistsError(
            f"what is at {target} is no checkpoint, so it is not replaced",
            expected="nothing, an empty directory, or a checkpoint",
            found="a directory with other things" if target.is_dir() else "a file",
            fix="choose another path",
        )


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _commit(stage: Path, target: Path, if_exists: IfExists, marker: str) -> None:
    if if_exists == "replace" and (target / marker).is_file():
        _replace(stage, target)
    else:
        _rename_to_free(stage, target)
    try:
        sync_directory(target.parent)
    finally:
        # The old one, under the stage's name or set aside. If it cannot be removed, it is litter, not a failure.
        shutil.rmtree(stage, ignore_errors=True)
        shutil.rmtree(_aside(target), ignore_errors=True)


def _rename_to_free(stage: Path, target: Path) -> None:
    """The system itself refuses to rename a directory over one that is not empty, so no other writer is overrun."""
    try:
        stage.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise CheckpointExistsError(
                f"another process wrote {target} meanwhile",
                expected="a path where nothing is",
                fix="choose another path; that checkpoint was left as it is",
            ) from error
        raise


def _replace(stage: Path, target: Path) -> None:
    if _exchange(stage, target):
        return
    aside = _aside(target)
    shutil.rmtree(aside, ignore_errors=True)
    target.rename(aside)
    try:
        stage.rename(target)
    except OSError:
        aside.rename(target)
        raise


def _aside(target: Path) -> Path:
    return target.with_name(_ASIDE_PREFIX + xxhash.xxh3_64_hexdigest(os.fsencode(target.name)))


def _exchange(left: Path, right: Path) -> bool:
    """Swap two directories in one step; False where the system or the file system cannot."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(left), None, str(right))


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function
