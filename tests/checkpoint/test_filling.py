"""What a restore reads straight into memory: the right numbers, or nothing."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rlpipe.backends.array_file import PIECE
from rlpipe.checkpoint.array_info import StoredArray
from rlpipe.checkpoint.filling import _MOST_OPEN
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build, restore_into, snapshot_of
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import IntegrityError, SpecError, UnsupportedStateError
from rlpipe.snapshot import Selection, diff
from tests.checkpoint.components import TRUST, Awkward, Losing, Open, Team

SIZE = 200_000


def made(kind: type[Open], seed: int, size: int = SIZE, *, is_tied: bool = False) -> Open:
    net = kind(size, is_tied=is_tied)
    rng = np.random.default_rng(seed)
    net.actor[...] = rng.random(net.actor.shape, np.float32)
    if not is_tied:
        net.critic[...] = rng.random(net.actor.shape, np.float32)
    net.steps = seed
    return net


@pytest.fixture(params=["hdf5", "pickle"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(snapshot_of(made(Open, 1)), tmp_path / "ckpt", backend=request.param, durability="none")


def flip(path: Path, key: str) -> None:
    """Change a byte of an array on the disk, or of the end of the file."""
    file = next(path.glob("state.*"))
    data = bytearray(file.read_bytes())
    place = read_checkpoint(path, arrays="later").state
    for name in key.split("/") if key else ():
        place = place[name]
    data[place.extent.offset if isinstance(place, StoredArray) else -1] ^= 1
    file.write_bytes(data)


def test_arrays_are_left_for_later(path: Path) -> None:
    (path / "away").mkdir()
    next(path.glob("state.*")).rename(path / "away" / "file")
    found = read_checkpoint(path, arrays="later").state["pi"]["weight"]
    assert isinstance(found, StoredArray)
    assert (found.shape, found.dtype) == ((SIZE, 2), np.dtype(np.float32))


@pytest.mark.parametrize("kind", [Open, Awkward])
def test_a_live_object_gets_all_numbers(path: Path, kind: type[Open]) -> None:
    live = made(kind, 2)
    before = live.actor
    restore_into(live, read_checkpoint(path, arrays="later"))
    assert live.actor is before
    assert diff(snapshot_of(made(kind, 1)), snapshot_of(live)).same
    assert live.was_filled == (kind is Open)
    assert isinstance(live.checked[0], StoredArray) == (kind is Open)


def test_a_new_object_gets_all_numbers(path: Path) -> None:
    built = build(read_checkpoint(path, arrays="later"), trust=TRUST)
    assert isinstance(built, Open)
    assert built.was_filled
    assert diff(snapshot_of(made(Open, 1)), snapshot_of(built)).same


@pytest.mark.parametrize("key", ["pi/weight", "vf/weight", ""])
@pytest.mark.parametrize("kind", [Open, Awkward])
def test_damage_is_found_before_anything_live_is_touched(path: Path, kind: type[Open], key: str) -> None:
    flip(path, key)
    live = made(kind, 2)
    with pytest.raises(IntegrityError, match=key or "between the arrays"):
        restore_into(live, read_checkpoint(path, arrays="later"))
    assert diff(snapshot_of(made(kind, 2)), snapshot_of(live)).same
    assert live.calls == []


def test_damage_in_one_component_spares_all(tmp_path: Path) -> None:
    source, live = (Team({"a": made(Open, seed), "b": made(Open, seed + 1)}) for seed in (1, 5))
    path = write_checkpoint(snapshot_of(source), tmp_path / "ckpt", durability="none")
    flip(path / "b", "vf/weight")
    with pytest.raises(IntegrityError):
        restore_into(live, read_checkpoint(path, arrays="later"))
    assert diff(snapshot_of(Team({"a": made(Open, 5), "b": made(Open, 6)})), snapshot_of(live)).same


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
@pytest.mark.parametrize("count", [2, _MOST_OPEN])
def test_a_checkpoint_that_goes_after_a_look_at_it_is_restored_all_the_same(tmp_path: Path, count: int) -> None:
    source = Team({str(number): made(Open, number, 3) for number in range(count)})
    path = write_checkpoint(snapshot_of(source), tmp_path / "ckpt", durability="none")
    live = Team({str(number): made(Losing, number + 5, 3) for number in range(count)})
    live.nets["1"].lost = path
    before = len(list(Path("/dev/fd").iterdir()))
    restore_into(live, read_checkpoint(path, arrays="later"))
    assert not path.exists()
    assert diff(snapshot_of(source), snapshot_of(live)).same
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_more_files_than_can_be_open_are_restored(tmp_path: Path) -> None:
    source, live = (
        Team({str(number): made(Open, number + more, 1) for number in range(_MOST_OPEN + 3)}) for more in (0, 5)
    )
    path = write_checkpoint(snapshot_of(source), tmp_path / "ckpt", durability="none")
    restore_into(live, read_checkpoint(path, arrays="later"))
    assert diff(snapshot_of(source), snapshot_of(live)).same


def test_a_damaged_file_builds_nothing(path: Path) -> None:
    flip(path, "vf/weight")
    with pytest.raises(IntegrityError, match="vf/weight"):
        build(read_checkpoint(path, arrays="later"), trust=TRUST)


def test_what_does_not_fit_is_refused_before_a_file_is_opened(path: Path) -> None:
    next(path.glob("state.*")).unlink()
    with pytest.raises(SpecError):
        restore_into(made(Open, 2, 3), read_checkpoint(path, arrays="later"), Selection(keys=("pi", "vf")))


def test_a_part_is_read_alone(path: Path) -> None:
    flip(path, "vf/weight")
    live = made(Open, 2)
    restore_into(live, read_checkpoint(path, Selection(keys=("pi",)), arrays="later"), Selection(keys=("pi",)))
    assert np.array_equal(live.actor, made(Open, 1).actor)
    assert np.array_equal(live.critic, made(Open, 2).critic)
    assert live.steps == 2


def test_tied_arrays(tmp_path: Path) -> None:
    path = write_checkpoint(snapshot_of(made(Open, 1, is_tied=True)), tmp_path / "ckpt", durability="none")
    live = made(Open, 2, is_tied=True)
    restore_into(live, read_checkpoint(path, arrays="later"))
    assert live.critic is live.actor
    assert np.array_equal(live.actor, made(Open, 1).actor)
    apart = made(Open, 2, is_tied=True)
    apart.critic = apart.actor.copy()
    restore_into(apart, read_checkpoint(path, arrays="later"), Selection(ties="untie", keys=("pi", "vf")))
    assert np.array_equal(apart.critic, apart.actor)


def test_a_snapshot_of_files_cannot_be_written(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedStateError, match="was not read"):
        write_checkpoint(read_checkpoint(path, arrays="later"), tmp_path / "other")


@pytest.mark.parametrize("age", ["live", "new"])
def test_little_memory_beside_the_state(path: Path, age: str) -> None:
    live = made(Open, 2)
    found = read_checkpoint(path, arrays="later")
    nbytes = live.actor.nbytes + live.critic.nbytes
    tracemalloc.start()
    if age == "live":
        restore_into(live, found)
    else:
        build(found, trust=TRUST)
    peak = tracemalloc.get_traced_memory()[1] - (nbytes if age == "new" else 0)
    tracemalloc.stop()
    assert peak < 2 * PIECE + 200_000


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be removed there")
def test_methods_of_objects_read_this_way(path: Path) -> None:
    live = made(Open, 2)
    live.restore_from_path(path)
    assert live.was_filled
    built = Open.from_checkpoint(path, trust=TRUST)
    assert built.was_filled
    assert diff(snapshot_of(live), snapshot_of(built)).same
