"""When the machine is taken away: SIGTERM, and some seconds to finish or to abandon."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeAlias

from rlpipe.errors import RlpipeError

_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


class Preemption:
    """Tells a training loop that the process is to end.

        with Preemption() as preemption, AsyncSaver(series) as saver:
            while step < last and not preemption.requested:
                ...
            saver.save(algorithm, step=step)

    - `way="finish"`: the signal only sets `requested`; a save that is running goes on undisturbed. The loop looks at
      `requested`, saves, and leaves the block. A second signal is taken as with "abandon".
    - `way="abandon"`: the loop is left at once by `SystemExit`, which `except Exception` does not catch. A save that is
      running in it leaves nothing behind; one in the thread of an `AsyncSaver` is finished before the process ends.

    The handler that was there before gets the signal when the block ends, in place of the loop: it may end the process
    itself. Where there was none, the block ends in `SystemExit` with code 128 + the signal's number, which is what a
    scheduler sees of a process that the signal ended. Where the signal was ignored before, the program just goes on.
    Entered and left in the main thread. Blocks may be nested: the outer one is told when the inner one ends.
    """

    def __init__(
        self,
        *,
        way: Literal["finish", "abandon"] = "finish",
        signals: tuple[signal.Signals, ...] = (signal.SIGTERM,),
    ) -> None:
        self.way = way
        self.signals = signals
        self._before: dict[signal.Signals, _Handler] = {}
        self._received: signal.Signals | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    def __enter__(self) -> Self:
        """Take over the signals.

        Raises:
            RlpipeError: This is not the main thread, or a handler could not be put back later.
        """
        before: dict[signal.Signals, _Handler] = {each: signal.getsignal(each) for each in self.signals}
        if threading.current_thread() is not threading.main_thread() or None in before.values():
            raise RlpipeError(
                "the signal cannot be taken over here",
                expected="the main thread, and a handler that Python knows",
                found=f"{threading.current_thread().name}, {before}",
                fix="enter the block in the main thread",
            )
        self._received, self._before = None, before
        for each in self.signals:
            signal.signal(each, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the handlers back, and hand the signal on. An error of the block goes on in place of `SystemExit`."""
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if self._received is None:
            return
        handler = self._before[self._received]
        if callable(handler):
            handler(self._received, None)
        elif handler == signal.SIG_DFL and error is None:
            raise _exit_of(self._received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        is_second, self._received = self.requested, signal.Signals(number)
        if is_second or self.way == "abandon":
            raise _exit_of(self._received)


def _exit_of(number: signal.Signals) -> SystemExit:
    return SystemExit(128 + number)
