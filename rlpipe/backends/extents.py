"""The one reader: arrays out of any file whose manifest says where they lie.

It knows no HDF5 and no pickle. It opens the file once, reads the ranges that are wanted and no others, checks their
hashes, and makes read-only views. Nothing that a file says is believed; only its manifest is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import xxhash

from rlpipe.errors import IntegrityError, listed
from rlpipe.snapshot.dtypes import dtype_of, storage_dtype
from rlpipe.snapshot.state import Array

_SMALL_GAP = 4096
"""Ranges with at most this many bytes between them are read in one go."""

_STRIDE = 2**20
_NOTHING: Array = np.empty(0, np.uint8)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Extent:
    """Where an array lies in its file, and what it is.

    Attributes:
        key: Its array key.
        dtype: Name of its dtype (see `rlpipe.snapshot.dtypes`).
        shape: Its shape.
        offset: Position of its first byte.
        digest: xxh3-128 of its bytes in hex.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    digest: str

    @property
    def length(self) -> int:
        """Its bytes."""
        return prod(self.shape) * storage_dtype(self.dtype).itemsize

    @property
    def end(self) -> int:
        """Position after its last byte."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a manifest says of its array file.

    Attributes:
        name: Its name in the component's directory.
        size: Its bytes.
        piece_size: Bytes of each piece but the last.
        pieces: xxh3-128 of each piece in hex; together they cover the file.
    """

    name: str
    size: int
    piece_size: int
    pieces: tuple[str, ...]


def read_arrays(directory: Path, record: FileRecord, extents: Sequence[Extent]) -> dict[str, Array]:
    """Read some arrays of a file.

    Args:
        directory: The component's directory.
        record: What its manifest says of the file.
        extents: The arrays that are wanted, none lying over another.

    Returns:
        Key -> array in native byte order, read-only.

    Raises:
        IntegrityError: The file is missing, of another size, no regular file, a Git LFS pointer, or an array's hash is
            wrong; all damaged keys are named.
    """
    path = directory / record.name
    found = {each.key: _view(_NOTHING, each) for each in extents if not each.length}
    damaged: list[str] = []
    with _opened(path, record.size) as descriptor:
        for run in _runs([each for each in extents if each.length]):
            start = run[0].offset
            buffer = _read_range(descriptor, start, run[-1].end - start, path)
            for each in run:
                raw = buffer[each.offset - start : each.end - start]
                if _digest(raw) != each.digest:
                    damaged.append(each.key)
                found[each.key] = _view(raw, each)
    if damaged:
        raise _damage(path, f"the bytes of {listed(damaged)} have changed")
    return found


def read_all_arrays(directory: Path, record: FileRecord, extents: Sequence[Extent]) -> dict[str, Array]:
    """Read a whole file at once, and check every byte of it.

    Args:
        directory: The component's directory.
        record: What its manifest says of the file.
        extents: All of its arrays.

    Returns:
        Key -> array in native byte order, read-only.

    Raises:
        IntegrityError: As `read_arrays`; damage outside the arrays counts too.
    """
    path = directory / record.name
    is_whole = True
    with _opened(path, record.size) as descriptor:
        buffer = np.empty(record.size, np.uint8)
        for digest, piece in zip(record.pieces, _pieces(record), strict=True):
            _read_into(descriptor, buffer.data[piece], piece.start, path)
            is_whole &= _digest(buffer[piece]) == digest
    if not is_whole:
        damaged = [each.key for each in extents if _digest(_raw(buffer, each)) != each.digest]
        raise _damage(path, f"the bytes of {listed(damaged) or 'what lies between the arrays'} have changed")
    buffer.setflags(write=False)
    return {each.key: _view(_raw(buffer, each), each) for each in extents}


