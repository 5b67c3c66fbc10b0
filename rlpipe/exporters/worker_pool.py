"""Worker processes, one for each target and each job that runs at a time; a crash or a hang ends only one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from rlpipe.exporters.job import Job, read_result
from rlpipe.exporters.report import TargetReport
from rlpipe.exporters.target import Arrays

START_SECONDS = 300.0
"""After so long without a sign, a worker that should come up counts as hung."""


class Stopped(Exception):  # noqa: N818 - ends the work of a pool that was closed; never reaches the caller
    """The pool was closed while a job was waiting or running."""


class WorkerPool:
    """Starts workers when they are needed and keeps them for the next job of their target.

    Use it as a context manager: at the end of the block every worker is gone, whatever it was doing.
    """

    def __init__(self) -> None:
        self._idle: dict[str, list[_Worker]] = {}
        self._busy: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, job: Job, *, seconds: float) -> tuple[TargetReport, Arrays]:
        """Do a job in a worker of its target.

        Args:
            job: The job; its folder for results is there and empty.
            seconds: After so long its worker is ended.

        Returns:
            The row, also for a crash or a time-out, and the artifact's answers to the golden vectors.

        Raises:
            Stopped: The pool was closed.
        """
        worker = self._take(job.target)
        try:
            problem = worker.do(job, seconds)
        except BaseException:
            worker.end()
            raise
        finally:
            self._give_back(job.target, worker)
        if problem:
            return TargetReport(target=job.target, status="failed", message=problem, options=job.options), {}
        return read_result(Path(job.results))

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            self._closed = True
            workers = [*self._busy, *(worker for idle in self._idle.values() for worker in idle)]
            self._idle.clear()
        for worker in workers:
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, target_id: str) -> _Worker:
        with self._lock:
            if self._closed:
                raise Stopped
            idle = self._idle.setdefault(target_id, [])
            worker = idle.pop() if idle else _Worker()
            self._busy.add(worker)
        return worker

    def _give_back(self, target_id: str, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            if worker.alive and not self._closed:
                self._idle.setdefault(target_id, []).append(worker)
                return
        worker.end()
        if self._closed:
            raise Stopped


class _Worker:
    """One process, in a session of its own, so that what it starts can be ended with it."""

    def __init__(self) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        search = os.pathsep.join(dict.fromkeys(path for path in sys.path if path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rlpipe.exporters.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,
            text=True,
        )
        self._is_ready = False
        self._ending, self._ended = threading.Lock(), False

    @property
    def alive(self) -> bool:
        """Whether it can take another job."""
        return not self._ended and self._process.poll() is None

    def do(self, job: Job, seconds: float) -> str:
        """Do a job; returns what ended the worker, or ""."""
        if not self._is_ready:
            problem = self._answer(START_SECONDS, "it did not start")
            if problem:
                return problem
            self._is_ready = True
        if self._process.stdin is None:
            return "its input is closed"
        try:
            self._process.stdin.write(job.to_line() + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            self.end()
            return "the process that exported died before it was given anything"
        return self._answer(seconds, "the export")

    def _answer(self, seconds: float, what: str) -> str:
        """Wait for a line; "" if it came."""
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            self._kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else ""
        finally:
            timer.cancel()
        if line:
            return ""
        problem = self._obituary()
        if timed_out.is_set():
            problem = f"{what} took longer than {seconds:g} s and was ended\n  fix: allow more time (timeout)"
        self.end()
        return problem

    def _obituary(self) -> str:
        code = self._process.wait()
        reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._log.seek(0)
        last = self._log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"the process that exported died: {reason}" + "".join(f"\n  found: {line}" for line in last)

    def end(self) -> None:
        """End it and what it started; a second time does nothing."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            self._kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
