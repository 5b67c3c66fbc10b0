"""Observations as callers give them, checked against the space and turned into flat arrays of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.errors import ObservationError, SpaceError, listed
from rlpipe.snapshot.spaces import Box, Leaf, Space, flat_batch, flat_items
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True)
class Observations:
    """One batch of observations.

    Attributes:
        arrays: Flat name -> (B, *shape) in the space's dtype.
        is_single: One observation was given, without a batch axis; B is 1.
    """

    arrays: Mapping[str, Array]
    is_single: bool


def read_observations(space: Space, given: Any) -> Observations:
    """Check observations, whole: every finding is in one error.

    Args:
        space: The space of one observation.
        given: An array, or nested dicts or tuples of arrays; all of shape (B, *shape), or all of shape (*shape) for a
            single observation. Floats may come in another float dtype, integers in another that holds the same numbers.

    Raises:
        ObservationError: Another structure, shape or dtype, a choice that does not exist, or NaN.
    """
    leaves = dict(flat_items(space, "obs"))
    try:
        found = flat_batch(space, given, "obs")
    except SpaceError as error:
        raise ObservationError(
            "the observation has other parts than the space", expected=error.expected, found=error.found
        ) from None
    arrays = {name: _array(name, found[name]) for name in leaves}
    is_single = all(arrays[name].shape == leaf.shape for name, leaf in leaves.items())
    if is_single:
        arrays = {name: array[None] for name, array in arrays.items()}
    else:
        _require_batch(leaves, arrays)
    findings = [text for name, leaf in leaves.items() for text in _findings(name, leaf, arrays[name])]
    if findings:
        raise ObservationError(
            "the policy cannot take this observation", expected=space.describe(), found="; ".join(findings)
        )
    with np.errstate(over="ignore"):
        cast = {name: np.array(arrays[name], dtype=leaf.dtype, order="C") for name, leaf in leaves.items()}
    return Observations(cast, is_single)


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ObservationError(f"{name} is no array", expected="rows of equal length", found=str(error)) from None


def _require_batch(leaves: Mapping[str, Leaf], arrays: Mapping[str, Array]) -> None:
    wrong = [name for name, leaf in leaves.items() if not arrays[name].ndim or arrays[name].shape[1:] != leaf.shape]
    sizes = {len(array) for array in arrays.values() if array.ndim}
    if not wrong and len(sizes) == 1:
        return
    named = wrong or list(leaves)
    raise ObservationError(
        "the observation has the wrong shape",
        expected=listed(f"{name} {_batch_text(leaves[name])} or {leaves[name].shape}" for name in named),
        found=listed(f"{name} {arrays[name].shape}" for name in named),
        fix="give one observation, or a batch of them stacked along a first axis of one length for all parts",
    )


def _batch_text(leaf: Leaf) -> str:
    return f"({', '.join(map(str, ('B', *leaf.shape)))})"


def _findings(name: str, leaf: Leaf, array: Array) -> list[str]:
    if array.dtype.kind == leaf.dtype.kind == "f":
        return [f"{name} has {int(np.isnan(array).sum())} NaN"] if np.isnan(array).any() else []
    if array.dtype.kind not in "biu":
        return [f"{name} is {array.dtype}, not {leaf.dtype}"]
    if not isinstance(leaf, Box) and array.size and not leaf.contains(array):
        return [f"{name} has values from {array.min()} to {array.max()}, not in {leaf.describe()}"]
    return [] if _holds(leaf.dtype, array) else [f"{name} has values that {leaf.dtype} cannot hold"]


def _holds(dtype: np.dtype[Any], array: Array) -> bool:
    """Whether whole numbers stay the same in a dtype; in a float they are rounded like any other observation."""
    if dtype.kind == "f" or np.can_cast(array.dtype, dtype) or not array.size:
        return True
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return low <= int(array.min()) and int(array.max()) <= high