def damaged_parts(directory: Path, record: FileRecord, extents: Sequence[Extent]) -> list[tuple[str, str]]:
    """Read a whole file in little memory, and check every byte of it.

    Returns:
        Key and finding for each damaged array; "" and a finding for each damaged piece that no array explains.

    Raises:
        IntegrityError: The file is missing, of another size, no regular file, or a Git LFS pointer.
    """
    path = directory / record.name
    with _opened(path, record.size) as descriptor:
        damaged = [each for each in extents if _digest_range(descriptor, each.offset, each.length, path) != each.digest]
        findings = [(each.key, "its bytes have changed") for each in damaged]
        for digest, piece in zip(record.pieces, _pieces(record), strict=True):
            is_explained = any(each.offset < piece.stop and piece.start < each.end for each in damaged)
            if not is_explained and _digest_range(descriptor, piece.start, piece.stop - piece.start, path) != digest:
                findings.append(("", f"bytes {piece.start} to {piece.stop} have changed, outside the arrays"))
    return findings


def _pieces(record: FileRecord) -> list[slice]:
    starts = range(0, record.size, record.piece_size)
    return [slice(start, min(start + record.piece_size, record.size)) for start in starts]


def _raw(buffer: Array, extent: Extent) -> Array:
    return buffer[extent.offset : extent.end]


@contextmanager
def _opened(path: Path, size: int) -> Iterator[int]:
    """A descriptor of the file, which is regular and of that size."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise _damage(path, "nothing", expected=f"a file of {size} bytes") from None
    except OSError as error:
        raise _damage(path, f"it cannot be opened: {error.strerror}", expected="a readable file") from error
    try:
        _require_size(descriptor, size, path)
        yield descriptor
    except OSError as error:
        raise _damage(path, f"it cannot be read: {error.strerror}", expected="a readable file") from error
    finally:
        os.close(descriptor)


def _require_size(descriptor: int, size: int, path: Path) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _damage(path, "something that is no regular file", expected="an array file")
    if status.st_size == size:
        return
    if os.read(descriptor, len(_LFS_POINTER)) == _LFS_POINTER:
        raise _damage(path, "a Git LFS pointer in its place", expected="the array file", fix="fetch it: git lfs pull")
    raise _damage(path, f"{status.st_size} bytes", expected=f"{size} bytes")


def _damage(path: Path, found: str, *, expected: str = "the bytes that were saved", fix: str = "") -> IntegrityError:
    return IntegrityError(
        f"{path} is damaged",
        expected=expected,
        found=found,
        fix=fix or "take another copy of the checkpoint; task=verify lists all damage",
    )


def _runs(extents: Sequence[Extent]) -> Iterator[list[Extent]]:
    """The extents in the order of the file, grouped where little lies between them."""
    run: list[Extent] = []
    for each in sorted(extents, key=lambda each: each.offset):
        if run and each.offset - run[-1].end > _SMALL_GAP:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _read_range(descriptor: int, start: int, length: int, path: Path) -> Array:
    buffer = np.empty(length, np.uint8)
    _read_into(descriptor, buffer.data, start, path)
    buffer.setflags(write=False)
    return buffer


def _digest_range(descriptor: int, start: int, length: int, path: Path) -> str:
    digest = xxhash.xxh3_128()
    stride = memoryview(bytearray(min(length, _STRIDE)))
    for position in range(start, start + length, _STRIDE):
        now = stride[: min(_STRIDE, start + length - position)]
        _read_into(descriptor, now, position, path)
        digest.update(now)
    return digest.hexdigest()


def _read_into(descriptor: int, buffer: memoryview, position: int, path: Path) -> None:
    while buffer:
        count = _read_at(descriptor, buffer, position)
        if not count:
            raise _damage(path, "its end, before the last array", expected="more bytes")
        buffer, position = buffer[count:], position + count


def _read_at(descriptor: int, buffer: memoryview, position: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], position)
    os.lseek(descriptor, position, os.SEEK_SET)  # Windows
    data = os.read(descriptor, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def _digest(raw: Array) -> str:
    return xxhash.xxh3_128_hexdigest(raw.data)


def _view(raw: Array, extent: Extent) -> Array:
    """The bytes as the array that they are; a copy only on big-endian machines."""
    dtype = dtype_of(extent.dtype)
    array = np.ndarray(extent.shape, storage_dtype(extent.dtype), raw if raw.size else None)
    array.setflags(write=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False).view(dtype)
