"""Reading what may be replaced meanwhile: the old one whole, or the new one whole.

Readers take no lock. A reader that meets a replacement finds files that do not belong together, or that are gone, and
hashes tell; it then reads again from the start. Only damage that stays is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.directory import locate
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.errors import CheckpointError

_T = TypeVar("_T")

_ATTEMPTS = 100
"""More than a reader ever needs beside a writer that does nothing but replace small checkpoints."""


def steadily(
    path: str | os.PathLike[str], read: Callable[[Place], _T], *, is_sound: Callable[[_T], bool] = lambda _: True
) -> _T:
    """Read a checkpoint; if that fails and the checkpoint was replaced meanwhile, read again.

    Args:
        path: The checkpoint. In a store none is ever replaced.
        read: Called with the directory that holds it, once or more.
        is_sound: Whether what was read shows no damage, for a `read` that reports damage in place of raising.

    Returns:
        What `read` gives.

    Raises:
        CheckpointError: Raised by `read`, twice while nothing was replaced.
        OSError: The same.
    """
    place = place_of(path)
    return read(place) if isinstance(place, Url) else _steadily(place, read, is_sound)


def _steadily(path: Path, read: Callable[[Place], _T], is_sound: Callable[[_T], bool]) -> _T:
    failed_at = None
    for _ in range(_ATTEMPTS):
        directory, before = _found(path)
        try:
            found = read(directory)
        except (CheckpointError, OSError):
            # A second look, as a time stamp may be too coarse to show a replacement.
            if failed_at == before == _found(path)[1]:
                raise
        else:
            if is_sound(found) or failed_at == before == _found(path)[1]:
                return found
        failed_at = before
    return read(locate(path))


def _found(path: Path) -> tuple[Path, tuple[str | int, ...]]:
    """Where the checkpoint lies, and its mark."""
    if mark := _mark(path):
        return path, mark
    directory = locate(path)
    return directory, _mark(directory)


def _mark(directory: Path) -> tuple[str | int, ...]:
    """Changes when the checkpoint is replaced; costs one call to the system. Empty if there is none."""
    try:
        status = os.stat(f"{directory}/{MANIFEST_NAME}")  # noqa: PTH116  pathlib costs as much as the call itself
    except OSError:
        return ()
    return (directory.name, status.st_ino, status.st_mtime_ns, status.st_size)
