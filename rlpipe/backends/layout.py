"""Where the arrays of a file lie and which bytes stand around them: everything about a file but the numbers.

A layout follows from the arrays' keys, dtypes, shapes, roles and ties alone. Policies of one architecture share it, and
so does each save of a training run, so that it need be made only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

import xxhash

from rlpipe.snapshot.dtypes import storage_dtype
from rlpipe.snapshot.snapshot import Role

Buffer: TypeAlias = bytes | bytearray | memoryview

ALIGNMENT = 64
"""Arrays start at multiples of this many bytes: a cache line, and enough for any vector instruction."""


class Slot(NamedTuple):
    """An array that a file shall have room for.

    Attributes:
        key: Its array key: percent-escaped names joined with "/".
        dtype: Name of its dtype (see `rlpipe.snapshot.dtypes`).
        shape: Its shape.
        role: Arrays of role inference lie before those of role training.
        aliases: Other keys of the same array, sorted.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    role: Role = "inference"
    aliases: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * storage_dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A file but for the numbers in it.

    Attributes:
        order: Keys of the arrays with elements, as they follow each other.
        offsets: Key -> position of the array's first byte; 0 for one without elements. Aliases are left out.
        frame: What stands before the first array, between two, and after the last; one more than there are arrays.
        size: Bytes of the file.
    """

    order: tuple[str, ...]
    offsets: Mapping[str, int]
    frame: tuple[bytes, ...]
    size: int

    @property
    def frame_digest(self) -> str:
        """xxh3-128 in hex of the frame, as if no array stood in it."""
        return xxhash.xxh3_128_hexdigest(b"".join(self.frame))


@dataclass(slots=True, eq=False)
class LayoutBuilder:
    """Puts bytes and room for arrays one after the other."""

    size: int = 0
    order: list[str] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    frame: list[bytearray] = field(default_factory=lambda: [bytearray()])

    def put(self, data: bytes) -> int:
        """Append bytes; returns their position."""
        position = self.size
        self.frame[-1] += data
        self.size += len(data)
        return position

    def align(self) -> None:
        """Append zeros up to the next multiple of the alignment."""
        self.put(bytes(-self.size % ALIGNMENT))

    def leave_room(self, slot: Slot) -> int:
        """Append room for an array, at an aligned position already; returns its position, 0 if it needs none."""
        nbytes = slot.nbytes
        position = self.size if nbytes else 0
        self.offsets[slot.key] = position
        if nbytes:
            self.order.append(slot.key)
            self.frame.append(bytearray())
            self.size += nbytes
        return position

    def done(self) -> Layout:
        """The layout."""
        return Layout(tuple(self.order), dict(self.offsets), tuple(map(bytes, self.frame)), self.size)


def by_role(slots: Sequence[Slot]) -> list[Slot]:
    """The slots in the order of the file: inference before training, each sorted by key."""
    return sorted(slots, key=lambda each: (each.role, each.key))
