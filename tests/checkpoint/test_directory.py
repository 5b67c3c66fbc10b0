from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from rlpipe.backends.array_file import write_file
from rlpipe.checkpoint import swap
from rlpipe.checkpoint.directory import list_checkpoints, make_directories, staged, sync_directory
from rlpipe.checkpoint.litter import is_litter
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointError, CheckpointExistsError
from tests.checkpoint.components import policy, tree


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def can_exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(swap, "_renameat2", lambda: None)
    return bool(request.param)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_between_two_renames_the_old_one_is_found(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "ckpt")
    (tmp_path / "ckpt").rename(swap.aside_of(tmp_path / "ckpt"))
    assert read_checkpoint(tmp_path / "ckpt").state["steps"] == 0
    assert list_checkpoints(tmp_path) == [tmp_path / "ckpt"]
    with pytest.raises(CheckpointExistsError):
        write_checkpoint(policy(1), tmp_path / "ckpt")
    write_checkpoint(tree(1), tmp_path / "ckpt", if_exists="replace")
    assert read_checkpoint(tmp_path / "ckpt").children
    assert names(tmp_path) == ["ckpt"]


def test_what_was_set_aside_is_not_listed_twice(tmp_path: Path) -> None:
    name = "x" * 255
    for each in ("ckpt", name):
        write_checkpoint(policy(0), tmp_path / each)
        write_checkpoint(policy(0), swap.aside_of(tmp_path / each))
    assert list_checkpoints(tmp_path) == [tmp_path / "ckpt", tmp_path / name]


@pytest.mark.parametrize("if_exists", ["error", "replace"])
@pytest.mark.usefixtures("can_exchange")
def test_two_writers_to_one_path(tmp_path: Path, if_exists: Any) -> None:
    """Both begin before either commits."""
    if if_exists == "replace":
        write_checkpoint(policy(9), tmp_path / "ckpt")
    results: list[str] = []
    barrier = threading.Barrier(2)

    def write(seed: int) -> None:
        try:
            with staged(tmp_path / "ckpt", if_exists=if_exists) as stage:
                write_file(stage / "manifest.json", b"%d" % seed, durability="fsync")
                barrier.wait()
            results.append(f"wrote {seed}")
        except CheckpointExistsError as error:
            results.append(error.subject)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [wrote] = [each for each in results if each.startswith("wrote")]
    [refused] = [each for each in results if each != wrote]
    assert "meanwhile" in refused
    assert (tmp_path / "ckpt" / "manifest.json").read_text() == wrote[-1]
    assert names(tmp_path) == ["ckpt"]


@pytest.mark.parametrize("if_exists", ["error", "replace"])
def test_another_writer_that_was_faster_is_not_overrun(tmp_path: Path, if_exists: Any) -> None:
    def write_late() -> None:
        with staged(tmp_path / "x", if_exists=if_exists) as stage:
            (stage / "file").write_text("late")
            (tmp_path / "x").mkdir()
            (tmp_path / "x" / "file").write_text("early")

    with pytest.raises(CheckpointExistsError, match="another process"):
        write_late()
    assert (tmp_path / "x" / "file").read_text() == "early"
    assert names(tmp_path) == ["x"]


@pytest.mark.usefixtures("can_exchange")
def test_what_goes_away_meanwhile_is_no_obstacle(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "x")
    with staged(tmp_path / "x", if_exists="replace") as stage:
        write_file(stage / "manifest.json", b"new", durability="fsync")
        (tmp_path / "x").rename(tmp_path / "y")
    assert (tmp_path / "x" / "manifest.json").read_text() == "new"


