"""Which piece of memory each intermediate result gets: pieces are used again once nobody reads them any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ALIGNED = 16
"""Elements; so every piece begins where vector instructions like it."""


@dataclass(slots=True)
class Piece:
    """An array of one type that lives from one step to another.

    Attributes:
        dtype: Of its elements.
        size: Number of elements.
        first: The step that writes it.
        last: The last step that reads it.
    """

    dtype: str
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Where the pieces lie.

    Attributes:
        places: Name of a piece -> elements before it in the array of its dtype.
        sizes: dtype -> elements that this array has to have.
    """

    places: Mapping[str, int]
    sizes: Mapping[str, int]


def arrange(pieces: Mapping[str, Piece]) -> Arena:
    """Put each piece into the first gap that is free for all of its life."""
    places: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for name, piece in pieces.items():
        living = sorted(
            (places[other], _rounded(pieces[other].size))
            for other in places
            if pieces[other].dtype == piece.dtype
            and pieces[other].first <= piece.last
            and piece.first <= pieces[other].last
        )
        place = 0
        for start, size in living:
            if place + _rounded(piece.size) <= start:
                break
            place = max(place, start + size)
        places[name] = place
        sizes[piece.dtype] = max(sizes.get(piece.dtype, 0), place + piece.size)
    return Arena(places, dict(sorted(sizes.items())))


def _rounded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
