"""Whoever has the description of the format can read checkpoints, and finds what rlpipe finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Snapshot, walk
from rlpipe.snapshot.state import State, arrays, equal, map_arrays
from tests.checkpoint import by_description
from tests.checkpoint.components import tree
from tests.snapshot.strategies import snapshots

GOLDEN = Path(__file__).parents[1] / "golden"


def native(state: State) -> State:
    return {
        name: map_arrays(value, lambda array: array.astype(array.dtype.newbyteorder("=")))
        for name, value in state.items()
    }


def require_same(found: dict[str, Any], snapshot: Snapshot) -> None:
    manifest = found["manifest"]
    assert equal(native(found["state"]), native(snapshot.state))
    assert found["arrays"].keys() == arrays(snapshot.state).keys()
    roles = {key: role for key, (role, _) in manifest["entries"].items()}
    rows = {key: role for key, _, _, role, _ in (manifest["file"] or {"arrays": ()})["arrays"]}
    assert snapshot.roles == {key: role for key, role in (rows | roles).items() if key in snapshot.roles}
    assert found["children"].keys() == snapshot.children.keys()
    for name, child in snapshot.children.items():
        require_same(found["children"][name], child)


@settings(max_examples=60)
@given(snapshot=snapshots, backend=st.sampled_from(("hdf5", "pickle")))
def test_any_tree(snapshot: Snapshot, backend: str, tmp_path_factory: Any) -> None:
    assume(not any(part.children.keys() & part.state.keys() for _, part in walk(snapshot)))
    path = tmp_path_factory.mktemp("any") / "ckpt"
    write_checkpoint(snapshot, path, backend=backend, durability="none")
    require_same(by_description.read(path), snapshot)
    shutil.rmtree(path.parent)


def test_ties_and_attachments(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    (exports / "policy.onnx").write_bytes(b"onnx")
    snapshot = tree(2, shared=np.arange(3.0))
    write_checkpoint(snapshot, tmp_path / "ckpt", attachments={"policies/p1": exports})
    found = by_description.read(tmp_path / "ckpt")
    require_same(found, snapshot)
    [tie] = found["children"]["policies"]["manifest"]["ties"]
    assert tie == [["p0", "shared"], ["p1", "shared"]]
    assert list(found["children"]["policies"]["children"]["p1"]["manifest"]["attachments"]) == ["model/policy.onnx"]


@pytest.mark.parametrize("backend", ["hdf5", "pickle"])
def test_golden_checkpoints(backend: str) -> None:
    path = GOLDEN / f"checkpoint_v1_{backend}"
    require_same(by_description.read(path), read_checkpoint(path))
