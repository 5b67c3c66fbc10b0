"""Mappings whose order means something, as JSON, where the names of an object are sorted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlpipe.errors import SpecError
from rlpipe.snapshot.spec import Json


def in_order(mapping: Mapping[str, Json], names: Iterable[str]) -> Json:
    """The mapping as plain JSON: an object where sorting keeps the order of these names, a list of pairs elsewhere."""
    kept = list(names)
    return dict(mapping) if kept == sorted(kept) else [[name, value] for name, value in mapping.items()]


def from_order(value: Json, *, where: str) -> dict[str, Json]:
    """The mapping that `in_order` was given, in its order.

    Raises:
        SpecError: It is neither an object nor a list of pairs.
    """
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        names = [name for name, _ in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(value)
    raise SpecError(
        f"{where} is no mapping", expected="an object, or pairs of names and values", found=repr(value)[:80]
    )
