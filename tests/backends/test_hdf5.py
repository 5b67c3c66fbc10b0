from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rlpipe.backends import Slot, resolve
from rlpipe.backends.hdf5 import MAX_MEMBERS, _datatype
from rlpipe.errors import UnsupportedStateError
from rlpipe.snapshot.dtypes import DTYPES, storage_dtype
from tests.conformance.backend_suite import Array, BackendSuite, slot, write


def written(path: Path, arrays: dict[str, Any]) -> Path:
    found = {key: np.asarray(array) for key, array in arrays.items()}
    write(resolve("hdf5").layout([slot(key, each) for key, each in found.items()]), found, path / "state.h5")
    return path / "state.h5"


class TestHdf5(BackendSuite):
    backend_id = "hdf5"

    def read_raw(self, path: Path, keys: list[str]) -> dict[str, Array]:
        with h5py.File(path, "r") as file:
            return {key: np.asarray(file[key][()]) for key in keys}


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_datatypes_are_those_of_h5py(name: str) -> None:
    dtype = storage_dtype(name)
    assert _datatype(dtype) == h5py.h5t.py_create(dtype, logical=True).encode()[2:]


def test_reads_like_a_file_that_h5py_wrote(tmp_path: Path) -> None:
    arrays = {
        "encoder/0/weight": np.ones((4, 3), "f4"),
        "encoder/0/bias": np.zeros(4, "f4"),
        "steps": np.array(3),
        "e": np.zeros((0, 2)),
    }
    with h5py.File(tmp_path / "theirs.h5", "w") as theirs:
        for key, array in arrays.items():
            theirs[key] = array

    def described(path: Path) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def note(name: str, item: Any) -> None:
            fields = (
                (item.dtype, item.shape, item.chunks, item.compression, item.maxshape) if hasattr(item, "dtype") else ()
            )
            seen[name] = (type(item), fields, list(item.attrs))

        with h5py.File(path, "r") as file:
            file.visititems(note)
        return seen

    assert described(written(tmp_path, arrays)) == described(tmp_path / "theirs.h5")


def test_arrays_are_contiguous_where_the_image_says(tmp_path: Path) -> None:
    arrays = {"a/b": np.arange(9.0), "c": np.arange(3)}
    layout = resolve("hdf5").layout([slot(key, each) for key, each in arrays.items()])
    write(layout, arrays, tmp_path / "state.h5")
    with h5py.File(tmp_path / "state.h5", "r") as file:
        for key, offset in layout.offsets.items():
            assert file[key].id.get_offset() == offset
            assert file[key].id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS


def test_keeps_no_times_and_no_creation_order(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path, {"g/a": np.arange(3)}), "r") as file:
        assert h5py.h5o.get_info(file["g/a"].id).mtime == 0
        assert file["g"].id.get_create_plist().get_link_creation_order() == 0


def test_names_of_a_tied_array_are_links_to_one_dataset(tmp_path: Path) -> None:
    array = np.arange(3)
    write(resolve("hdf5").layout([slot("a", array, aliases=("b/c",))]), {"a": array}, tmp_path / "state.h5")
    with h5py.File(tmp_path / "state.h5", "r") as file:
        assert file["a"] == file["b/c"]
        assert h5py.h5o.get_info(file["a"].id).rc == 2


def test_survives_a_copy_by_libhdf5(tmp_path: Path) -> None:
    arrays = {f"g{index % 7}/n{index}": np.full(index, index) for index in range(50)}
    with h5py.File(written(tmp_path, arrays), "r") as ours, h5py.File(tmp_path / "copy.h5", "w") as copy:
        for name in ours:
            ours.copy(name, copy)
        assert {key: copy[key][:].tolist() for key in arrays} == {key: each.tolist() for key, each in arrays.items()}


def test_can_be_opened_for_writing_by_h5py(tmp_path: Path) -> None:
    path = written(tmp_path, {"a/b": np.arange(3)})
    with h5py.File(path, "r+") as file:
        file["a/new"] = [1, 2]
        file["a"].attrs["note"] = "by hand"
    with h5py.File(path, "r") as file:
        assert file["a/b"][:].tolist() == [0, 1, 2]
        assert file["a/new"][:].tolist() == [1, 2]


@pytest.mark.slow
def test_the_largest_group(tmp_path: Path) -> None:
    path = written(tmp_path, {f"n{index}": np.uint8(index % 256) for index in range(MAX_MEMBERS)})
    with h5py.File(path, "r") as file:
        assert len(file) == MAX_MEMBERS
        assert int(file[f"n{MAX_MEMBERS - 1}"][()]) == (MAX_MEMBERS - 1) % 256


@pytest.mark.parametrize(
    ("key", "array"),
    [
        ("deep", np.zeros((1,) * 33)),
        ("n" * 70_000, np.zeros(1)),
    ],
)
def test_refuses_what_hdf5_cannot_hold(key: str, array: Array) -> None:
    with pytest.raises(UnsupportedStateError, match="HDF5"):
        resolve("hdf5").layout([slot(key, array)])


def test_refuses_one_name_too_many() -> None:
    slots = [Slot(f"g/{index}", "uint8", (0,)) for index in range(MAX_MEMBERS + 1)]
    with pytest.raises(UnsupportedStateError, match="g has too many names"):
        resolve("hdf5").layout(slots)


def test_refuses_a_key_below_another_one() -> None:
    with pytest.raises(UnsupportedStateError, match="a/b"):
        resolve("hdf5").layout([slot("a", np.zeros(1)), slot("a/b", np.zeros(1))])
