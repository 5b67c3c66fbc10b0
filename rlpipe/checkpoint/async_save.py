"""Saving beside a training loop: the loop waits for a copy in memory, not for the disk.

    save()     waits for the save before it, raises its error, copies the arrays, and returns
    a thread   writes the copy; one at a time, so at most one save is pending
    close()    waits for the last one, and raises its error

The memory of the copy is used again by the next save: a loop pays for one copy of its state, once.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from rlpipe.checkpoint.attachments import files_of
from rlpipe.checkpoint.choose import made_at
from rlpipe.checkpoint.fit import require_read
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.series import Series, given
from rlpipe.errors import ConfigError
from rlpipe.snapshot.snapshot import Snapshot, below, ties, walk
from rlpipe.snapshot.state import Array, arrays, map_arrays

logger = logging.getLogger(__name__)


class AsyncSaver:
    """Writes the checkpoints of a series in a thread.

    Use it as a context manager; of several threads that save, each waits for its turn:

        with AsyncSaver(Series(folder="runs/a", retention=Retention(keep_last=3))) as saver:
            for step in range(...):
                ...
                saver.save(algorithm, step=step, score=mean_return)

    A pending save is finished when the process exits in an orderly way, also by an exception and without `close`. An
    exit handler (`atexit`) may save to a directory, but not to a store, whose library has ended by then. A process that
    is killed leaves the checkpoint before it, whole.
    """

    def __init__(self, series: Series) -> None:
        if not isinstance(series, Series):
            fix = "AsyncSaver(rlpipe.Series(folder='runs/a'))"
            raise ConfigError("series", expected="rlpipe.Series", found=repr(series)[:80], fix=fix)
        self.series = series
        self._memory = CopyMemory()
        self._pending: _Pending | None = None
        self._turns, self._process = threading.RLock(), os.getpid()

    def save(
        self,
        source: Snapshot | Restorable,
        *,
        step: int,
        score: float | None = None,
        attachments: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> Place:
        """Copy a state and write it later; what is live may change as soon as this returns.

        Args:
            source: A live object, or a snapshot.
            step: The step of training, from 0.
            score: How good it is, for `best`; None if nobody knows.
            attachments: Component path -> a folder whose files travel with it (see `write_checkpoint`). They are
                copied when it is written: leave them alone until `wait` returns.

        Returns:
            The directory that it will be in.

        Raises:
            RlpipeError: The save before it failed. This one was not begun, and may be tried again.
            ConfigError: What is to be saved is neither a live object nor a snapshot.
            UnsupportedStateError: A step, a score, a state or attachments that no checkpoint can hold.
            SelectionError: Attachments for a component that is not there.
            IdError: The name of an attachment that no file can have everywhere.
        """
        with self._turn():
            self.wait()
            made_at(step=step, score=score)
            snapshot = given("source", source)
            require_read(snapshot)
            files_of(snapshot, attachments or {})
            copy = self._memory.copy(snapshot)
            # A handler of a signal may have saved while this one was copied.
            self.wait()
            self._pending = _Pending(self.series, copy, step, score, dict(attachments or {}))
            self._begin(self._pending)
        return self.series.path_of(step)

    def _turn(self) -> threading.RLock:
        """What a thread holds while it saves or waits; a fork has its own, as nobody there lets go of another one."""
        if self._process != os.getpid():
            self._turns, self._process = threading.RLock(), os.getpid()
        return self._turns

    def _begin(self, pending: _Pending) -> None:
        if not threading.main_thread().is_alive():
            # The interpreter is ending, and waits for no new threads.
            pending.write()
            self.wait()
            return
        atexit.register(self._report_at_exit)
        _finish_at_the_end()
        try:
            # No daemon: the interpreter waits for it before it ends.
            threading.Thread(target=pending.write, name="rlpipe-async-save", daemon=False).start()
            _UNFINISHED.add(pending)
        except BaseException:
            # Nobody knows whether it runs; the next save must neither wait for it nor write to its memory.
            self._pending, self._memory = None, CopyMemory()
            raise

    def wait(self) -> None:
        """Wait until nothing is pending.

        Raises:
            RlpipeError: The pending save failed. It is raised once.
        """
        with self._turn():
            if self._pending is None or self._pending.process != os.getpid():
                # In a fork of the process that saves there is nothing to wait for.
                self._pending = None
                return
            # An event, as Thread.join takes a thread for finished when a signal interrupts it (CPython before 3.13).
            self._pending.done.wait()
            atexit.unregister(self._report_at_exit)
            error, self._pending = self._pending.error, None
            if error is not None:
                raise error

    def close(self) -> None:
        """Wait until nothing is pending, and let go of the memory. Saving again is allowed.

        Raises:
            RlpipeError: The pending save failed.
        """
        with self._turn():
            try:
                self.wait()
            finally:
                self._memory = CopyMemory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close. An error of the block goes on; that of a save is then logged, so that it hides nothing."""
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            logger.error("a save failed as well: %s", _told(failure))

    def _report_at_exit(self) -> None:
        """The interpreter has waited for the thread by now; nobody else would tell of its error."""
        try:
            self.wait()
        except Exception as failure:  # noqa: BLE001  it is told, and nothing can catch it any more
            logger.error("a save failed: %s", _told(failure))


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Pending:
    """One save, and how it ended."""

    series: Series
    snapshot: Snapshot
    step: int
    score: float | None
    attachments: Mapping[str, str | os.PathLike[str]]
    error: BaseException | None = None
    process: int = field(default_factory=os.getpid)
    done: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        """Write it; an error is kept for the one who waits."""
        try:
            self.series.write(self.snapshot, step=self.step, score=self.score, attachments=self.attachments)
        except BaseException as error:  # noqa: BLE001  it is raised where the loop calls next
            error.add_note(f"in the background, saving step {self.step}")
            self.error = error
        finally:
            self.done.set()


