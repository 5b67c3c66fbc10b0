"""What is read is what was written, bit for bit and type for type."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import Selection, Snapshot, Spec, content_hash, diff, inference_hash, select, ties, walk
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.state import State, canonical, entries, equal
from tests.snapshot.strategies import snapshots

BACKENDS = ("hdf5", "pickle")

VALUES: dict[str, Any] = {
    "huge_int": 2**200 + 1,
    "negative_int": -(2**64),
    "not_a_number": float("nan"),
    "infinite": [float("inf"), float("-inf")],
    "negative_zero": -0.0,
    "denormal": 5e-324,
    "bool_and_int": [True, 1, False, 0, 1.0],
    "none": None,
    "bytes": b"\0\xff bytes",
    "text": "ünï\0 \U0001f600 \ud800",
    "list_and_tuple": [[], (), [()], ([],)],
    "list_of_dicts": [{"a": 1}, {"b": np.arange(2)}, {}],
    "empty_dict": {},
    "nested_empty": {"a": {"b": {}}},
    "names": {
        "": 1,
        ".": 2,
        "..": 3,
        "a/b": 4,
        "%2F": 5,
        "%": 6,
        "a\0b": 7,
        "x" * 1000: 8,
        "ünï": 9,
        "a.b": 10,
        "\ud800": 11,
    },
    "arrays_in_sequences": ([np.arange(3), (np.array(1.5), {"deep": np.zeros((0, 2))})],),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "reversed": np.arange(5)[::-1],
    "big_endian": np.array([1, 2, 300], ">i4"),
    "strided_bfloat16": np.arange(10).astype(ml_dtypes.bfloat16)[::3],
    "numpy_scalar": np.float32(3.25),
    "nan_payload": np.array([0x7FF8000000000123], np.uint64).view(np.float64),
}


def of(state: State) -> Snapshot:
    canonical_state = canonical(state)
    return Snapshot(Spec("rlpipe.Any"), canonical_state, dict.fromkeys(entries(canonical_state), "inference"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VALUES)
def test_values(tmp_path: Path, backend: str, name: str) -> None:
    snapshot = of({"value": VALUES[name], "beside": 1})
    write_checkpoint(snapshot, tmp_path / "ckpt", backend=backend)
    found = read_checkpoint(tmp_path / "ckpt")
    assert equal(found.state, snapshot.state)
    assert found.roles == snapshot.roles


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 2, 1)])
def test_dtypes(tmp_path: Path, backend: str, name: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(int(np.prod(shape))) % 2).astype(DTYPES[name]).reshape(shape)
    write_checkpoint(of({"a": array}), tmp_path / "ckpt", backend=backend)
    found = read_checkpoint(tmp_path / "ckpt").state["a"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


@settings(max_examples=60)
@given(snapshot=snapshots, backend=st.sampled_from(BACKENDS))
def test_any_tree(snapshot: Snapshot, backend: str, tmp_path_factory: Any) -> None:
    assume(not any(part.children.keys() & part.state.keys() for _, part in walk(snapshot)))
    path = tmp_path_factory.mktemp("any") / "ckpt"
    write_checkpoint(snapshot, path, backend=backend, durability="none")
    found = read_checkpoint(path)
    assert diff(snapshot, found).same
    assert [(where, part.roles, part.spec) for where, part in walk(found)] == [
        (where, part.roles, part.spec) for where, part in walk(snapshot)
    ]
    assert ties(found) == ties(snapshot)
    assert content_hash(found) == content_hash(snapshot)
    assert verify_checkpoint(path).ok
    shutil.rmtree(path.parent)


@settings(max_examples=40)
@given(snapshot=snapshots, roles=st.sampled_from([{"inference"}, {"training"}]))
def test_reading_a_selection_is_selecting_after_reading(snapshot: Snapshot, roles: Any, tmp_path_factory: Any) -> None:
    assume(not any(part.children.keys() & part.state.keys() for _, part in walk(snapshot)))
    path = tmp_path_factory.mktemp("any") / "ckpt"
    write_checkpoint(snapshot, path, durability="none")
    for component in (None, *(where for where, _ in walk(snapshot) if where)):
        selection = Selection(None if component is None else (component,), frozenset(roles))
        found, expected = read_checkpoint(path, selection), select(snapshot, selection)
        assert diff(expected, found).same
        assert [(where, part.roles, part.spec, part.whole) for where, part in walk(found)] == [
            (where, part.roles, part.spec, part.whole) for where, part in walk(expected)
        ]
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_identity_whatever_the_backend(tmp_path: Path, backend: str) -> None:
    snapshot = of({"a": np.arange(3), "b": np.ones(2, ml_dtypes.bfloat16), "n": 1})
    write_checkpoint(snapshot, tmp_path / "ckpt", backend=backend)
    found = read_checkpoint(tmp_path / "ckpt")
    assert (content_hash(found), inference_hash(found)) == (content_hash(snapshot), inference_hash(snapshot))


@pytest.mark.parametrize("backend", BACKENDS)
def test_conversion_there_and_back_is_bit_equal(tmp_path: Path, backend: str) -> None:
    other = {"hdf5": "pickle", "pickle": "hdf5"}[backend]
    write_checkpoint(of(VALUES), tmp_path / "one", backend=backend)
    write_checkpoint(read_checkpoint(tmp_path / "one"), tmp_path / "two", backend=other)
    write_checkpoint(read_checkpoint(tmp_path / "two"), tmp_path / "three", backend=backend)
    file = {"hdf5": "state.h5", "pickle": "state.pkl"}[backend]
    assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "three" / file).read_bytes()
