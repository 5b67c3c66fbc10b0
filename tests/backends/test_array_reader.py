from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rlpipe.backends.array_file import SMALL
from rlpipe.backends.array_reader import (
    check_arrays,
    damaged_parts,
    open_file,
    read_all_arrays,
    read_arrays,
    read_into,
)
from rlpipe.backends.extents import ArrayFile, Extent
from rlpipe.errors import IntegrityError
from rlpipe.snapshot.identity import identify


class Written:
    """A file of arrays with a gap of ones before each, made without any backend."""

    def __init__(self, directory: Path, arrays: dict[str, Any], *, gap: int = 64) -> None:
        self.directory, self.arrays = str(directory), arrays
        data, frame = bytearray(), bytearray()
        extents = []
        for key, array in arrays.items():
            ones = b"\1" * (gap + -(len(data) + gap) % 64)
            data += ones
            frame += ones
            place = len(data) if array.size else 0
            extents.append(Extent(key, *identify(array)[:2], place, array.nbytes))
            data += array.tobytes()
        (directory / "state.bin").write_bytes(data)
        self.digests = {key: identify(array).digest for key, array in arrays.items()}
        in_order = tuple(sorted(extents, key=lambda each: each.offset))
        self.file = ArrayFile("state.bin", len(data), identify(np.frombuffer(frame, np.uint8)).digest, in_order)

    @property
    def path(self) -> Path:
        return Path(self.directory, self.file.name)

    def extents(self, *keys: str) -> list[Extent]:
        return [each for each in self.file.extents if each.key in keys or not keys]

    def flip(self, position: int) -> None:
        data = bytearray(self.path.read_bytes())
        data[position] ^= 4
        self.path.write_bytes(data)

    def read(self, *keys: str) -> dict[str, Any]:
        return read_arrays(self.directory, self.file, self.extents(*keys), self.digests)

    def read_all(self) -> dict[str, Any]:
        return read_all_arrays(self.directory, self.file, self.digests)

    def read_into(self) -> dict[str, Any]:
        targets = {key: np.zeros(array.shape, array.dtype) for key, array in self.arrays.items()}
        with open_file(self.directory, self.file) as ranges:
            read_into(ranges, self.file, self.file.extents, self.digests, targets)
        return targets

    def check(self) -> None:
        with open_file(self.directory, self.file) as ranges:
            check_arrays(ranges, self.file, self.file.extents, self.digests)

    def damage(self) -> list[tuple[str, str]]:
        return damaged_parts(self.directory, self.file, self.digests)


READS: list[Callable[[Written], Any]] = [
    Written.read,
    Written.read_all,
    Written.read_into,
    Written.check,
]

ARRAYS = {"a": np.arange(20.0), "b": np.arange(6, dtype="i2").reshape(2, 3), "c": np.array(3), "d": np.arange(100)}


LARGE = {
    "a": np.arange(300_000),
    **{f"b{index:03}": np.full(index, index) for index in range(300)},
    "c": np.arange(1_000_000, dtype="f4").reshape(1000, 1000),
    "d": np.zeros((0, 4), np.float16),
    "e": np.ones((3, 70_001), ml_dtypes.bfloat16),
}


@pytest.mark.parametrize("arrays", [ARRAYS, LARGE], ids=["small", "large"])
def test_reads_every_bit(tmp_path: Path, arrays: dict[str, Any]) -> None:
    written = Written(tmp_path, arrays)
    assert (written.file.size > SMALL) == (arrays is LARGE)
    for read in (Written.read, Written.read_all, Written.read_into):
        found = read(written)
        assert {key: (each.dtype, each.shape, each.tobytes()) for key, each in found.items()} == {
            key: (each.dtype, each.shape, each.tobytes()) for key, each in arrays.items()
        }
    written.check()
    assert written.damage() == []


