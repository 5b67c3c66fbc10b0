"""A file before it is written: the buffers that make it up, and where each array will lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import xxhash

Buffer: TypeAlias = bytes | bytearray | memoryview

ALIGNMENT = 64
"""Arrays start at multiples of this many bytes: a cache line, and enough for any vector instruction."""

PIECE_SIZE = 16 * 2**20
"""A file is hashed in pieces of this many bytes."""

_GATHER = 2**18
"""Parts smaller than this are gathered into one write."""

_STRIDE = 2**20
"""Bytes hashed and written at once, so that they are still in the cache when they are written."""


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A file before it is written.

    Attributes:
        parts: The buffers that make it up, in order. The arrays' own memory is among them, so writing needs no copy.
        offsets: Key of a block -> position of its first byte; 0 for an array without elements.
    """

    parts: tuple[Buffer, ...]
    offsets: Mapping[str, int]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(map(len, self.parts))

    def tobytes(self) -> bytes:
        """The whole file as one value."""
        return b"".join(self.parts)


@dataclass(slots=True, eq=False)
class ImageBuilder:
    """Puts buffers one after the other."""

    parts: list[Buffer] = field(default_factory=list)
    size: int = 0

    def put(self, buffer: Buffer) -> int:
        """Append the buffer; returns its position."""
        position = self.size
        if len(buffer):
            self.parts.append(buffer)
            self.size += len(buffer)
        return position

    def align(self) -> None:
        """Append zeros up to the next multiple of the alignment."""
        self.put(bytes(-self.size % ALIGNMENT))


def write_image(image: Image, path: Path) -> tuple[str, ...]:
    """Write a new file, its bytes on the disk when this returns.

    Args:
        image: The file.
        path: Where it goes; there must be nothing yet. Its mode follows the umask.

    Returns:
        xxh3-128 in hex of each piece of `PIECE_SIZE` bytes, the last one shorter.

    Raises:
        OSError: The system cannot write it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        digests = tuple(_write_pieces(descriptor, image.parts))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return digests


def _write_pieces(descriptor: int, parts: Iterable[Buffer]) -> Iterator[str]:
    digest = xxhash.xxh3_128()
    room = PIECE_SIZE
    for stride in _strides(parts):
        rest = memoryview(stride)
        while rest:
            now = rest[: min(room, _STRIDE)]
            digest.update(now)
            _write_all(descriptor, now)
            rest, room = rest[len(now) :], room - len(now)
            if not room:
                yield digest.hexdigest()
                digest, room = xxhash.xxh3_128(), PIECE_SIZE
    if room < PIECE_SIZE:
        yield digest.hexdigest()


def _strides(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same bytes in fewer buffers: runs of small parts are gathered, large ones stay as they are."""
    gathered = bytearray()
    for part in parts:
        if len(part) < _GATHER:
            gathered += part
        if len(part) >= _GATHER or len(gathered) >= _GATHER:
            yield gathered
            gathered = bytearray()
        if len(part) >= _GATHER:
            yield part
    yield gathered


def _write_all(descriptor: int, buffer: memoryview) -> None:
    while buffer:
        buffer = buffer[os.write(descriptor, buffer) :]
