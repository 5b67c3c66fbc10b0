"""What every backend has to do. A backend's test subclasses this and says how its file is read without rlpipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlpipe.backends import Backend, Layout, Slot, ids, resolve
from rlpipe.backends.array_file import write_arrays
from rlpipe.backends.array_reader import read_all_arrays, read_arrays
from rlpipe.backends.extents import ArrayFile, Extent
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.identity import identify, stored
from rlpipe.snapshot.state import join
from tests.snapshot.strategies import any_array, names

Array = np.ndarray[Any, np.dtype[Any]]

AWKWARD = {
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "reversed": np.arange(5)[::-1],
    "strided": np.arange(20).reshape(4, 5)[::2, 1::2],
    "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
    "big_endian": np.array([1, 2, 300], ">i4"),
    "read_only": np.frombuffer(b"12345678", np.int32),
    "scalar": np.array(7.5),
    "empty": np.zeros((0, 3), np.float16),
    "empty_bfloat16": np.zeros((2, 0), ml_dtypes.bfloat16),
    "special": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]),
    "nan_payload": np.array([0x7FF8000000000123, 0xFFF0000000000001], np.uint64).view(np.float64),
}


def raw(array: Array) -> bytes:
    """The bytes in C order, little endian, by numpy alone."""
    return (array.astype(array.dtype.newbyteorder("<")) if is_native(array) else array).tobytes()


def is_native(array: Array) -> bool:
    """Whether numpy has the dtype itself; the others are stored as unsigned integers of their width."""
    return array.dtype.type.__module__ == "numpy"


def slot(key: str, array: Array, **more: Any) -> Slot:
    """The slot of an array."""
    return Slot(key, *identify(array)[:2], **more)


def write(layout: Layout, arrays: dict[str, Array], path: Path) -> dict[str, str]:
    """Write arrays by a layout; their digests."""
    return write_arrays(str(path), layout, {key: stored(each) for key, each in arrays.items()}, durability="none")


def written(backend: Backend, arrays: dict[str, Array], directory: Path) -> tuple[ArrayFile, dict[str, str]]:
    """Write arrays with a backend; what a manifest would say of the file, and digests."""
    slots = [slot(key, array) for key, array in arrays.items()]
    layout = backend.layout(slots)
    digests = write(layout, arrays, directory / backend.file_name)
    assert digests == {key: identify(array).digest for key, array in arrays.items()}
    extents = [Extent(*each[:3], layout.offsets[each.key], each.nbytes) for each in slots]
    in_order = tuple(sorted(extents, key=lambda each: (each.offset, each.length)))
    return ArrayFile(backend.file_name, layout.size, layout.frame_digest, in_order), digests


class BackendSuite(ABC):
    """Subclass as `TestX` and set `backend_id`."""

    backend_id: ClassVar[str]

    @abstractmethod
    def read_raw(self, path: Path, keys: list[str]) -> dict[str, Array]:
        """Arrays of a file, read by a tool that is not rlpipe."""

    @pytest.fixture
    def backend(self) -> Backend:
        return resolve(self.backend_id)

    def test_is_found_by_the_name_of_its_file(self, backend: Backend) -> None:
        assert self.backend_id in ids()
        assert backend.id == self.backend_id

    @pytest.mark.parametrize("name", sorted(DTYPES))
    def test_stores_every_dtype(self, backend: Backend, tmp_path: Path, name: str) -> None:
        array = np.arange(256, dtype=np.uint8).view(DTYPES[name]) if name != "bool" else np.array([True, False, True])
        file, digests = written(backend, {"a": array}, tmp_path)

        found = self.read_raw(tmp_path / backend.file_name, ["a"])["a"]
        assert found.tobytes() == raw(array)
        assert found.shape == array.shape
        assert found.dtype == (array.dtype if is_native(array) else np.dtype(f"<u{array.dtype.itemsize}"))
        read = read_all_arrays(str(tmp_path), file, digests)["a"]
        assert read.dtype == array.dtype
        assert read.tobytes() == array.tobytes()

    @pytest.mark.parametrize("name", sorted(AWKWARD))
    def test_stores_every_layout(self, backend: Backend, tmp_path: Path, name: str) -> None:
        array = AWKWARD[name]
        file, digests = written(backend, {"a": array}, tmp_path)
        found = self.read_raw(tmp_path / backend.file_name, ["a"])["a"]
        assert found.tobytes() == raw(array)
        assert found.shape == array.shape
        read = read_arrays(str(tmp_path), file, file.extents, digests)["a"]
        assert read.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()
        assert read.dtype.isnative
        assert not read.flags.writeable

    # The law is inherited by the suite of each backend, which is what this check warns of.
    @settings(suppress_health_check=[HealthCheck.differing_executors])
    @given(content=st.dictionaries(st.lists(names, min_size=1, max_size=3).map(tuple), any_array(), max_size=6))
    def test_stores_any_tree_of_arrays(self, content: dict[tuple[str, ...], Array], tmp_path_factory: Any) -> None:
        heads = {path[:depth] for path in content for depth in range(1, len(path))}
        arrays = {join(*path): array for path, array in content.items() if path not in heads}
        directory = tmp_path_factory.mktemp("any")
        backend = resolve(self.backend_id)
        file, digests = written(backend, arrays, directory)

        found = self.read_raw(directory / backend.file_name, list(arrays))
        assert {key: (each.shape, each.tobytes()) for key, each in found.items()} == {
            key: (each.shape, raw(each)) for key, each in arrays.items()
        }
        where = str(directory)
        for read in (read_all_arrays(where, file, digests), read_arrays(where, file, file.extents, digests)):
            assert {key: each.tobytes() for key, each in read.items()} == {
                key: each.tobytes() for key, each in arrays.items()
            }

    @pytest.mark.parametrize("name", ["x" * 1000, "é" * 300, "a b", "ünï/%\0", ".", "..", "", "\ud800", "a.b"])
    def test_stores_awkward_names(self, backend: Backend, tmp_path: Path, name: str) -> None:
        arrays = {join(name): np.arange(3), join("inner", name, "leaf"): np.arange(4)}
        written(backend, arrays, tmp_path)
        found = self.read_raw(tmp_path / backend.file_name, list(arrays))
        assert {key: each.tolist() for key, each in found.items()} == {
            key: each.tolist() for key, each in arrays.items()
        }

    def test_says_where_the_bytes_are(self, backend: Backend, tmp_path: Path) -> None:
        arrays = {f"layer/{index}": np.random.default_rng(index).bytes(index * 7) for index in range(1, 40)}
        found = {key: np.frombuffer(data, np.uint8) for key, data in arrays.items()}
        layout = backend.layout([slot(key, each) for key, each in found.items()])
        write(layout, found, tmp_path / "file")
        data = (tmp_path / "file").read_bytes()
        assert layout.size == len(data)
        assert len(layout.frame) == len(layout.order) + 1
        for key, offset in layout.offsets.items():
            assert data[offset : offset + len(arrays[key])] == arrays[key]
            assert offset % 64 == 0

    def test_keeps_each_role_in_one_range(self, backend: Backend) -> None:
        slots = [
            slot(f"layer/{index}", np.full(5, index), role="training" if index % 2 else "inference")
            for index in range(10)
        ]
        offsets = backend.layout(slots).offsets
        inference = [offsets[f"layer/{index}"] for index in range(0, 10, 2)]
        training = [offsets[f"layer/{index}"] for index in range(1, 10, 2)]
        assert max(inference) < min(training)

    def test_equal_arrays_give_equal_bytes(self, backend: Backend) -> None:
        slots = [slot(f"layer/{index}", np.full((2, index), index)) for index in range(10)]
        one, other = backend.layout(slots), backend.layout(slots[::-1])
        assert (one.order, one.offsets, one.frame) == (other.order, other.offsets, other.frame)

    def test_a_tied_array_is_stored_once(self, backend: Backend, tmp_path: Path) -> None:
        array = np.arange(10_000.0)
        layout = backend.layout([slot("a/weight", array, aliases=("b/weight", "c"))])
        write(layout, {"a/weight": array}, tmp_path / backend.file_name)
        assert layout.size < 1.1 * array.nbytes
        found = self.read_raw(tmp_path / backend.file_name, ["a/weight", "b/weight", "c"])
        assert all(each.tobytes() == array.tobytes() for each in found.values())

    def test_many_ties(self, backend: Backend, tmp_path: Path) -> None:
        arrays = {f"{index:03d}": np.array(index) for index in range(300)}
        layout = backend.layout([slot(key, each, aliases=(f"tied/{key}",)) for key, each in arrays.items()])
        write(layout, arrays, tmp_path / backend.file_name)
        found = self.read_raw(tmp_path / backend.file_name, [f"tied/{index:03d}" for index in range(300)])
        assert [int(each) for each in found.values()] == list(range(300))

    def test_size_follows_the_numbers_not_the_storage_behind_them(self, backend: Backend) -> None:
        huge = np.zeros(1_000_000)
        assert backend.layout([slot("a", huge[:10])]).size < 2000

    def test_a_thousand_arrays_in_one_dict(self, backend: Backend, tmp_path: Path) -> None:
        arrays = {f"n{index}": np.array(index) for index in range(1000)}
        written(backend, arrays, tmp_path)
        found = self.read_raw(tmp_path / backend.file_name, list(arrays))
        assert {key: int(each) for key, each in found.items()} == {key: int(each) for key, each in arrays.items()}
