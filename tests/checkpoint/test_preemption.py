from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.choose import latest
from rlpipe.checkpoint.preemption import Preemption
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.errors import CheckpointNotFoundError, RlpipeError

TERM = signal.SIGTERM


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_without_a_signal_nothing_happens() -> None:
    before = signal.getsignal(TERM)
    with Preemption() as preemption:
        assert not preemption.requested
        assert signal.getsignal(TERM) != before
    assert signal.getsignal(TERM) == before


def test_finish() -> None:
    done = []

    def train() -> None:
        with Preemption() as preemption:
            while not preemption.requested:
                signal.raise_signal(TERM)
                done.append("this step")
            done.append("the last save")

    with pytest.raises(SystemExit) as caught:
        train()
    assert done == ["this step", "the last save"]
    assert caught.value.code == 143
    assert signal.getsignal(TERM) == signal.SIG_DFL


def test_a_second_signal_insists() -> None:
    done = []

    def train() -> None:
        with Preemption():
            signal.raise_signal(TERM)
            done.append("went on")
            signal.raise_signal(TERM)
            done.append("too long")

    with pytest.raises(SystemExit) as caught:
        train()
    assert done == ["went on"]
    assert caught.value.code == 143


def test_abandon() -> None:
    done = []

    def train() -> None:
        with Preemption(way="abandon"):
            try:
                signal.raise_signal(TERM)
            except Exception:  # noqa: BLE001  what training loops do
                done.append("caught")
            done.append("went on")

    with pytest.raises(SystemExit):
        train()
    assert done == []


def test_a_handler_that_was_there_gets_the_signal_at_the_end() -> None:
    seen: list[Any] = []
    signal.signal(TERM, lambda number, frame: seen.append((number, frame)))
    with Preemption() as preemption:
        signal.raise_signal(TERM)
        assert preemption.requested
        assert seen == []
    assert seen == [(TERM, None)]
    signal.raise_signal(TERM)
    assert len(seen) == 2


def test_a_handler_that_ends_the_process_comes_after_the_last_save() -> None:
    done = []

    def leave(*_: object) -> None:
        raise SystemExit(5)

    signal.signal(TERM, leave)

    def train() -> None:
        with Preemption():
            signal.raise_signal(TERM)
            done.append("the last save")

    with pytest.raises(SystemExit) as caught:
        train()
    assert caught.value.code == 5
    assert done


def test_where_it_was_ignored_the_program_goes_on() -> None:
    signal.signal(TERM, signal.SIG_IGN)
    with Preemption() as preemption:
        signal.raise_signal(TERM)
    assert preemption.requested


def test_an_error_of_the_block_goes_on() -> None:
    def train() -> None:
        with Preemption():
            signal.raise_signal(TERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert signal.getsignal(TERM) == signal.SIG_DFL


def test_nested_blocks_and_other_signals() -> None:
    seen = []

    def train() -> None:
        with Preemption(signals=(signal.SIGUSR1,)) as outer:
            with Preemption(signals=(signal.SIGUSR1, TERM)) as inner:
                signal.raise_signal(signal.SIGUSR1)
                seen.append((outer.requested, inner.requested))
            seen.append((outer.requested, inner.requested))

    with pytest.raises(SystemExit) as caught:
        train()
    assert seen == [(False, True), (True, True)]
    assert caught.value.code == 128 + signal.SIGUSR1


def test_it_can_be_entered_again() -> None:
    signal.signal(TERM, signal.SIG_IGN)
    preemption = Preemption()
    for _ in range(2):
        with preemption:
            assert not preemption.requested
            signal.raise_signal(TERM)


def test_another_thread_is_refused() -> None:
    errors: list[RlpipeError] = []

    def enter() -> None:
        try:
            with Preemption():
                pass
        except RlpipeError as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    [error] = errors
    assert "main thread" in error.expected


_LOOP = """
import sys, time
from pathlib import Path
import numpy as np
from rlpipe.checkpoint.async_save import AsyncSaver
from rlpipe.checkpoint.preemption import Preemption
from rlpipe.checkpoint.series import Series
from rlpipe.snapshot import Snapshot, Spec
folder, way = Path(sys.argv[1]), sys.argv[2]
state = {"w": np.zeros(4_000_000, np.float32)}
snapshot = Snapshot(Spec("rlpipe.Any"), state, {"w": "inference"})
with Preemption(way=way) as preemption, AsyncSaver(Series(folder=folder)) as saver:
    step = 0
    while not preemption.requested:
        step += 1
        if step == 3:
            print("running", flush=True)
        saver.save(snapshot, step=step)
        time.sleep(0.01)
    saver.save(snapshot, step=10**6)
"""

_WRITE = """
import os, signal, sys
from pathlib import Path
import numpy as np
from rlpipe.checkpoint.preemption import Preemption
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Snapshot, Spec
fsync = os.fsync
def signalled(descriptor):
    os.fsync = fsync
    signal.raise_signal(signal.SIGTERM)
    fsync(descriptor)
os.fsync = signalled
snapshot = Snapshot(Spec("rlpipe.Any"), {"w": np.zeros(9)}, {"w": "inference"})
print("running", flush=True)
with Preemption(way=sys.argv[2]):
    write_checkpoint(snapshot, Path(sys.argv[1]) / "x")
"""


def ended(program: str, folder: Path, way: str, *, terminate: bool) -> None:
    command = [sys.executable, "-c", program, str(folder), way]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        if terminate:
            child.terminate()
        assert child.wait(100) == 143
        assert child.stderr is not None
        assert child.stderr.read() == b""


@pytest.mark.parametrize("way", ["finish", "abandon"])
def test_a_training_loop(tmp_path: Path, way: str) -> None:
    ended(_LOOP, tmp_path, way, terminate=True)
    found = latest(tmp_path)
    assert (found.checkpoint.step == 10**6) == (way == "finish")
    assert found.notes == ()
    assert all(verify_checkpoint(path).ok for path in tmp_path.iterdir())


def test_a_save_that_runs_is_finished(tmp_path: Path) -> None:
    ended(_WRITE, tmp_path, "finish", terminate=False)
    assert verify_checkpoint(tmp_path / "x").ok


def test_a_save_that_runs_is_abandoned(tmp_path: Path) -> None:
    ended(_WRITE, tmp_path, "abandon", terminate=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointNotFoundError):
        latest(tmp_path)
