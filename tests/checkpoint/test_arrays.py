"""Bare arrays: everything that needs no network works, and what needs one says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlpipe.checkpoint.arrays import CLASS_PATH, Arrays
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build, restore_into, snapshot_of
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import DeviceError, SpecError, StateMismatchError
from rlpipe.snapshot import KeyMap, Selection, diff, fingerprint, merge, rename, select
from rlpipe.snapshot.state import State, equal
from tests.checkpoint.components import policy


def state(seed: int) -> State:
    rng = np.random.default_rng(seed)
    return {
        "actor": {"w": rng.normal(size=(2, 3)), "b": rng.normal(size=3)},
        "critic": {"w": rng.normal(size=2)},
        "n": 1,
    }


def test_the_path_is_the_class() -> None:
    assert class_path_of(Arrays) == CLASS_PATH


def test_saved_verified_described_and_read(tmp_path: Path) -> None:
    made = Arrays(state(0), metadata={"source": {"file": "a.h5"}})
    path = made.save_to_path(tmp_path / "ckpt")
    assert verify_checkpoint(path).ok
    info = inspect_checkpoint(path)
    assert (info.class_path, [each.key for each in info.arrays]) == (CLASS_PATH, ["actor/b", "actor/w", "critic/w"])
    found = Arrays.from_checkpoint(path)
    assert equal(found.state, state(0))
    assert found.metadata == made.metadata
    found.state["actor"]["w"][0] = 0.0  # its own memory


def test_two_files_differ_in_their_fingerprints() -> None:
    assert fingerprint(snapshot_of(Arrays(state(0)))) != fingerprint(snapshot_of(Arrays(state(1))))


def test_compared_taken_apart_renamed_and_put_together() -> None:
    one, two = snapshot_of(Arrays(state(0))), snapshot_of(Arrays(state(1)))
    assert diff(one, two).changed == ("actor/b", "actor/w", "critic/w")
    merged = merge(one, select(two, Selection(keys=("actor",))))
    assert equal(merged.state, {**state(0), "actor": state(1)["actor"]})
    assert rename(one, KeyMap(keys={"actor": "pi"})).state.keys() == {"pi", "critic", "n"}


def test_put_into_live_arrays() -> None:
    live = Arrays(state(0), metadata={"from": "a"})
    patch = snapshot_of(Arrays(state(1), metadata={"from": "b"}))
    restore_into(live, patch)
    assert equal(live.state, state(1))
    assert live.metadata == {"from": "b"}
    with pytest.raises(StateMismatchError):
        restore_into(live, snapshot_of(Arrays({"actor": np.zeros(3)})))


def test_nothing_can_be_built_of_them(tmp_path: Path) -> None:
    path = write_checkpoint(snapshot_of(Arrays(state(0))), tmp_path / "ckpt")
    with pytest.raises(SpecError, match="no network to run, restore or export"):
        build(read_checkpoint(path))


def test_only_bare_arrays_in_main_memory(tmp_path: Path) -> None:
    path = write_checkpoint(policy(0), tmp_path / "policy")
    with pytest.raises(SpecError, match="something else"):
        Arrays.from_checkpoint(path)
    with pytest.raises(DeviceError):
        Arrays.from_checkpoint(path, device="cuda:0")
