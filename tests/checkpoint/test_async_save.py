from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rlpipe.checkpoint.async_save import AsyncSaver, CopyMemory
from rlpipe.checkpoint.choose import latest, survey
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.retention import Retention
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.errors import CheckpointError, SelectionError, StateMismatchError, UnsupportedStateError
from rlpipe.snapshot import Snapshot, Spec, content_hash, ties
from rlpipe.snapshot.state import Array, arrays
from tests.checkpoint.components import Net, net, policy, tree


class SlowSeries(Series):
    """A series whose writes wait until they are let go."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        object.__setattr__(self, "gate", threading.Event())
        object.__setattr__(self, "writing", [])

    def write(self, snapshot: Snapshot | Restorable, *, step: int, **more: Any) -> Place:
        self.writing.append(step)  # type: ignore[attr-defined]
        assert self.gate.wait(30)  # type: ignore[attr-defined]
        return super().write(snapshot, step=step, **more)


def weights(path: Place) -> Any:
    with h5py.File(path / "state.h5") as file:
        return file["pi/weight"][()]


def big(value: float, *, count: int = 4, size: int = 250_000) -> Snapshot:
    state = {f"w{index}": np.full(size, value, np.float32) for index in range(count)}
    return Snapshot(Spec("rlpipe.Any"), state, dict.fromkeys(state, "inference"))


def test_what_changes_later_never_reaches_the_file(tmp_path: Path) -> None:
    live = net(1)
    before = live.actor.copy()
    slow = SlowSeries(folder=tmp_path)
    with AsyncSaver(slow) as saver:
        path = saver.save(live, step=1)
        live.actor += 100
        live.steps = 99
        slow.gate.set()  # type: ignore[attr-defined]
    assert np.array_equal(weights(path), before)
    assert read_checkpoint(path).state["steps"] == 1


def test_containers_of_a_snapshot_may_change_too(tmp_path: Path) -> None:
    """Lists, metadata and specs are the caller's as well."""
    snapshot = policy(1, items=[1, [2]])
    object.__setattr__(snapshot, "metadata", {"list": [1]})
    expected = content_hash(snapshot)
    slow = SlowSeries(folder=tmp_path)
    with AsyncSaver(slow) as saver:
        path = saver.save(snapshot, step=1)
        snapshot.state["items"][1].append(3)
        snapshot.state["encoder"]["0"]["weight"] += 1
        snapshot.metadata["list"].append(2)
        snapshot.spec.config["seed"] = 5  # type: ignore[index]
        slow.gate.set()  # type: ignore[attr-defined]
    found = read_checkpoint(path)
    assert content_hash(found) == expected
    assert found.metadata == {"list": [1]}


def test_many_saves_of_a_changing_net(tmp_path: Path) -> None:
    live = Net(64)
    with AsyncSaver(Series(folder=tmp_path, durability="none", retention=Retention(keep_last=5))) as saver:
        for step in range(40):
            live.actor[...] = step
            saver.save(live, step=step)
            live.actor[...] = -1
    for path in tmp_path.iterdir():
        assert (weights(path) == int(path.name.removeprefix("step-"))).all()
    assert sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir()) == list(range(35, 40))


def test_memory_is_used_again(tmp_path: Path) -> None:
    memory = CopyMemory()
    first = {id(array) for array in arrays(memory.copy(big(1)).state).values()}
    second = {id(array) for array in arrays(memory.copy(big(2)).state).values()}
    assert first == second
    assert len(first) == 4


def test_a_second_save_allocates_no_arrays(tmp_path: Path) -> None:
    live = [big(step) for step in range(3)]
    nbytes = 4 * 250_000 * 4
    with AsyncSaver(Series(folder=tmp_path)) as saver:
        tracemalloc.start()
        saver.save(live[0], step=0)
        saver.wait()
        first = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        saver.save(live[1], step=1)
        saver.wait()
        second = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
    assert first >= nbytes
    assert second < nbytes / 10


def test_memory_follows_the_state() -> None:
    memory = CopyMemory()
    memory.copy(big(1, count=8))
    memory.copy(big(1, count=2))
    assert sum(map(len, memory._buffers.values())) == 2
    copy = memory.copy(big(3, size=7))
    assert all((array == 3).all() and array.shape == (7,) for array in arrays(copy.state).values())


def test_ties_stay_ties() -> None:
    shared = np.arange(6.0)
    snapshot = tree(2, shared=shared)
    copy = CopyMemory().copy(snapshot)
    assert ties(copy) == ties(snapshot) != ()
    assert content_hash(copy) == content_hash(snapshot)
    found = copy.children["policies"].children["p0"].state["shared"]
    assert not np.shares_memory(found, shared)


