"""The one writer of array files, and how large arrays are hashed on their way.

A small file is hashed in memory and written at once. Of a large one, two threads each take an array in turn, and each
piece of it is hashed while it is in the cache and handed to the system. Where a file shall be on the disk in the end,
the system is told to begin early (see `_start_write_back`), so that the disk is busy while the rest is hashed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from threading import Lock, Thread
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import xxhash

from rlpipe.backends.layout import Buffer, Layout
from rlpipe.snapshot.dtypes import logical_name, storage_dtype
from rlpipe.snapshot.identity import STORED_AS_THEY_ARE, digest_of, stored
from rlpipe.snapshot.state import Array

Durability: TypeAlias = Literal["fsync", "none"]
Job = TypeVar("Job")
Result = TypeVar("Result")

SMALL = 2**20
"""Files of at most this many bytes are read and written at once."""

PIECE = 2**19
"""Bytes hashed and moved at once: they stay in a core's cache from one to the other."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_GATHERED = 2**16
"""In a large file, arrays with fewer bytes are written together with what stands around them."""

_WRITE_BACK = 8 * 2**20
_SYNC_FILE_RANGE_WRITE = 2


def write_arrays(path: str, layout: Layout, raws: Mapping[str, Array], *, durability: Durability) -> dict[str, str]:
    """Write a new file.

    Args:
        path: Where it goes; there must be nothing yet. Its mode follows the umask.
        layout: What it is.
        raws: Key -> array in the form of `raw_of`, for each key of the layout, in any order.
        durability: "fsync": its bytes are on the disk when this returns. "none": the system writes them when it likes.

    Returns:
        Key -> xxh3-128 of the array's bytes in hex, in the order of the arrays.

    Raises:
        OSError: The system cannot write it.
    """
    if layout.size <= SMALL:
        write_file(path, b"".join(_interleaved(layout, raws)), durability=durability)
        return dict(zip(raws, map(digest_of, raws.values()), strict=True))
    descriptor = os.open(path, _NEW_FILE, 0o666)
    try:
        digests = _write_large(descriptor, layout, raws, durability)
        if durability == "fsync":
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return digests


def write_file(path: str | os.PathLike[str], data: Buffer, *, durability: Durability) -> None:
    """Write a new file at once.

    Args:
        path: Where it goes; there must be nothing yet. Its mode follows the umask.
        data: Its bytes.
        durability: As of `write_arrays`.

    Raises:
        OSError: The system cannot write it.
    """
    descriptor = os.open(path, _NEW_FILE, 0o666)
    try:
        write_all(descriptor, data)
        if durability == "fsync":
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def raw_of(array: Array) -> Array:
    """The array as its bytes are stored; a large one that lies in another order is put in order piece by piece, later.

    A copy of a whole state that is transposed, as some layers keep theirs, would be as large as the state.
    """
    if array.flags.c_contiguous and array.dtype in STORED_AS_THEY_ARE:
        return array
    if array.flags.c_contiguous or array.nbytes <= SMALL:
        return stored(array)
    raw = storage_dtype(logical_name(array.dtype))
    return array if raw == array.dtype else array.view(raw) if raw.kind != array.dtype.kind else stored(array)


def digests_of(raws: Mapping[str, Array]) -> dict[str, str]:
    """Key -> xxh3-128 of the array's bytes in hex, of arrays in the form of `raw_of`."""
    if sum(raw.nbytes for raw in raws.values()) <= SMALL:
        return dict(zip(raws, map(digest_of, raws.values()), strict=True))
    return dict(zip(raws, in_parallel(_digest, raws.values()), strict=True))


def in_parallel(function: Callable[[Job], Result], jobs: Iterable[Job], *, threads: int = 2) -> list[Result]:
    """The results of a function that lets other threads run while it reads, writes and hashes.

    More than two do not pay here: they fill the memory's bandwidth, and the system writes a file for one thread at a
    time. For a store that answers slowly they do.

    Raises:
        Exception: Whatever the function raises first.
    """
    waiting, lock = enumerate(jobs), Lock()
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                with lock:
                    index, job = next(waiting)
                results[index] = function(job)
            except StopIteration:
                return
            except BaseException as error:  # noqa: BLE001  raised again by the caller's thread
                errors.append(error)

    helpers = [Thread(target=work, name="rlpipe-array-file") for _ in range(threads - 1)]
    for each in helpers:
        # Executors, and newer Pythons, start no thread for a save at the end of a process.
        with suppress(RuntimeError):
            each.start()
    work()
    for each in helpers:
        if each.ident is not None:
            each.join()
    if errors:
        raise errors[0]
    return [results[index] for index in sorted(results)]


