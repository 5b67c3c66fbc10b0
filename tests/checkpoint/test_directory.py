from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpipe.checkpoint import directory
from rlpipe.checkpoint.directory import is_litter, list_checkpoints, staged
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.errors import CheckpointError, CheckpointExistsError
from tests.checkpoint.campaign import Attempts, interposed, require_old_or_new, save


@pytest.fixture(params=[False, True], ids=["new", "replacing"])
def had_old(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def can_exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(directory, "_renameat2", lambda: None)
    return bool(request.param)


@pytest.fixture
def attempts(tmp_path: Path, had_old: bool) -> Attempts:
    return Attempts(tmp_path, had_old=had_old)


@pytest.mark.usefixtures("can_exchange")
def test_a_failure_anywhere_leaves_old_or_new(attempts: Attempts) -> None:
    for failing in range(attempts.calls):
        parent = attempts.place(f"try{failing}")
        seen = iter(range(attempts.calls + 10))

        def before(name: str, failing: int = failing, seen: Iterator[int] = seen) -> None:
            if next(seen) == failing:
                raise OSError(errno.ENOSPC if failing % 2 else errno.EIO, f"no luck with {name}")

        with interposed(before), pytest.raises(CheckpointError, match="no luck"):
            save(parent / "ckpt", 1, "replace")
        assert not any(is_litter(each) for each in parent.iterdir())
        require_old_or_new(parent, had_old=attempts.had_old)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("old", ["new", "replacing"])
@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_anywhere_leaves_old_or_new(tmp_path: Path, old: str, way: str) -> None:
    command: list[str | Path] = [sys.executable, "-m", "tests.checkpoint.campaign", tmp_path, old, way]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_between_two_renames_the_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_renameat2", lambda: None)
    save(tmp_path / "ckpt", 0, "error")
    (tmp_path / "ckpt").rename(directory._aside(tmp_path / "ckpt"))
    assert read_checkpoint(tmp_path / "ckpt").state["steps"] == 0
    save(tmp_path / "ckpt", 1, "error")
    assert read_checkpoint(tmp_path / "ckpt").children
    assert [each.name for each in tmp_path.iterdir()] == ["ckpt"]


def test_two_writers_to_one_path(tmp_path: Path) -> None:
    results: list[str] = []
    barrier = threading.Barrier(2)

    def write(seed: int) -> None:
        barrier.wait()
        try:
            save(tmp_path / "ckpt", seed, "error")
            results.append("wrote")
        except CheckpointExistsError as error:
            results.append(error.fix)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert results.count("wrote") == 1
    assert any("another path" in result for result in results)
    assert verify_checkpoint(tmp_path / "ckpt").ok
    assert [each.name for each in tmp_path.iterdir()] == ["ckpt"]


def test_another_writer_that_was_faster_is_not_overrun(tmp_path: Path) -> None:
    def write_late() -> None:
        with staged(tmp_path / "x", if_exists="error") as stage:
            (stage / "file").write_text("late")
            (tmp_path / "x").mkdir()
            (tmp_path / "x" / "file").write_text("early")

    with pytest.raises(CheckpointExistsError, match="another process"):
        write_late()
    assert (tmp_path / "x" / "file").read_text() == "early"


def test_litter_is_no_checkpoint(tmp_path: Path) -> None:
    with staged(tmp_path / "x", if_exists="error") as stage:
        (stage / "manifest.json").write_text("{}")
        assert is_litter(stage)
        assert list_checkpoints(tmp_path) == []
    assert list_checkpoints(tmp_path) == [tmp_path / "x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_is_stopped_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def write_half() -> None:
        with staged(tmp_path / "x", if_exists="error") as stage:
            (stage / "file").write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_lists_only_complete_checkpoints(tmp_path: Path) -> None:
    for name in ("b", "a"):
        save(tmp_path / name, 0, "error")
    (tmp_path / "half").mkdir()
    (tmp_path / "file").write_text("x")
    assert list_checkpoints(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert list_checkpoints(tmp_path / "nothing") == []


def test_a_symlink_to_a_checkpoint_stays_one_when_it_is_replaced(tmp_path: Path) -> None:
    save(tmp_path / "real", 0, "error")
    (tmp_path / "link").symlink_to("real")
    save(tmp_path / "link", 1, "replace")
    assert (tmp_path / "link").is_symlink()
    assert read_checkpoint(tmp_path / "real").children


def test_long_and_odd_names(tmp_path: Path) -> None:
    for name in ("x" * 255, "a b,c=d#[e]", "ünï"):
        save(tmp_path / name, 0, "error")
        save(tmp_path / name, 1, "replace")
        assert read_checkpoint(tmp_path / name).children


def test_other_directories_can_be_staged_under_another_marker(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with staged(tmp_path / "x", if_exists="replace", marker="record.json") as stage:
            (stage / "record.json").write_text(text)
    assert (tmp_path / "x" / "record.json").read_text() == "two"
    with pytest.raises(CheckpointExistsError), staged(tmp_path / "x", if_exists="replace"):
        pass