@pytest.mark.parametrize(
    "array",
    [
        np.float32(1).reshape(()),
        np.zeros((0, 3)),
        np.arange(12).reshape(3, 4).T,
        np.arange(10)[::-2],
        np.ones(3, ">f8"),
    ],
    ids=["0-d", "empty", "transposed", "reversed", "big-endian"],
)
def test_arrays_of_all_kinds(array: Array) -> None:
    state = {"a": array, "b": [array, (array, None)]}
    snapshot = Snapshot(Spec("rlpipe.Any"), state, {"a": "inference", "b": "training"})
    memory = CopyMemory()
    for _ in range(2):
        copy = memory.copy(snapshot)
        assert np.array_equal(copy.state["a"], array)
        assert np.array_equal(copy.state["b"][1][0], array)


def test_at_most_one_is_pending(tmp_path: Path) -> None:
    slow = SlowSeries(folder=tmp_path)
    saver = AsyncSaver(slow)
    saver.save(policy(0), step=0)
    second = threading.Thread(target=saver.save, args=(policy(1),), kwargs={"step": 1})
    second.start()
    time.sleep(0.1)
    assert second.is_alive()
    assert slow.writing == [0]  # type: ignore[attr-defined]
    slow.gate.set()  # type: ignore[attr-defined]
    second.join()
    saver.close()
    assert slow.writing == [0, 1]  # type: ignore[attr-defined]


