"""The last step of a save: a directory gets a name, and what had that name comes away whole.

One rename exchanges two directories where the system can (Linux, on most file systems). Elsewhere the old one is set
aside under a name that follows from its own, and found there if the process dies before the second rename.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import xxhash

from rlpipe.checkpoint.litter import ASIDE_PREFIX, held
from rlpipe.errors import CheckpointExistsError

_NAMED, _HASHED = f"{ASIDE_PREFIX}name-", f"{ASIDE_PREFIX}hash-"
_LONGEST_NAME = 255
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def seal_of(directory: Path, marker: str) -> str | None:
    """A value that no two checkpoints share, as the marker of each holds its time; None without a marker."""
    file = directory / marker
    try:
        return xxhash.xxh3_128_hexdigest(file.read_bytes()) if file.is_file() else None
    except OSError:
        return None


def take_place(stage: Path, target: Path, before: str | None, marker: str) -> None:
    """Give the stage the target's name; what had it is then under the stage's name, or aside.

    Args:
        stage: A complete directory beside the target.
        target: The path that it shall have.
        before: Seal of what is replaced there; None if there was nothing.
        marker: The file that the seal is of.

    Raises:
        CheckpointExistsError: Something else is there by now.
        OSError: The system refuses. The target is as it was, or aside.
    """
    if before is None or not target.exists():
        _rename_to_free(stage, target)
        return
    with held(target):
        _require_seal(target, target, before, marker)
        if not _exchange(stage, target):
            _rename_twice(stage, target, before, marker)
        elif seal_of(stage, marker) != before:  # only where directories cannot be locked
            _exchange(stage, target)
            raise _overrun(target)


def _require_seal(directory: Path, target: Path, before: str, marker: str) -> None:
    if seal_of(directory, marker) != before:
        raise _overrun(target)


def _rename_to_free(stage: Path, target: Path) -> None:
    """The system itself refuses to rename a directory over one that is not empty, so no other writer is overrun."""
    try:
        stage.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _overrun(target) from error
        raise


def _overrun(target: Path) -> CheckpointExistsError:
    return CheckpointExistsError(
        f"another process wrote {target} meanwhile",
        expected="the path as it was when this save began",
        found="something newer, which was left as it is",
        fix="let one process write to a path (rank 0 of a job), or choose another path",
    )


def _rename_twice(stage: Path, target: Path, before: str, marker: str) -> None:
    aside = aside_of(target)
    shutil.rmtree(aside, ignore_errors=True)
    target.rename(aside)
    try:
        _require_seal(aside, target, before, marker)
        _rename_to_free(stage, target)
    except BaseException:
        with suppress(OSError):
            aside.rename(target)
        raise


def aside_of(target: Path) -> Path:
    """Where an old checkpoint waits between two renames; a name that gets too long is hashed."""
    name = _NAMED + target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = _HASHED + xxhash.xxh3_128_hexdigest(os.fsencode(target.name))
    return target.with_name(name)


def target_of(aside: Path) -> Path | None:
    """The path whose old checkpoint waits here; None for any other directory, and where the name was hashed."""
    name = aside.name.removeprefix(_NAMED)
    return aside.with_name(name) if name not in ("", aside.name) else None


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