def test_litter_is_no_checkpoint(tmp_path: Path) -> None:
    with staged(tmp_path / "x", if_exists="error") as stage:
        (stage / "manifest.json").write_text("{}")
        assert is_litter(stage)
        assert list_checkpoints(tmp_path) == []
    assert list_checkpoints(tmp_path) == [tmp_path / "x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, SystemExit])
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
        write_checkpoint(policy(0), tmp_path / name)
    (tmp_path / "half").mkdir()
    (tmp_path / "file").write_text("x")
    assert list_checkpoints(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert list_checkpoints(tmp_path / "nothing") == []


def test_a_symlink_to_a_checkpoint_stays_one_when_it_is_replaced(tmp_path: Path) -> None:
    write_checkpoint(policy(0), tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    write_checkpoint(tree(1), tmp_path / "link", if_exists="replace")
    assert (tmp_path / "link").is_symlink()
    assert read_checkpoint(tmp_path / "real").children


@pytest.mark.usefixtures("can_exchange")
@pytest.mark.parametrize("name", ["x" * 255, "a b,c=d#[e]", "ünï", "-name-", "a%20b"])
def test_long_and_odd_names(tmp_path: Path, name: str) -> None:
    write_checkpoint(policy(0), tmp_path / name)
    write_checkpoint(tree(1), tmp_path / name, if_exists="replace")
    assert read_checkpoint(tmp_path / name).children
    assert names(tmp_path) == [name]


def test_other_directories_can_be_staged_under_another_marker(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with staged(tmp_path / "x", if_exists="replace", marker="record.json") as stage:
            (stage / "record.json").write_text(text)
    assert (tmp_path / "x" / "record.json").read_text() == "two"
    with pytest.raises(CheckpointExistsError), staged(tmp_path / "x", if_exists="replace"):
        pass


@pytest.mark.parametrize(
    ("mask", "of_files", "of_directories"), [(0o022, 0o644, 0o755), (0o027, 0o640, 0o750), (0, 0o666, 0o777)]
)
@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_modes_follow_the_umask(tmp_path: Path, backend: str, mask: int, of_files: int, of_directories: int) -> None:
    before = os.umask(mask)
    try:
        write_checkpoint(tree(1), tmp_path / "new" / "ckpt", backend=backend)
    finally:
        os.umask(before)
    for path in ((tmp_path / "new"), *(tmp_path / "new").rglob("*")):
        assert path.stat().st_mode & 0o777 == (of_directories if path.is_dir() else of_files), path


@pytest.mark.parametrize(("durability", "expected"), [("fsync", 6), ("none", 0)])
def test_durability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, expected: int) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    make_directories(tmp_path / "a" / "b", durability=durability)
    with staged(tmp_path / "a" / "b" / "c" / "x", if_exists="error", durability=durability) as stage:
        write_file(stage / "manifest.json", b"{}", durability=durability)
        sync_directory(stage, durability=durability)
    assert len(synced) == expected


def test_a_name_that_does_not_reach_the_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(policy(0), tmp_path / "x")

    def write() -> None:
        with staged(tmp_path / "x", if_exists="replace") as stage:
            write_file(stage / "manifest.json", b"new", durability="fsync")
            monkeypatch.setattr(os, "fsync", _fails)

    with pytest.raises(CheckpointError, match="power failure may undo it"):
        write()
    assert (tmp_path / "x" / "manifest.json").read_text() == "new"
    # The old one may be all that a power failure leaves, so it stays until the next save.
    assert len(names(tmp_path)) == 2
    monkeypatch.undo()
    write_checkpoint(policy(1), tmp_path / "y")
    assert names(tmp_path) == ["x", "y"]
    assert verify_checkpoint(tmp_path / "y").ok


def _fails(_: int) -> None:
    raise OSError(5, "Input/output error")


def gone(folder: Path) -> Path:
    """A relative path in a current directory that was removed."""
    os.chdir(folder)
    folder.rmdir()
    return Path("ckpt")


UNWRITABLE: dict[str, Any] = {
    "too long a name": lambda folder: folder / ("x" * 256),
    "too long a path": lambda folder: folder.joinpath(*["x" * 200] * 25),
    "through nothing": lambda _: Path("nothing/../ckpt"),
    "here": lambda _: Path(),
    "around here": lambda folder: folder.parent,
    "everything": lambda _: Path("/"),
    "nowhere": gone,
}


@pytest.mark.parametrize("if_exists", ["error", "replace"])
@pytest.mark.parametrize("name", UNWRITABLE)
def test_where_nobody_would_find_it_nothing_is_written(
    tmp_path: Path, name: str, if_exists: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(CheckpointError, match="nothing can be written at"):
        write_checkpoint(policy(1), UNWRITABLE[name](folder), if_exists=if_exists)
    assert [each for each in tmp_path.rglob("*") if each != folder] == []


def test_a_checkpoint_around_the_current_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tree(1), tmp_path / "x")
    monkeypatch.chdir(tmp_path / "x" / "policies")
    for path in (tmp_path / "x", Path("..")):
        with pytest.raises(CheckpointError, match="nothing can be written at"):
            write_checkpoint(tree(2), path, if_exists="replace")
    write_checkpoint(tree(2), Path("../../y"))
    write_checkpoint(tree(2), tmp_path / "z")
    assert verify_checkpoint(tmp_path / "x").ok


def test_a_removed_current_directory_hinders_no_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    for seed in (1, 2):
        write_checkpoint(policy(seed), tmp_path / "x", if_exists="replace")
    assert read_checkpoint(tmp_path / "x").state["steps"] == 2