def test_reads_what_is_wanted(tmp_path: Path) -> None:
    found = Written(tmp_path, ARRAYS).read("b", "d")
    assert found.keys() == {"b", "d"}
    assert found["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].dtype == np.int16


@pytest.mark.parametrize("arrays", [ARRAYS, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("read", [Written.read, Written.read_all])
def test_arrays_are_read_only_and_aligned(
    tmp_path: Path, read: Callable[[Written], Any], arrays: dict[str, Any]
) -> None:
    for array in read(Written(tmp_path, arrays)).values():
        assert array.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_reads_into_memory_that_is_there_and_into_nothing_else(tmp_path: Path) -> None:
    written = Written(tmp_path, ARRAYS)
    around = np.zeros(40)
    targets = {"a": around[10:30], "d": np.zeros(100, np.int64)}
    with open_file(written.directory, written.file) as ranges:
        read_into(ranges, written.file, written.extents("a", "d"), written.digests, targets)
    assert around.tolist() == [0] * 10 + list(range(20)) + [0] * 10
    assert targets["d"].tolist() == list(range(100))


@pytest.mark.skipif(not hasattr(os, "pread"), reason="counts pread")
def test_reads_only_the_wanted_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path, {f"n{index}": np.full(1000, index) for index in range(10)}, gap=8192)
    read: list[int] = []
    real = os.pread

    def counting(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return real(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counting)
    written.read("n2", "n3")
    assert read == [8000, 8000]


def test_reads_without_what_only_unix_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path, ARRAYS)
    monkeypatch.delattr(os, "preadv", raising=False)
    monkeypatch.delattr(os, "pread", raising=False)
    for read in (Written.read, Written.read_all, Written.read_into):
        assert read(written)["d"].tolist() == list(range(100))


@pytest.mark.parametrize("arrays", [ARRAYS, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("read", READS)
def test_a_flipped_bit_is_named_by_its_keys(
    tmp_path: Path, read: Callable[[Written], Any], arrays: dict[str, Any]
) -> None:
    written = Written(tmp_path, arrays)
    for key in ("a", "c"):
        (extent,) = written.extents(key)
        written.flip(extent.offset + extent.length // 2)
    with pytest.raises(IntegrityError, match=r"state.bin is damaged\n.*\n.*the bytes of a, c have changed"):
        read(written)
    assert written.damage() == [("a", "its bytes have changed"), ("c", "its bytes have changed")]


@pytest.mark.parametrize("arrays", [ARRAYS, LARGE], ids=["small", "large"])
def test_a_flipped_bit_between_arrays_is_found_where_all_is_read(tmp_path: Path, arrays: dict[str, Any]) -> None:
    written = Written(tmp_path, arrays, gap=256)
    written.flip(130)
    written.read()
    for read in (Written.read_all, Written.read_into, Written.check):
        with pytest.raises(IntegrityError, match="between the arrays"):
            read(written)
    assert written.damage() == [("", "bytes outside the arrays have changed")]


def test_an_error_of_the_system_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path, LARGE)

    def fail(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    monkeypatch.setattr(os, "pread", fail)
    for read in READS:
        with pytest.raises(IntegrityError, match="cannot be read: Input/output error"):
            read(written)


@pytest.mark.parametrize("read", [*READS, Written.damage])
class TestWhatIsNoArrayFile:
    def test_missing(self, tmp_path: Path, read: Callable[[Written], Any]) -> None:
        written = Written(tmp_path, ARRAYS)
        written.path.unlink()
        with pytest.raises(IntegrityError, match="nothing"):
            read(written)

    @pytest.mark.parametrize("change", [-1, 1])
    def test_cut_or_extended(self, tmp_path: Path, read: Callable[[Written], Any], change: int) -> None:
        written = Written(tmp_path, ARRAYS)
        data = written.path.read_bytes()
        written.path.write_bytes(data[:-1] if change < 0 else data + b"\0")
        with pytest.raises(IntegrityError, match=f"{written.file.size + change} bytes"):
            read(written)

    def test_a_directory(self, tmp_path: Path, read: Callable[[Written], Any]) -> None:
        written = Written(tmp_path, ARRAYS)
        written.path.unlink()
        written.path.mkdir()
        with pytest.raises(IntegrityError):
            read(written)

    @pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
    def test_a_pipe_that_nobody_writes_to(self, tmp_path: Path, read: Callable[[Written], Any]) -> None:
        written = Written(tmp_path, ARRAYS)
        written.path.unlink()
        os.mkfifo(written.path)
        with pytest.raises(IntegrityError, match="no regular file"):
            read(written)

    def test_a_git_lfs_pointer(self, tmp_path: Path, read: Callable[[Written], Any]) -> None:
        written = Written(tmp_path, ARRAYS)
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {written.file.size}\n"
        written.path.write_text(pointer)
        with pytest.raises(IntegrityError, match="git lfs pull"):
            read(written)


@pytest.mark.parametrize("read", [Written.read, Written.read_all, Written.check, Written.damage])
def test_an_absurd_size_allocates_nothing(tmp_path: Path, read: Callable[[Written], Any]) -> None:
    written = Written(tmp_path, ARRAYS)
    huge = written.file.extents[0]._replace(shape=(2**50,), length=2**53)
    written.file = ArrayFile("state.bin", 2**53 + 64, written.file.frame, (huge,))
    with pytest.raises(IntegrityError):
        read(written)
