"""What a manifest says of an array file: where its arrays lie, and how its bytes are cut up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from rlpipe.snapshot.dtypes import DTYPES, DType, storage_dtype

_FORMS: Mapping[str, tuple[DType, DType | None]] = MappingProxyType(
    {name: (storage_dtype(name), None if storage_dtype(name) == dtype else dtype) for name, dtype in DTYPES.items()}
)
"""Name of a dtype -> the one that is stored, and the one in memory if it is another."""


class Extent(NamedTuple):
    """Where an array lies in its file, and what it is.

    Attributes:
        key: Its array key.
        dtype: Name of its dtype (see `rlpipe.snapshot.dtypes`).
        shape: Its shape.
        offset: Position of its first byte; 0 for one without elements.
        length: Its bytes.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True)
class ArrayFile:
    """What a manifest says of an array file, but for the digests of its arrays.

    Attributes:
        name: Its name in the component's directory.
        size: Its bytes.
        frame: xxh3-128 in hex of all bytes that are in no array, in order.
        extents: Its arrays in the order of the file, none lying over another; those without elements first.
    """

    name: str
    size: int
    frame: str
    extents: tuple[Extent, ...]

    @cached_property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Start and end of what lies before, between and after the arrays."""
        stops = [0]
        for each in self.extents:
            if each.length:
                stops += (each.offset, each.offset + each.length)
        stops.append(self.size)
        return tuple(zip(stops[::2], stops[1::2], strict=True))

    @cached_property
    def cuts(self) -> Cuts:
        """How its bytes, whole in memory, are cut up."""
        return cuts_of(self.extents, 0, self.gaps)


class Cuts(NamedTuple):
    """How bytes in memory are cut up into arrays, in columns: a small array costs more to ask for than to read.

    Attributes:
        keys: Key of each array.
        places: Where its bytes are.
        shapes: Its shape.
        dtypes: Its dtype as it is stored.
        offsets: Where it begins; 0 for one without elements.
        natives: Key and dtype of those that have another dtype in memory.
        gaps: What is in no array.
    """

    keys: tuple[str, ...]
    places: tuple[slice, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DType, ...]
    offsets: tuple[int, ...]
    natives: tuple[tuple[str, DType], ...]
    gaps: tuple[slice, ...]


def cuts_of(extents: Sequence[Extent], start: int, gaps: Iterable[tuple[int, int]] = ()) -> Cuts:
    """The cuts of bytes of which the first one stands at `start` in the file."""
    offsets = tuple(each.offset - start if each.length else 0 for each in extents)
    forms = [_FORMS[each.dtype] for each in extents]
    return Cuts(
        keys=tuple(each.key for each in extents),
        places=tuple(slice(at, at + each.length) for at, each in zip(offsets, extents, strict=True)),
        shapes=tuple(each.shape for each in extents),
        dtypes=tuple(stored for stored, _ in forms),
        offsets=offsets,
        natives=tuple(
            (each.key, native) for each, (_, native) in zip(extents, forms, strict=True) if native is not None
        ),
        gaps=tuple(slice(*gap) for gap in gaps),
    )