def test_threads_that_save_wait_for_their_turn(tmp_path: Path) -> None:
    saver = AsyncSaver(Series(folder=tmp_path, durability="none"))

    def train(first: int) -> None:
        for step in range(first, first + 25):
            saver.save(big(step, size=20_000), step=step)

    threads = [threading.Thread(target=train, args=(first,)) for first in (0, 100, 200)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    saver.close()
    found = {
        step: read_checkpoint(tmp_path / f"step-{step}").state
        for first in (0, 100, 200)
        for step in (first, first + 24)
    }
    assert len(list(tmp_path.iterdir())) == 75
    assert all({float(value) for array in state.values() for value in array} == {step} for step, state in found.items())


def test_a_save_by_the_handler_of_a_signal_in_the_middle_of_another_one(tmp_path: Path) -> None:
    saver = AsyncSaver(Series(folder=tmp_path))

    class Interrupted(Net):
        def get_own_state(self) -> Any:
            if self.steps == 1:
                self.steps = 2
                saver.save(big(5), step=5)
            return super().get_own_state()

    live = Interrupted()
    live.steps = 1
    saver.save(live, step=1)
    saver.save(big(6), step=6)
    saver.close()
    assert [each.step for each in survey(tmp_path).found] == [1, 5, 6]
    assert all(verify_checkpoint(each).ok for each in tmp_path.iterdir())


def test_attachments_travel_with_it(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    (exports / "policy.onnx").write_bytes(b"onnx")
    series = Series(folder=tmp_path / "runs")
    with AsyncSaver(series) as saver:
        path = saver.save(tree(2), step=1, attachments={"policies/p1": exports})
        plain = saver.save(tree(2), step=2)
        for wrong, error in (
            ({"policies/p9": exports}, SelectionError),
            ({"": tmp_path / "no"}, UnsupportedStateError),
        ):
            with pytest.raises(error):
                saver.save(tree(2), step=3, attachments=wrong)
    assert (Path(path) / "policies" / "p1" / "model" / "policy.onnx").read_bytes() == b"onnx"
    assert verify_checkpoint(path).ok
    assert not (Path(plain) / "policies" / "p1" / "model").exists()
    assert [each.step for each in survey(series.folder).found] == [1, 2]


@pytest.mark.parametrize("call", [lambda saver: saver.save(policy(2), step=2), AsyncSaver.wait, AsyncSaver.close])
def test_an_error_of_the_thread_comes_at_the_next_call_and_once(
    tmp_path: Path, call: Callable[[AsyncSaver], Any]
) -> None:
    saver = AsyncSaver(Series(folder=tmp_path))
    (tmp_path / "step-1").write_text("in the way")
    saver.save(policy(1), step=1)
    with pytest.raises(CheckpointError, match="not replaced") as caught:
        call(saver)
    assert caught.value.__notes__ == ["in the background, saving step 1"]
    saver.save(policy(3), step=3)
    saver.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-1", "step-3"]


def test_an_error_of_the_thread_comes_at_the_end_of_the_block(tmp_path: Path) -> None:
    (tmp_path / "step-1").write_text("in the way")
    with pytest.raises(CheckpointError), AsyncSaver(Series(folder=tmp_path)) as saver:
        saver.save(policy(1), step=1)


def save_and_fail(folder: Path, error: type[BaseException]) -> None:
    with AsyncSaver(Series(folder=folder)) as saver:
        saver.save(big(1), step=1)
        raise error


def test_it_hides_no_error_of_the_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "step-1").write_text("in the way")
    with pytest.raises(ZeroDivisionError):
        save_and_fail(tmp_path, ZeroDivisionError)
    assert "a save failed as well" in caplog.text
    assert "saving step 1" in caplog.text


def test_an_error_of_the_block_waits_for_the_save(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        save_and_fail(tmp_path, KeyboardInterrupt)
    assert latest(tmp_path).checkpoint.step == 1


def test_a_wait_that_is_interrupted_can_be_waited_for_again(tmp_path: Path) -> None:
    """As by Ctrl-C: the save goes on, and is still known."""
    slow = SlowSeries(folder=tmp_path)
    saver = AsyncSaver(slow)
    saver.save(policy(1), step=1)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(KeyboardInterrupt):
        saver.wait()
    threading.Timer(0.1, slow.gate.set).start()  # type: ignore[attr-defined]
    saver.close()
    assert latest(tmp_path).checkpoint.step == 1


def test_what_is_wrong_at_once_is_told_at_once(tmp_path: Path) -> None:
    with AsyncSaver(Series(folder=tmp_path)) as saver:
        with pytest.raises(UnsupportedStateError):
            saver.save(policy(1), step=-1)
        with pytest.raises(UnsupportedStateError, match="score"):
            saver.save(policy(1), step=1, score=float("nan"))
        with pytest.raises(StateMismatchError):
            saver.save(Roleless(), step=1)
        path = saver.save(policy(1), step=1)
        saver.wait()
        with pytest.raises(UnsupportedStateError):
            saver.save(read_checkpoint(path, arrays="none"), step=2)
    assert [each.name for each in tmp_path.iterdir()] == ["step-1"]


class Roleless(Net):
    def get_own_roles(self) -> Any:
        return {}


_TRAIN = """
import sys
from pathlib import Path
import numpy as np
from rlpipe.checkpoint.async_save import AsyncSaver
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.snapshot import Snapshot, Spec
folder = Path(sys.argv[1])
saver = AsyncSaver(Series(folder=folder))
state = {"w": np.zeros(8_000_000, np.float32)}
snapshot = Snapshot(Spec("rlpipe.Any"), state, {"w": "inference"})
"""


def run(folder: Path, ending: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _TRAIN + ending, str(folder)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize(
    ("ending", "codes"),
    [("", {0}), ("raise ZeroDivisionError", {1}), ("sys.exit(7)", {7}), ("raise KeyboardInterrupt", {1, -2, 130})],
)
def test_the_end_of_the_process_waits_for_the_save(tmp_path: Path, ending: str, codes: set[int]) -> None:
    done = run(tmp_path, f"saver.save(snapshot, step=3)\n{ending}")
    assert done.returncode in codes, done.stderr
    assert latest(tmp_path).checkpoint.step == 3
    assert [each.name for each in tmp_path.iterdir()] == ["step-3"]


def test_an_error_at_the_end_of_the_process_is_told(tmp_path: Path) -> None:
    (tmp_path / "step-3").write_text("in the way")
    done = run(tmp_path, "saver.save(snapshot, step=3)")
    assert "saving step 3" in done.stderr
    assert "not replaced" in done.stderr


def test_a_save_by_an_exit_handler_is_finished(tmp_path: Path) -> None:
    done = run(tmp_path, "import atexit\natexit.register(lambda: saver.save(snapshot, step=4))")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert latest(tmp_path).checkpoint.step == 4


def test_a_fork_in_the_middle_of_a_save_waits_for_nothing(tmp_path: Path) -> None:
    """Workers of environments are forked at any time."""
    ending = """
saver.save(snapshot, step=1)
import os
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
"""
    done = run(tmp_path, ending)
    assert done.returncode == 0, done.stderr
    assert latest(tmp_path).checkpoint.step == 1


def test_a_killed_process_leaves_the_one_before(tmp_path: Path) -> None:
    ending = (
        "saver.save(snapshot, step=1)\nsaver.wait()\nsaver.save(snapshot, step=2)\nimport os\nos.kill(os.getpid(), 9)"
    )
    assert run(tmp_path, ending).returncode == -9
    assert latest(tmp_path).checkpoint.step in (1, 2)
    Series(folder=tmp_path).write(policy(0), step=3)
    assert {each.name for each in tmp_path.iterdir()} <= {"step-1", "step-2", "step-3"}
