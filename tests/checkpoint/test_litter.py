from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint import litter, swap
from rlpipe.checkpoint.directory import staged
from rlpipe.checkpoint.litter import QUIET_SECONDS, discard, held, is_litter, new_stage, sweep
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.retention import Retention
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointExistsError
from tests.checkpoint.components import policy, tree

_HOLD = """
import sys, time
from pathlib import Path
from rlpipe.checkpoint.directory import staged
with staged(Path(sys.argv[1]), if_exists="error") as stage:
    (stage / "part").write_text("half")
    print(stage, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(target: Path, *prefix: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in the middle of a save, and the stage that it fills."""
    command = [*prefix, sys.executable, "-c", _HOLD, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def can_unshare() -> bool:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_the_next_save_sweeps_what_a_killed_one_left(tmp_path: Path) -> None:
    with another_process(tmp_path / "x") as (process, stage):
        process.kill()
        process.wait()
        assert is_litter(stage)
        assert (stage / "part").read_text() == "half"
        write_checkpoint(policy(0), tmp_path / "y")
    assert names(tmp_path) == ["y"]


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_living_process_is_left_alone(tmp_path: Path, stopped: bool) -> None:
    with another_process(tmp_path / "x") as (process, stage):
        if stopped:
            process.send_signal(19)
        write_checkpoint(policy(0), tmp_path / "y")
        assert (stage / "part").read_text() == "half"
        process.send_signal(18)
        process.communicate("")
        assert process.returncode == 0
    assert names(tmp_path) == ["x", "y"]


@pytest.mark.skipif(not can_unshare(), reason="makes a process namespace")
def test_a_living_process_of_another_container_is_left_alone(tmp_path: Path) -> None:
    """Its process id means nothing here, and is often that of one here."""
    with another_process(tmp_path / "x", "unshare", "--pid", "--fork", "--mount-proc") as (process, stage):
        write_checkpoint(policy(0), tmp_path / "y")
        assert (stage / "part").read_text() == "half"
        process.communicate("")
    assert names(tmp_path) == ["x", "y"]


def test_a_thread_of_this_process_is_left_alone(tmp_path: Path) -> None:
    with new_stage(tmp_path) as stage:
        thread = threading.Thread(target=write_checkpoint, args=(policy(0), tmp_path / "y"))
        thread.start()
        thread.join()
        assert stage.is_dir()
    write_checkpoint(policy(0), tmp_path / "z")
    assert names(tmp_path) == ["y", "z"]


@pytest.mark.parametrize("name", [".rlpipe-stage-0123456789abcdef-1", ".rlpipe-stage-unlocked-1", ".rlpipe-stage-77-1"])
def test_a_stage_of_another_machine_must_be_quiet_for_a_day(tmp_path: Path, name: str) -> None:
    stage = tmp_path / name
    (stage / "policies").mkdir(parents=True)
    (stage / "policies" / "state.h5").write_text("half")
    now = time.time()
    sweep(tmp_path, now=now)
    assert stage.is_dir()
    age(stage, now - QUIET_SECONDS - 10)
    # One file that is still written to is enough.
    os.utime(stage / "policies" / "state.h5", (now, now))
    sweep(tmp_path, now=now)
    assert stage.is_dir()
    age(stage, now - QUIET_SECONDS - 10)
    sweep(tmp_path, now=now)
    assert names(tmp_path) == []


def age(stage: Path, when: float) -> None:
    for each in (*stage.rglob("*"), stage):
        os.utime(each, (when, when))


def test_where_directories_cannot_be_locked_nobody_sweeps_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")  # what NFS says

    monkeypatch.setattr(fcntl, "flock", refuse)
    with new_stage(tmp_path) as stage:
        write_checkpoint(policy(0), tmp_path / "y")
        assert stage.is_dir()
        monkeypatch.undo()
        write_checkpoint(policy(0), tmp_path / "z")
        assert stage.is_dir()
    assert names(tmp_path) == [stage.name, "y", "z"]


def test_where_the_machine_has_no_name_nobody_sweeps_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litter, "_BOOT_ID", tmp_path / "none")
    litter._machine.cache_clear()
    try:
        with new_stage(tmp_path) as stage:
            write_checkpoint(policy(0), tmp_path / "y")
            assert stage.is_dir()
    finally:
        litter._machine.cache_clear()


def test_one_that_was_swept_in_life_gets_an_error(tmp_path: Path) -> None:
    """However it could come to that, no checkpoint with files missing takes the target's place."""
    with another_process(tmp_path / "x") as (process, stage):
        discard(stage)
        process.communicate("")
        assert process.returncode == 1
    assert names(tmp_path) == []


