"""Directories that are no checkpoints: being filled, about to go, or left over by a killed process.

    .rlpipe-stage-<machine>-<random>   being filled; its process holds a lock (flock) on the directory
    .rlpipe-trash-<random>             was a checkpoint, or a stage; anyone may remove it at any time
    .rlpipe-aside-<name>               an old checkpoint between two renames (see `directory`); never swept

Each save removes what killed ones left beside it. No stage of a live process may go that way, so this is how one is
told dead:

- **Made on this machine** (the name holds a hash of the kernel's boot id): the lock can be had. The kernel drops it
  when the process ends, however it ends. Unlike a process id it means the same in every container, and is never given
  to another process.
- **Made elsewhere**, before a reboot, or where directories cannot be locked (NFS): nothing in it has changed for a day,
  by the clock of the file system. Locks may not reach across machines, so they are not asked.

What is removed is renamed first. If its process lives after all, its own rename fails and it gets an error: a
checkpoint with files missing never comes to be.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import xxhash

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

STAGE_PREFIX = ".rlpipe-stage-"
TRASH_PREFIX = ".rlpipe-trash-"
ASIDE_PREFIX = ".rlpipe-aside-"
_SWEPT = (STAGE_PREFIX, TRASH_PREFIX)

QUIET_SECONDS = 24 * 60 * 60.0
"""So long must a stage that cannot be asked for its process have been left alone."""

_PATIENCE = 5.0
"""Seconds that one who replaces a checkpoint waits for the one before; that one only has to remove files by then."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NO_LOCK = "unlocked"


def is_litter(path: Path) -> bool:
    """Whether a directory is a stage, or what a killed process left over; never a checkpoint to be listed."""
    return path.name.startswith((STAGE_PREFIX, TRASH_PREFIX, ASIDE_PREFIX))


@contextmanager
def new_stage(parent: Path) -> Iterator[Path]:
    """A new directory that no sweep removes while the block runs; the litter of dead processes beside it is removed.

    Args:
        parent: Where it is made.

    Yields:
        The directory. What becomes of it is up to the block.

    Raises:
        OSError: It cannot be made.
    """
    stage, lock = _make_stage(parent)
    try:
        try:
            if _litter_in(parent) != [stage.name]:
                sweep(parent, now=stage.stat().st_mtime)
        except BaseException:
            remove(stage)
            raise
        yield stage
    finally:
        _unlock(lock)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep other saves from replacing a checkpoint, and from sweeping it under its next name, while the block runs.

    Its writer, or another one that replaces it, is waited for, but not for ever, and where directories cannot be locked
    the block runs all the same: whoever replaces must look at what is there by itself. Readers take no lock.

    Args:
        directory: The checkpoint, which may be gone.
    """
    lock, last = None, time.monotonic() + _PATIENCE
    while lock is None and time.monotonic() < last:
        try:
            lock = _lock(directory)
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            break
    try:
        yield
    finally:
        _unlock(lock)


def sweep(parent: Path, *, now: float) -> None:
    """Remove the litter of dead processes. What cannot be removed is left for the next sweep.

    Args:
        parent: The directory to sweep; not those below.
        now: The time by the clock of its file system, in seconds, as in `st_mtime`.
    """
    for name in _litter_in(parent):
        _sweep_one(parent / name, now)


def _litter_in(parent: Path) -> list[str]:
    """Names of stages, in use or not, and of trash in a directory, sorted; none if it cannot be listed."""
    try:
        return sorted(name for name in os.listdir(parent) if name.startswith(_SWEPT))  # noqa: PTH208
    except OSError:
        return []


def discard(path: Path) -> None:
    """Remove a directory: it is there in full until it is gone, for every reader and after every kill.

    Raises:
        OSError: It cannot be renamed; it is as it was.
    """
    trash = path.with_name(TRASH_PREFIX + os.urandom(8).hex())
    try:
        path.rename(trash)
    finally:
        remove(trash)


def remove(path: Path) -> None:
    """Remove a directory, as far as the system lets it be.

    What a signal's exception stops, such as that of Ctrl-C, is finished before the exception goes on.
    """
    try:
        shutil.rmtree(path, ignore_errors=True)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _make_stage(parent: Path) -> tuple[Path, int | None]:
    """A new directory and the descriptor that locks it; None where directories cannot be locked."""
    machine = _machine()
    while True:
        stage = parent / f"{STAGE_PREFIX}{machine}-{os.urandom(8).hex()}"
        stage.mkdir()
        if machine == _NO_LOCK:
            return stage, None
        try:
            lock = _lock(stage)
        except (BlockingIOError, FileNotFoundError):
            continue  # A sweep came between the two calls. It removes the directory.
        except OSError:
            stage.rmdir()
            machine = _NO_LOCK
            continue
        if _is_at(stage, lock):
            return stage, lock
        _unlock(lock)


def _sweep_one(path: Path, now: float) -> None:
    lock = None
    try:
        if path.name.startswith(STAGE_PREFIX):
            lock = _take_from_the_dead(path, now)
            discard(path)
            logger.info("removed %s, which a process that was killed left there", path)
        else:
            remove(path)
    except OSError:
        return
    finally:
        _unlock(lock)


def _take_from_the_dead(stage: Path, now: float) -> int | None:
    """The lock of a stage whose process is gone; None for one that was left alone for long enough.

    Raises:
        BlockingIOError: Its process lives, or may live.
    """
    machine = stage.name.removeprefix(STAGE_PREFIX).partition("-")[0]
    if machine == _machine() != _NO_LOCK:
        return _lock(stage)
    if now - _last_change(stage) < QUIET_SECONDS:
        raise BlockingIOError(f"{stage} may be in use")
    return None


def _last_change(directory: Path) -> float:
    """The newest time of change of a directory and everything in it."""
    return max(each.lstat().st_mtime for each in (directory, *directory.rglob("*")))


def _lock(directory: Path) -> int:
    """Lock a directory as long as the descriptor that is returned is open.

    Raises:
        BlockingIOError: Another process, or thread, holds it.
        OSError: There is no such directory, or it cannot be locked here.
    """
    if sys.platform == "win32":
        raise OSError(f"{directory} cannot be locked")
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is None:
        return
    if sys.platform != "win32":
        # Closing alone would leave it locked for a fork that this process had meanwhile.
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@cache
def _machine() -> str:
    """A name for the running kernel, one for all containers in it; it says nothing about who or where."""
    try:
        return xxhash.xxh3_64_hexdigest(_BOOT_ID.read_bytes())
    except OSError:
        return _NO_LOCK