_UNFINISHED: WeakSet[_Pending] = WeakSet()
"""What may still be written; those that are done have an event that tells."""


@cache
def _finish_at_the_end() -> None:
    """Let the end of the process wait for what is pending, before anything else that happens then.

    The interpreter waits for threads by itself, but first it closes all executors, and the libraries of stores run on
    those. Of what is called at the end the first one is what was registered last, so executors have to come before.
    """
    import concurrent.futures.thread  # noqa: F401

    register = getattr(threading, "_register_atexit", None)
    with suppress(RuntimeError):  # the end has begun
        if register is not None:
            register(_finish)


def _finish() -> None:
    for each in list(_UNFINISHED):
        if each.process == os.getpid():
            each.done.wait()


def _told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@dataclass(slots=True)
class CopyMemory:
    """Memory that snapshots are copied to, used again for arrays of the same dtype and shape."""

    _buffers: dict[tuple[Any, ...], list[Array]] = field(default_factory=dict)

    def copy(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with all arrays copied, ties kept; it is valid until the next call."""
        free, self._buffers = self._buffers, {}
        copies: dict[int, Array] = {}
        for group in _same_arrays(snapshot):
            buffer = self._buffer(group[0], free)
            np.copyto(buffer, group[0])
            copies |= dict.fromkeys(map(id, group), buffer)
        return _with(snapshot, copies)

    def _buffer(self, array: Array, free: dict[tuple[Any, ...], list[Array]]) -> Array:
        kind = (array.dtype, array.shape)
        fitting = free.get(kind)
        buffer = fitting.pop() if fitting else np.empty(array.shape, array.dtype)
        self._buffers.setdefault(kind, []).append(buffer)
        return buffer


def _same_arrays(snapshot: Snapshot) -> Iterator[list[Array]]:
    """The arrays of a snapshot; those that are one in memory together."""
    found = {below(path, key): array for path, part in walk(snapshot) for key, array in arrays(part.state).items()}
    for keys in ties(snapshot):
        yield [found.pop(key) for key in keys]
    for array in found.values():
        yield [array]


def _with(snapshot: Snapshot, copies: dict[int, Array]) -> Snapshot:
    return replace(
        snapshot,
        spec=deepcopy(snapshot.spec),
        state={name: map_arrays(value, lambda array: copies[id(array)]) for name, value in snapshot.state.items()},
        roles=dict(snapshot.roles),
        children={name: _with(child, copies) for name, child in snapshot.children.items()},
        metadata=deepcopy(dict(snapshot.metadata)),
    )
