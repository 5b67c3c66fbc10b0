from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import xxhash

from rlpipe.backends import array_file
from rlpipe.backends.array_file import PIECE, SMALL, Durability, digests_of, raw_of, write_arrays
from rlpipe.backends.layout import Layout, LayoutBuilder, Slot
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.identity import stored

SIZES: list[list[int]] = [
    [],
    [10],
    [0, 10, 0],
    [300_000],
    [10, 300_000, 20, 30],
    [PIECE] * 3,
    [SMALL - 1000],
    [SMALL + 1],
    [5] * 1000,
    [PIECE - 1, PIECE, PIECE + 1, 4 * SMALL],
    [3] * 50 + [2 * SMALL] + [3] * 50 + [PIECE] * 2,
    [9 * SMALL + 5, 17 * SMALL],
]


def made(sizes: list[int]) -> tuple[Layout, dict[str, Any], bytes]:
    """A layout with bytes of its own before, between and after arrays, the arrays, and the whole file."""
    builder, arrays, whole = LayoutBuilder(), {}, bytearray()
    for index, size in enumerate(sizes):
        key = f"n{index:04}"
        arrays[key] = np.random.default_rng(index).integers(0, 255, size, np.uint8)
        builder.put(f"before {key}".encode())
        builder.align()
        builder.leave_room(Slot(key, "uint8", (size,)))
        whole += f"before {key}".encode()
        whole += bytes(-len(whole) % 64) + arrays[key].tobytes()
    builder.put(b"end")
    return builder.done(), arrays, bytes(whole + b"end")


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("durability", ["fsync", "none"])
def test_writes_and_hashes_every_byte(tmp_path: Path, sizes: list[int], durability: Durability) -> None:
    layout, arrays, whole = made(sizes)
    digests = write_arrays(str(tmp_path / "file"), layout, arrays, durability=durability)
    assert (tmp_path / "file").read_bytes() == whole
    assert digests == {key: xxhash.xxh3_128_hexdigest(each.tobytes()) for key, each in arrays.items()}
    assert digests_of(arrays) == digests


@pytest.mark.parametrize("sizes", [[10], [9 * SMALL]])
@pytest.mark.parametrize(("durability", "count"), [("fsync", 1), ("none", 0)])
def test_one_fsync_a_file_or_none(
    tmp_path: Path, sizes: list[int], durability: Durability, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    layout, arrays, _ = made(sizes)
    write_arrays(str(tmp_path / "file"), layout, arrays, durability=durability)
    assert len(synced) == count


def test_a_small_file_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = os.write

    def write(descriptor: int, data: Any) -> int:
        calls.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    layout, arrays, whole = made([100] * 20)
    write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")
    assert calls == [len(whole)]


@pytest.mark.parametrize("name", ["write", "pwrite"])
@pytest.mark.parametrize("sizes", [[1000], [2 * SMALL, 10]])
def test_what_the_system_writes_in_part_is_written_on(
    tmp_path: Path, name: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda descriptor, data, *at: real(descriptor, data[: len(data) // 3 + 1], *at))
    layout, arrays, whole = made(sizes)
    write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")
    assert (tmp_path / "file").read_bytes() == whole


def test_writes_without_what_only_unix_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pwrite", raising=False)
    monkeypatch.setattr(array_file, "_sync_file_range", lambda: None)
    layout, arrays, whole = made([9 * SMALL, 3, 2 * SMALL])
    write_arrays(str(tmp_path / "file"), layout, arrays, durability="fsync")
    assert (tmp_path / "file").read_bytes() == whole


@pytest.mark.parametrize("size", [3000, 100_000, 3 * SMALL])
def test_little_memory_beside_the_arrays(tmp_path: Path, size: int) -> None:
    layout, arrays, _ = made([size] * (24 * SMALL // size))
    tracemalloc.start()
    write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * PIECE + 1000 * len(arrays)


def test_an_error_in_a_thread_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "pwrite", fail)
    layout, arrays, _ = made([2 * SMALL, 2 * SMALL])
    with pytest.raises(OSError, match="no space"):
        write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")


def test_never_writes_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    layout, arrays, _ = made([10])
    with pytest.raises(FileExistsError):
        write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    layout, arrays, _ = made([10])
    before = os.umask(0o027)
    try:
        write_arrays(str(tmp_path / "file"), layout, arrays, durability="none")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


BASE = np.random.default_rng(0).integers(0, 255, (3, 1400, 2048), np.uint8)
OTHER_ORDERS: dict[str, Any] = {
    "turned": BASE.transpose(2, 0, 1),
    "Fortran": np.asfortranarray(BASE),
    "backwards": BASE[::-1, ::-1, ::-1],
    "every second": BASE[:, ::2, 1::2],
    "one long row": BASE.reshape(1, -1)[:, ::2],
    "columns": BASE.reshape(-1, 2048)[:, :3].T,
    "long and thin": BASE.reshape(2, -1).T,
    "repeated": np.broadcast_to(BASE[0, 0, :3], (SMALL, 3)),
    "one number": np.broadcast_to(np.float32(1.5), (3, SMALL)),
    "wide": BASE.view(np.complex128).transpose(1, 2, 0),
    "bfloat16": BASE.view(np.uint16).view(ml_dtypes.bfloat16).T,
    "bool": (BASE > 100).T,
}


@pytest.mark.parametrize("name", OTHER_ORDERS)
@pytest.mark.parametrize("durability", ["fsync", "none"])
def test_large_arrays_in_another_order_are_written_in_order(tmp_path: Path, name: str, durability: Durability) -> None:
    array = OTHER_ORDERS[name]
    builder = LayoutBuilder()
    builder.leave_room(Slot("a", logical_name(array.dtype), array.shape))
    raws = {"a": raw_of(array)}
    digests = write_arrays(str(tmp_path / "file"), builder.done(), raws, durability=durability)
    expected = stored(array).tobytes()
    assert (tmp_path / "file").read_bytes() == expected
    assert digests == digests_of(raws) == {"a": xxhash.xxh3_128_hexdigest(expected)}


@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_putting_in_order_takes_little_memory(tmp_path: Path, name: str) -> None:
    array = OTHER_ORDERS[name]
    builder = LayoutBuilder()
    builder.leave_room(Slot("a", logical_name(array.dtype), array.shape))
    layout = builder.done()
    tracemalloc.start()
    write_arrays(str(tmp_path / "file"), layout, {"a": raw_of(array)}, durability="none")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * PIECE