def test_a_sweep_between_making_and_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = litter._lock
    swept: list[Path] = []

    def lock(directory: Path) -> int:
        if not swept:
            swept.append(directory)
            sweep(directory.parent, now=time.time())
        return real(directory)

    monkeypatch.setattr(litter, "_lock", lock)
    with new_stage(tmp_path) as stage:
        assert stage != swept[0]
        assert names(tmp_path) == [stage.name]


def test_other_things_stay(tmp_path: Path) -> None:
    for name in ("dir", ".rlpipe-aside-name-x", ".hidden", "rlpipe-stage-1"):
        (tmp_path / name).mkdir()
    (tmp_path / ".rlpipe-stage-file").write_text("x")
    before = names(tmp_path)
    sweep(tmp_path, now=time.time())
    assert names(tmp_path) == before
    sweep(tmp_path / "nothing", now=time.time())


def test_discarding_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        discard(tmp_path / "nothing")


def test_names_say_nothing_of_who_and_where(tmp_path: Path) -> None:
    with new_stage(tmp_path) as stage:
        assert os.uname().nodename not in stage.name
        assert litter._BOOT_ID.read_text().strip() not in stage.name


def test_what_is_replaced_is_not_swept_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own writer lets go of it before, and under the name of a stage it looks like what a dead one left."""
    exchange, seen = swap._exchange, []

    def exchange_and_sweep(left: Path, right: Path) -> bool:
        done = exchange(left, right)
        sweep(tmp_path, now=time.time())
        seen.append(read_checkpoint(left).state["steps"])
        return done

    write_checkpoint(policy(1), tmp_path / "x")
    monkeypatch.setattr(swap, "_exchange", exchange_and_sweep)
    write_checkpoint(policy(2), tmp_path / "x", if_exists="replace")
    assert seen == [1]
    assert names(tmp_path) == ["x"]


def test_of_many_that_replace_each_wins_or_is_told_that_another_did(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "x")
    told: list[BaseException] = []
    won: list[int] = []

    def replace(first: int) -> None:
        for step in range(first, first + 25):
            try:
                write_checkpoint(policy(step), tmp_path / "x", if_exists="replace", durability="none")
                won.append(step)
            except CheckpointError as error:
                told.append(error)

    threads = [threading.Thread(target=replace, args=(first,)) for first in (100, 200, 300, 400)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {type(each) for each in told} <= {CheckpointExistsError}
    assert read_checkpoint(tmp_path / "x").state["steps"] in won
    assert names(tmp_path) == ["x"]


def test_one_who_does_not_let_go_is_waited_for_in_vain_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litter, "_PATIENCE", 0.05)
    write_checkpoint(policy(1), tmp_path / "x")
    lock = litter._lock(tmp_path / "x")
    try:
        write_checkpoint(policy(2), tmp_path / "x", if_exists="replace")
    finally:
        os.close(lock)
    assert read_checkpoint(tmp_path / "x").state["steps"] == 2


def test_a_fork_keeps_no_lock(tmp_path: Path) -> None:
    with held(tmp_path):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until the other end is closed
            os._exit(0)
        os.close(reading)
    try:
        os.close(litter._lock(tmp_path))
    finally:
        os.close(writing)
        os.waitpid(child, 0)


@pytest.mark.parametrize("calls", [1, 2, 5])
@pytest.mark.parametrize("act", ["replace", "retain", "fail"])
def test_a_signal_in_the_middle_of_removing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, calls: int
) -> None:
    unlink, left = os.unlink, [calls]

    def interrupted(*args: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise SystemExit(143)
        unlink(*args, **more)

    series = Series(folder=tmp_path, retention=Retention(keep_last=1))
    series.write(tree(3), step=1)
    acts: dict[str, Callable[[], object]] = {
        "replace": lambda: series.write(tree(3), step=1),
        "retain": lambda: series.write(tree(3), step=2),
        "fail": lambda: stop_in_a_save(tmp_path / "x"),
    }
    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(SystemExit):
        acts[act]()
    monkeypatch.undo()
    assert [each for each in names(tmp_path) if each.startswith(".")] == []
    assert all(verify_checkpoint(each).ok for each in tmp_path.iterdir())


def stop_in_a_save(path: Path) -> None:
    with staged(path, if_exists="error") as stage:
        for index in range(9):
            (stage / str(index)).write_text("half")
        raise ZeroDivisionError
