"""Boxes: arrays with a lower and an upper bound for every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpaceError
from rlpipe.snapshot.dtypes import DType
from rlpipe.snapshot.spaces.numbers import (
    bounds_json,
    bounds_of_json,
    cast,
    distinct,
    dtype_named,
    ends,
    is_uniform,
    spread,
)
from rlpipe.snapshot.spaces.space import Batch, Finding, Leaf, Parse, Severity, Space, Use, differ, fields, wholes
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from rlpipe.snapshot.spec import Json

_KINDS = "biuf"
_SHOWN = 4
"""Up to so many elements, bounds that differ are shown one by one."""
_FAR = 1e3
"""Where a corner lies on a side without a bound: the largest scale at which policies are checked."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Box(Leaf):
    """Arrays between two bounds, both included.

    Attributes:
        low: Lowest value of every element, in the dtype; "-inf" only in float dtypes.
        high: Highest value of every element, same shape.
        dtype: A bool, integer or float dtype.

    Raises:
        SpaceError: Shapes differ, a bound does not fit the dtype or is NaN, or no number is between the bounds.
    """

    low: Array
    high: Array
    dtype: DType

    def __post_init__(self) -> None:
        dtype = dtype_named(self.dtype, "Box", kinds=_KINDS)
        low, high = cast(self.low, dtype, "low of the Box"), cast(self.high, dtype, "high of the Box")
        if low.shape != high.shape:
            raise SpaceError("low and high of a Box differ in shape", expected=str(low.shape), found=str(high.shape))
        if np.any(distinct(low) > distinct(high)):
            raise SpaceError("low of a Box is above high", expected="low <= high", found=f"{low} and {high}")
        if np.any(distinct(low) == np.inf) or np.any(distinct(high) == -np.inf):
            raise SpaceError("a Box holds no number", expected="low < inf and high > -inf", found=f"{low} and {high}")
        for name, value in (("dtype", dtype), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)

    @classmethod
    def uniform(cls, low: float, high: float, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Box:
        """The box with the same bounds for every element.

        Raises:
            SpaceError: See `Box`.
        """
        made = np.dtype(dtype)
        low_array, high_array = (spread(cast(bound, made, "bound"), shape, "Box") for bound in (low, high))
        return cls(low_array, high_array, made)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self.low.shape

    @property
    def open_below(self) -> Array:
        """Bool of the shape: where nothing bounds an element below: -inf, or the least number of a wide type."""
        lowest = _limits(self.dtype)[0]
        return np.zeros(self.shape, np.bool_) if lowest is None else self.low <= lowest

    @property
    def open_above(self) -> Array:
        """Where nothing bounds the element above, as `open_below`."""
        highest = _limits(self.dtype)[1]
        return np.zeros(self.shape, np.bool_) if highest is None else self.high >= highest

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) values: uniform between bounds, exponential from a single bound, normal without one."""
        draw = _sample_reals if self.dtype.kind == "f" else _sample_wholes
        return draw(self, (n, *self.shape), rng)

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) values, each element at one of its bounds; a side without a bound is taken at 1000."""
        far = np.asarray(_FAR).astype(self.dtype)
        low, high = self.low, self.high
        if self.open_below.any():
            low = np.where(self.open_below, np.minimum(-far, high), low)
        if self.open_above.any():
            high = np.where(self.open_above, np.maximum(far, self.low), high)
        return ends(low, high, (n, *self.shape), self.dtype, rng)

    def contains(self, batch: Batch) -> bool:
        """Whether the array is (n, *shape), of a dtype that casts safely, and within the bounds."""
        array = np.asarray(batch)
        fits = array.ndim == len(self.shape) + 1 and array.shape[1:] == self.shape
        fits = fits and np.can_cast(array.dtype, self.dtype)
        return fits and bool(np.all((array >= self.low) & (array <= self.high)))

    def describe(self) -> str:
        """Such as "Box(-4.8..4.8, (4,), float32)"; bounds that differ are given one by one if they are few."""
        return f"Box({self._range()}, {self.shape}, {self.dtype})"

    def _range(self) -> str:
        lows, highs = distinct(self.low), distinct(self.high)
        if is_uniform(self.low) and is_uniform(self.high):
            return f"{_text(lows.min(), self.dtype)}..{_text(highs.max(), self.dtype)}"
        if self.low.size <= _SHOWN:
            return "..".join(
                f"[{', '.join(_text(bound, self.dtype) for bound in bounds.flat)}]" for bounds in (self.low, self.high)
            )
        return f"{_text(lows.min(), self.dtype)}..{_text(highs.max(), self.dtype)} per element"

    def node(self) -> dict[str, Json]:
        """Shape, dtype name and bounds; equal bounds as one number, infinite ones as "inf" and "-inf"."""
        low, high = bounds_json(self.low), bounds_json(self.high)
        return {"type": "Box", "shape": list(self.shape), "dtype": self.dtype.name, "low": low, "high": high}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Box:
        """The box of its JSON; the shape may be left out where a bound is a list, the dtype where it is float32."""
        del parse
        fields(node, where, required=("low", "high"), optional=("shape", "dtype"))
        dtype = dtype_named(node.get("dtype", "float32"), where, kinds=_KINDS)
        low, high = (cast(bounds_of_json(node[name], where), dtype, f"{name} of {where}") for name in ("low", "high"))
        shape = wholes(node["shape"], f"shape of {where}") if "shape" in node else max(low.shape, high.shape, key=len)
        return cls(spread(low, shape, where), spread(high, shape, where), dtype)

    def differences(self, found: Box, use: Use) -> Iterator[Finding]:
        """Shape and, for actions, bounds are errors; the rest are warnings."""
        if self.shape != found.shape:
            yield from differ("error", "shape", self.shape, found.shape)
            return
        bounds: Severity = "error" if use == "action" else "warning"
        kinds: Severity = bounds if self.dtype.kind != found.dtype.kind else "warning"
        yield from differ(kinds, "dtype", self.dtype.name, found.dtype.name)
        other = ~_same_bounds(self, found)
        if other.any():
            at = tuple(int(axis[0]) for axis in np.nonzero(other)) if other.ndim else ()
            where = f"{int(other.sum())} of {other.size} elements, first at {list(at)}"
            yield from differ(bounds, f"bounds of {where}", self._range_at(at), found._range_at(at))

    def _range_at(self, at: tuple[int, ...]) -> str:
        return f"{_text(self.low[at], self.dtype)}..{_text(self.high[at], self.dtype)}"

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.Box` with the same bounds."""
        return kinds.Box(np.array(self.low), np.array(self.high), dtype=self.dtype.type)

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Box:
        """The box of a `gymnasium.spaces.Box`."""
        del convert
        return cls(space.low, space.high, space.dtype)


def _limits(dtype: DType) -> tuple[Any, Any]:
    """The least and the greatest number that bound nothing in practice; None where the type's own limits are meant."""
    if dtype.kind == "f":
        # Networks compute in float32 at most: what overflows there is no bound.
        top = min(float(np.finfo(dtype).max), float(np.finfo(np.float32).max))
        return -top, top
    if dtype.itemsize < 4 or dtype.kind == "b":
        return None, None
    # Older gymnasium wrote an infinite bound of an integer type as its limit less two.
    least, most = int(np.iinfo(dtype).min) + 2, int(np.iinfo(dtype).max) - 2
    return (least if dtype.kind == "i" else None), most


def _sample_reals(box: Box, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    below, above = box.open_below, box.open_above
    low, high = np.where(below, 0, box.low).astype(np.float64), np.where(above, 0, box.high).astype(np.float64)
    share = rng.random(size)
    # Written so that the difference of two large bounds cannot overflow.
    values = low * (1 - share) + high * share
    if below.any() or above.any():
        steps, free = rng.exponential(size=size), rng.normal(size=size)
        values = np.select([below & above, above, below], [free, low + steps, high - steps], values)
    top = float(np.finfo(box.dtype).max)
    return np.clip(np.clip(values, -top, top).astype(box.dtype), box.low, box.high)


def _sample_wholes(box: Box, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    dtype, below, above = box.dtype, box.open_below, box.open_above
    values = rng.integers(box.low, box.high, size=size, dtype=dtype.type, endpoint=True)
    if not (below.any() or above.any()):
        return values
    # In unsigned arithmetic the span is right for every width and sign.
    span = box.high.astype(np.uint64) - box.low.astype(np.uint64)
    steps = np.minimum(np.floor(rng.exponential(size=size)).astype(np.uint64), span).astype(dtype)
    free = np.floor(rng.normal(size=size)).astype(np.int64).astype(dtype)
    return np.select([below & above, above, below], [free, box.low + steps, box.high - steps], values)


def _same_bounds(a: Box, b: Box) -> Array:
    low = _equal(a.low, b.low) | (a.open_below & b.open_below)
    return low & (_equal(a.high, b.high) | (a.open_above & b.open_above))


def _equal(a: Array, b: Array) -> Array:
    if a.dtype.kind == b.dtype.kind == "f":
        # 0.1 in float32 and in float64 is the same bound.
        coarse = min(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)
        with np.errstate(over="ignore"):
            return np.equal(a.astype(coarse), b.astype(coarse))
    return np.equal(a, b)


def _text(value: Any, dtype: DType) -> str:
    least, most = _limits(dtype)
    if dtype.kind != "f":
        return str(int(value))
    if value <= least or value >= most:
        return "inf" if value > 0 else "-inf"
    return f"{float(value):.6g}"