def write_all(descriptor: int, buffer: Buffer) -> None:
    """Write a buffer at the descriptor's position, in as many calls as the system wants."""
    done = os.write(descriptor, buffer)
    while done < len(buffer):
        done += os.write(descriptor, buffer[done:])


def _digest(raw: Array) -> str:
    if raw.flags.c_contiguous:
        return digest_of(raw)
    digest = xxhash.xxh3_128()
    for piece in _pieces(raw):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(raw: Array | memoryview) -> Iterator[memoryview]:
    """The bytes of an array in C order, about as many at once as stay in the cache."""
    if not isinstance(raw, memoryview):
        if not raw.flags.c_contiguous:
            yield from map(bytes_of, _put_in_order(raw))
            return
        raw = bytes_of(raw)
    for start in range(0, len(raw), PIECE):
        yield raw[start : start + PIECE]


def _put_in_order(raw: Array) -> Iterator[Array]:
    """Parts of an array, each copied to C order, as they follow each other there."""
    if raw.nbytes <= PIECE:
        yield np.ascontiguousarray(raw)
    elif (nbytes := raw.nbytes // len(raw)) > PIECE:
        for row in raw:
            yield from _put_in_order(row)
    else:
        rows = PIECE // nbytes
        for start in range(0, len(raw), rows):
            yield np.ascontiguousarray(raw[start : start + rows])


def bytes_of(raw: Array) -> memoryview:
    """The memory of an array in C order as bytes."""
    return raw.reshape(-1).view(np.uint8).data if raw.size else memoryview(b"")


def _interleaved(layout: Layout, raws: Mapping[str, Array]) -> list[Any]:
    """The whole file in parts, by two assignments: a small file takes no longer than a step of Python for each part."""
    parts: list[Any] = [b""] * (len(layout.frame) + len(layout.order))
    parts[::2] = layout.frame
    parts[1::2] = [raws[key] for key in layout.order]
    return parts


def _write_large(descriptor: int, layout: Layout, raws: Mapping[str, Array], durability: Durability) -> dict[str, str]:
    def write(job: tuple[str, int, Array | memoryview]) -> tuple[str, str]:
        key, position, raw = job
        return key, _write_hashed(descriptor, position, raw, durability)

    parts = _parts(layout, raws)
    large = dict(in_parallel(write, parts) if hasattr(os, "pwrite") else map(write, parts))
    return {key: large.get(key) or digest_of(raw) for key, raw in raws.items()}


def _parts(layout: Layout, raws: Mapping[str, Array]) -> Iterator[tuple[str, int, Array | memoryview]]:
    """Key, position and numbers of each large array; what lies between two of them, in parts, under no key."""
    gathered, position = bytearray(layout.frame[0]), 0
    for key, after in zip(layout.order, layout.frame[1:], strict=True):
        is_large = raws[key].nbytes > _GATHERED
        if is_large or len(gathered) > PIECE:
            yield "", position, memoryview(gathered)
            gathered, position = bytearray(), layout.offsets[key]
        if is_large:
            yield key, position, raws[key]
            position += raws[key].nbytes
        else:
            gathered += bytes_of(raws[key])
        gathered += after
    yield "", position, memoryview(gathered)


def _write_hashed(descriptor: int, position: int, raw: Array | memoryview, durability: Durability) -> str:
    digest, done = xxhash.xxh3_128(), 0
    for piece in _pieces(raw):
        digest.update(piece)
        _write_at(descriptor, piece, position + done)
        blocks, done = done // _WRITE_BACK, done + len(piece)
        if durability == "fsync" and done // _WRITE_BACK > blocks:
            _start_write_back(descriptor, position + blocks * _WRITE_BACK, _WRITE_BACK)
    return digest.hexdigest()


def _write_at(descriptor: int, buffer: memoryview, position: int) -> None:
    if not hasattr(os, "pwrite"):  # Windows
        os.lseek(descriptor, position, os.SEEK_SET)
        write_all(descriptor, buffer)
        return
    while buffer:
        count = os.pwrite(descriptor, buffer, position)
        buffer, position = buffer[count:], position + count


def _start_write_back(descriptor: int, position: int, length: int) -> None:
    """Let the disk begin with these bytes. It is a hint only: what is on the disk is for fsync to say."""
    function = _sync_file_range()
    if function is not None:
        function(descriptor, position, length, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function
