"""Arrays come back bit for bit, whatever they hold and however they lie; a file is as large as its numbers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot import ties
from rlpipe.snapshot.dtypes import DTYPES, storage_dtype
from rlpipe.snapshot.state import Array

BACKENDS = {"hdf5": "state.h5", "pickle": "state.pkl"}
both = pytest.mark.parametrize("backend", BACKENDS)
OVERHEAD = 4096


def bits(array: Array) -> bytes:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}" if array.dtype.kind != "c" else "u8").tobytes()


def stored(path: Path, backend: str) -> dict[str, Array]:
    """The arrays of the file as h5py and pickle alone read them."""
    file = path / BACKENDS[backend]
    if backend == "pickle":
        found: dict[str, Array] = pickle.loads(file.read_bytes())
        return found
    with h5py.File(file) as opened:
        return {name: dataset[()] for name, dataset in opened.items()}


def round_trip(path: Path, backend: str, **arrays: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    """What rlpipe reads, and what is in the file."""
    write_checkpoint(snapshot_of(Arrays(arrays)), path, backend=backend)
    return read_checkpoint(path).state, stored(path, backend)


def every_value(name: str) -> Array:
    """All values of a dtype of one or two bytes; of a wider one, nan payloads, both zeros, infinities, the extremes."""
    dtype = DTYPES[name]
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.itemsize <= 2:
        return np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    word = np.dtype(f"u{min(dtype.itemsize, 8)}")
    edges = [0, 1, 2 ** (8 * word.itemsize) - 1, 2 ** (8 * word.itemsize - 1), 2 ** (8 * word.itemsize - 1) - 1]
    exponent = {4: 0x7F800000, 8: 0x7FF0000000000000}[word.itemsize]
    payloads = [exponent, exponent | 1, exponent | 0x12345, exponent >> 1]
    return np.array([*edges, *payloads, *payloads[::-1], 1], word).view(dtype)


@both
@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_value_of_every_dtype(tmp_path: Path, backend: str, name: str) -> None:
    array = every_value(name)
    found, file = round_trip(tmp_path / "ckpt", backend, a=array)
    assert found["a"].dtype == array.dtype
    assert bits(found["a"]) == bits(array) == bits(file["a"])
    assert file["a"].dtype == storage_dtype(name)


BASE = np.arange(240, dtype="i4").reshape(4, 5, 12)
LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "Fortran order": np.asfortranarray,
    "turned": lambda array: array.transpose(2, 0, 1),
    "every third": lambda array: array[:, :, ::3],
    "backwards": lambda array: array[::-1, ::-1, ::-1],
    "backwards in part": lambda array: array[:, ::-2, 3:1:-1],
    "a row": lambda array: array[2, 3],
    "a column": lambda array: array[:, 0, 0],
    "one element": lambda array: array[1, 2, 3],
    "no element": lambda array: array[:, :0],
    "repeated": lambda array: np.broadcast_to(array[0], (3, *array.shape[1:])),
    "one number many times": lambda array: np.broadcast_to(array[0, 0, 0], (7, 7)),
    "of the other byte order": lambda array: array.astype(array.dtype.newbyteorder("S")),
    "at an odd address": lambda array: np.frombuffer(b"x" + array.tobytes(), array.dtype, offset=1).reshape(
        array.shape
    ),
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
    "a subclass": lambda array: array.view(np.matrix) if array.ndim == 2 else array[0].view(np.matrix),
    "of 32 dimensions": lambda array: array[0, 0].reshape((1,) * 31 + (-1,)),
}


@both
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["int32", "float16", "bfloat16", "float8_e4m3fn", "complex128", "bool"])
def test_every_layout(tmp_path: Path, backend: str, layout: str, name: str) -> None:
    if layout == "of the other byte order" and DTYPES[name].isbuiltin != 1:
        pytest.skip("ml_dtypes has one byte order")
    array = LAYOUTS[layout]((BASE % 7).astype(DTYPES[name]))
    found, file = round_trip(tmp_path / "ckpt", backend, a=array)
    assert type(found["a"]) is np.ndarray
    assert (found["a"].dtype, found["a"].shape) == (DTYPES[name], np.shape(array))
    np.testing.assert_array_equal(found["a"], np.asarray(array))
    assert bits(file["a"]) == bits(found["a"])


@both
def test_a_small_view_of_a_huge_storage(tmp_path: Path, backend: str) -> None:
    storage = np.zeros(2**21)
    write_checkpoint(
        snapshot_of(Arrays({"a": storage[100:110], "b": storage[:: 2**18]})), tmp_path / "c", backend=backend
    )
    assert (tmp_path / "c" / BACKENDS[backend]).stat().st_size < 18 * 8 + OVERHEAD


@both
def test_tied_arrays_are_stored_once(tmp_path: Path, backend: str) -> None:
    shared = np.arange(10_000.0)
    snapshot = snapshot_of(Arrays({f"a{index}": shared for index in range(20)} | {"in": [(shared, {"deep": shared})]}))
    path = write_checkpoint(snapshot, tmp_path / "ckpt", backend=backend)
    assert (path / BACKENDS[backend]).stat().st_size < shared.nbytes + OVERHEAD
    assert ties(read_checkpoint(path)) == ties(snapshot)
    assert len(ties(snapshot)[0]) == 22


@both
def test_parts_of_one_storage_are_no_ties(tmp_path: Path, backend: str) -> None:
    storage = np.arange(12.0)
    views = {"all": storage, "front": storage[:6], "matrix": storage.reshape(3, 4), "turned": storage.reshape(3, 4).T}
    found, _ = round_trip(tmp_path / "ckpt", backend, **views)
    for name, view in views.items():
        np.testing.assert_array_equal(found[name], view)
    assert not np.shares_memory(found["all"], found["front"])


@both
def test_by_state(backend: str) -> None:
    """What `get_state` gives is a copy, and `set_state` takes it over bit for bit."""
    del backend
    values = {name: every_value(name) for name in DTYPES}
    source, target = Arrays(values), Arrays({name: np.zeros_like(array) for name, array in values.items()})
    state = source.get_state()
    target.set_state(state)
    for name, array in values.items():
        assert bits(target.state[name]) == bits(array)
        state[name][:1] = 0
        assert bits(target.state[name]) == bits(array)


def test_numbers_of_ml_dtypes_as_scalars(tmp_path: Path) -> None:
    found, _ = round_trip(tmp_path / "ckpt", "hdf5", a=ml_dtypes.bfloat16(1.5), b=np.float16(-0.0), c=np.bool_(1))
    assert [(value.shape, value.dtype.name, float(value)) for value in found.values()] == [
        ((), "bfloat16", 1.5),
        ((), "float16", -0.0),
        ((), "bool", 1.0),
    ]
