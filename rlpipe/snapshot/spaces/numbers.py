"""Exact casts of bounds and counts, and their compact JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpipe.errors import SpaceError
from rlpipe.snapshot.dtypes import DTYPES, DType
from rlpipe.snapshot.spec import Json
from rlpipe.snapshot.state import Array

_INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


def dtype_named(name: Json, where: str, *, kinds: str) -> DType:
    """The dtype of a name on disk; a dtype comes back in native byte order.

    Args:
        name: Such as "float32".
        where: How errors name it.
        kinds: Allowed numpy kinds, such as "iu".

    Raises:
        SpaceError: No such dtype, or one of another kind.
    """
    allowed = {known: dtype for known, dtype in DTYPES.items() if dtype.kind in kinds}
    known = name.newbyteorder("=").name if isinstance(name, np.dtype) else name
    if not isinstance(known, str) or known not in allowed:
        raise SpaceError(f"{where}: wrong dtype", expected=f"one of {', '.join(allowed)}", found=repr(name))
    return allowed[known]


def cast(values: Any, dtype: DType, where: str) -> Array:
    """The values in the dtype: whole numbers exactly, real numbers rounded; NaN and overflow are refused.

    Args:
        values: An array, or nested lists of numbers.
        dtype: A bool, integer or float dtype.
        where: How errors name it.

    Returns:
        A read-only array; of one stored element where all are the same bits.

    Raises:
        SpaceError: A value that the dtype cannot hold.
    """
    try:
        # Lists as objects: numpy would round large whole numbers to floats.
        found = np.asarray(values) if isinstance(values, np.ndarray | np.generic) else np.array(values, dtype=object)
        if found.size == 0:
            return np.broadcast_to(np.zeros((), dtype), found.shape)
        if found.ndim and not any(found.strides):
            return np.broadcast_to(cast(first(found), dtype, where), found.shape)
        made = _exactly(found, dtype)
    except (OverflowError, TypeError, ValueError):
        made = None
    if made is None:
        raise SpaceError(f"{where} does not fit its dtype", expected=f"numbers of {dtype}", found=_short(values))
    return compact(made)


def _exactly(found: Array, dtype: DType) -> Array | None:
    """The array in the dtype; None where that would lose more than the last bits of a real number."""
    with np.errstate(all="ignore"):
        exact = found.astype(np.float64) if found.dtype == object and dtype.kind == "f" else found
        made = exact.astype(dtype)
    if dtype.kind == "f":
        fits = not (np.isnan(made).any() or (np.isinf(made) & ~np.isinf(exact)).any())
    else:
        fits = bool(np.all(made == exact))
    return made if fits else None


def _short(values: Any) -> str:
    text = " ".join(str(values).split())
    return text if len(text) <= 80 else text[:77] + "..."


def compact(array: Array) -> Array:
    """A read-only array with the same values; equal bits in all elements are stored once.

    A bound of an image is one number, and a hostile file cannot ask for memory by naming a huge shape.
    """
    head = array.reshape(-1)[:1]
    if array.tobytes() == head.tobytes() * array.size:
        return np.broadcast_to(head.reshape(()).copy(), array.shape)
    made = array.copy()
    made.setflags(write=False)
    return made


def spread(values: Array, shape: tuple[int, ...], where: str) -> Array:
    """The values at a shape: one number for all elements, or one for each.

    Raises:
        SpaceError: The shape is of another size, or too large for any array.
    """
    if values.shape == shape:
        return values
    try:
        made = np.broadcast_to(values, shape) if values.ndim == 0 else None
    except ValueError:  # numpy has no arrays of that size
        made = None
    if made is None:
        raise SpaceError(f"{where} has the wrong shape", expected=str(shape), found=str(values.shape))
    return made


def is_uniform(array: Array) -> bool:
    """Whether one number stands for all elements."""
    return array.size <= 1 or not any(array.strides)


def first(array: Array) -> Array:
    """The first element, as a 0-d array; 0 of an empty one."""
    return np.asarray(array[(0,) * array.ndim]) if array.size else np.zeros((), array.dtype)


def distinct(array: Array) -> Array:
    """All elements that can differ: the first where one number stands for all, else the array."""
    return first(array) if is_uniform(array) else array


def ends(low: Any, high: Any, size: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    """Rows of extremes: the first all lowest, the second all highest, in the rest each element one of the two.

    Args:
        low: Lowest value, of shape size[1:] or one number.
        high: Highest value, likewise.
        size: (n, *shape) of the result.
        dtype: Dtype of the result.
        rng: Chooses.
    """
    up = rng.random(size) < 0.5
    up[:1], up[1:2] = False, True
    return np.where(up, high, low).astype(dtype)


def bounds_json(array: Array) -> Json:
    """One number where all elements are equal, else nested lists; infinities as "inf" and "-inf"."""
    return _listed(distinct(array).tolist())


def _listed(value: Any) -> Json:
    return [_listed(item) for item in value] if isinstance(value, list) else _number_json(value)


def _number_json(value: Any) -> Json:
    if isinstance(value, float) and np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def bounds_of_json(value: Json, where: str) -> Any:
    """Nested lists of numbers, the inverse of `bounds_json` before the cast.

    Raises:
        SpaceError: Something that is no number.
    """
    if isinstance(value, list | tuple):
        return [bounds_of_json(item, where) for item in value]
    if isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    if not isinstance(value, bool | int | float):
        raise SpaceError(f"{where} is no number", expected='a number, "inf" or "-inf"', found=repr(value))
    return value
