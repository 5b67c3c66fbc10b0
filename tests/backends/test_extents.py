from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.backends.extents import Extent, FileRecord, damaged_parts, read_all_arrays, read_arrays
from rlpipe.errors import IntegrityError
from rlpipe.snapshot.identity import identify

PIECE = 128


def written(directory: Path, arrays: dict[str, Any], *, gap: int = 64) -> tuple[FileRecord, list[Extent]]:
    """A file of arrays with a gap of ones before each, made without any backend."""
    data = bytearray()
    extents = []
    for key, array in arrays.items():
        data += b"\1" * (gap + -(len(data) + gap) % 64)
        extents.append(Extent(key, *identify(array)[:2], len(data), identify(array)[2]))
        data += array.tobytes()
    (directory / "state.bin").write_bytes(data)
    pieces = tuple(identify(np.frombuffer(data[at : at + PIECE], np.uint8)).digest for at in range(0, len(data), PIECE))
    return FileRecord("state.bin", len(data), PIECE, pieces), extents


ARRAYS = {"a": np.arange(20.0), "b": np.arange(6, dtype="i2").reshape(2, 3), "c": np.array(3), "d": np.arange(100)}


def test_reads_what_is_wanted(tmp_path: Path) -> None:
    record, extents = written(tmp_path, ARRAYS)
    found = read_arrays(tmp_path, record, [extents[3], extents[1]])
    assert found.keys() == {"b", "d"}
    assert found["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].dtype == np.int16


def test_arrays_are_read_only_and_aligned(tmp_path: Path) -> None:
    record, extents = written(tmp_path, ARRAYS)
    for read in (read_arrays, read_all_arrays):
        for array in read(tmp_path, record, extents).values():
            assert array.flags.aligned
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="counts preadv")
def test_reads_only_the_wanted_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, extents = written(tmp_path, {f"n{index}": np.full(1000, index) for index in range(10)}, gap=8192)
    read: list[int] = []
    real = os.preadv

    def counting(descriptor: int, buffers: Any, offset: int) -> int:
        count = real(descriptor, buffers, offset)
        read.append(count)
        return count

    monkeypatch.setattr(os, "preadv", counting)
    read_arrays(tmp_path, record, extents[2:4])
    assert sum(read) == 2 * 8000


def test_reads_without_preadv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, extents = written(tmp_path, ARRAYS)
    monkeypatch.delattr(os, "preadv", raising=False)
    assert read_arrays(tmp_path, record, extents)["d"].tolist() == list(range(100))


def test_an_array_without_elements_has_no_place(tmp_path: Path) -> None:
    record, extents = written(tmp_path, ARRAYS)
    nothing = Extent("e", "float32", (0, 4), 0, identify(np.zeros(0)).digest)
    for found in (read_arrays(tmp_path, record, [nothing]), read_all_arrays(tmp_path, record, [*extents, nothing])):
        assert found["e"].shape == (0, 4)
        assert found["e"].dtype == np.float32


@pytest.mark.parametrize("read", [read_arrays, read_all_arrays])
def test_a_flipped_bit_is_named_by_its_keys(tmp_path: Path, read: Any) -> None:
    record, extents = written(tmp_path, ARRAYS)
    data = bytearray((tmp_path / "state.bin").read_bytes())
    data[extents[0].offset + 5] ^= 4
    data[extents[2].offset] ^= 128
    (tmp_path / "state.bin").write_bytes(data)
    with pytest.raises(IntegrityError, match=r"state.bin is damaged\n.*\n.*the bytes of a, c have changed"):
        read(tmp_path, record, extents)
    assert damaged_parts(tmp_path, record, extents) == [
        ("a", "its bytes have changed"),
        ("c", "its bytes have changed"),
    ]


def test_a_flipped_bit_between_arrays_is_found_where_all_is_read(tmp_path: Path) -> None:
    record, extents = written(tmp_path, ARRAYS, gap=256)
    data = bytearray((tmp_path / "state.bin").read_bytes())
    data[130] ^= 1
    (tmp_path / "state.bin").write_bytes(data)
    read_arrays(tmp_path, record, extents)
    with pytest.raises(IntegrityError, match="between the arrays"):
        read_all_arrays(tmp_path, record, extents)
    assert damaged_parts(tmp_path, record, extents) == [("", "bytes 128 to 256 have changed, outside the arrays")]


@pytest.mark.parametrize("call", [read_arrays, read_all_arrays, damaged_parts])
class TestWhatIsNoArrayFile:
    def test_missing(self, tmp_path: Path, call: Any) -> None:
        record, extents = written(tmp_path, ARRAYS)
        (tmp_path / "state.bin").unlink()
        with pytest.raises(IntegrityError, match="nothing"):
            call(tmp_path, record, extents)

    @pytest.mark.parametrize("change", [-1, 1])
    def test_cut_or_extended(self, tmp_path: Path, call: Any, change: int) -> None:
        record, extents = written(tmp_path, ARRAYS)
        data = (tmp_path / "state.bin").read_bytes()
        (tmp_path / "state.bin").write_bytes(data[:-1] if change < 0 else data + b"\0")
        with pytest.raises(IntegrityError, match=f"{record.size + change} bytes"):
            call(tmp_path, record, extents)

    def test_a_directory(self, tmp_path: Path, call: Any) -> None:
        record, extents = written(tmp_path, ARRAYS)
        (tmp_path / "state.bin").unlink()
        (tmp_path / "state.bin").mkdir()
        with pytest.raises(IntegrityError):
            call(tmp_path, record, extents)

    @pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
    def test_a_pipe_that_nobody_writes_to(self, tmp_path: Path, call: Any) -> None:
        record, extents = written(tmp_path, ARRAYS)
        (tmp_path / "state.bin").unlink()
        os.mkfifo(tmp_path / "state.bin")
        with pytest.raises(IntegrityError, match="no regular file"):
            call(tmp_path, record, extents)

    def test_a_git_lfs_pointer(self, tmp_path: Path, call: Any) -> None:
        record, extents = written(tmp_path, ARRAYS)
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {record.size}\n"
        (tmp_path / "state.bin").write_text(pointer)
        with pytest.raises(IntegrityError, match="git lfs pull"):
            call(tmp_path, record, extents)

    def test_an_absurd_size_allocates_nothing(self, tmp_path: Path, call: Any) -> None:
        record, extents = written(tmp_path, ARRAYS)
        huge = replace(extents[0], shape=(2**50,))
        with pytest.raises(IntegrityError):
            call(tmp_path, FileRecord("state.bin", 2**53, 2**53, record.pieces[:1]), [huge])
