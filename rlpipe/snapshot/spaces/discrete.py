"""Spaces of finitely many values: one choice, several choices, several switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpaceError
from rlpipe.snapshot.dtypes import DType
from rlpipe.snapshot.spaces.numbers import bounds_json, bounds_of_json, cast, distinct, dtype_named, ends, spread
from rlpipe.snapshot.spaces.space import Batch, Finding, Leaf, Parse, Space, Use, differ, fields, whole, wholes
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from rlpipe.snapshot.spec import Json

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Discrete(Leaf):
    """The whole numbers from `start` to `start + n - 1`.

    Attributes:
        n: How many there are, at least 1.
        start: The first one.
        dtype: An integer dtype that holds them.

    Raises:
        SpaceError: A field that is none of that.
    """

    n: int
    start: int = 0
    dtype: DType = _INT64

    def __post_init__(self) -> None:
        dtype = dtype_named(self.dtype, "Discrete", kinds="iu")
        n, start = whole(self.n, "n of Discrete", at_least=1), whole(self.start, "start of Discrete")
        cast([start, start + n - 1], dtype, "Discrete")
        for name, value in (("n", n), ("start", start), ("dtype", dtype)):
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """(): one value is one number."""
        return ()

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """(n,) numbers, all equally likely."""
        return _draw(self.start, self.start + self.n - 1, (n,), self.dtype, rng)

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """(n,) numbers: the first or the last."""
        return ends(self.start, self.start + self.n - 1, (n,), self.dtype, rng)

    def contains(self, batch: Batch) -> bool:
        """Whether the array is (n,) of whole numbers in the range."""
        return _within(np.asarray(batch), self.start, self.start + self.n - 1, ())

    def describe(self) -> str:
        """Such as "Discrete(2)" or "Discrete(3, start=-1)"."""
        start = f", start={self.start}" if self.start else ""
        return f"Discrete({self.n}{start}{_dtype_text(self.dtype)})"

    def node(self) -> dict[str, Json]:
        """Count, first number and dtype name."""
        return {"type": "Discrete", "n": self.n, "start": self.start, "dtype": self.dtype.name}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Discrete:
        """The space of its JSON; start 0 and dtype int64 may be left out."""
        del parse
        fields(node, where, required=("n",), optional=("start", "dtype"))
        return cls(node["n"], node.get("start", 0), dtype_named(node.get("dtype", "int64"), where, kinds="iu"))

    def differences(self, found: Discrete, use: Use) -> Iterator[Finding]:
        """Count and start are errors."""
        del use
        yield from differ("error", "count", self.n, found.n)
        yield from differ("error", "start", self.start, found.start)
        yield from differ("warning", "dtype", self.dtype.name, found.dtype.name)

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.Discrete`."""
        if self.dtype == _INT64:  # gymnasium before 1.2 knows no other
            return kinds.Discrete(self.n, start=self.start)
        return kinds.Discrete(self.n, start=self.start, dtype=self.dtype.type)

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Discrete:
        """The space of a `gymnasium.spaces.Discrete`."""
        del convert
        return cls(int(space.n), int(space.start), space.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MultiDiscrete(Leaf):
    """Arrays of choices, each with its own count and first number.

    Attributes:
        nvec: Count of every element, at least 1.
        start: First number of every element; one number stands for all.
        dtype: An integer dtype that holds them.

    Raises:
        SpaceError: A field that is none of that.
    """

    nvec: Array
    start: Array = field(default_factory=lambda: np.zeros((), np.int64))
    dtype: DType = _INT64

    def __post_init__(self) -> None:
        dtype = dtype_named(self.dtype, "MultiDiscrete", kinds="iu")
        nvec = cast(self.nvec, dtype, "nvec of MultiDiscrete")
        start = spread(cast(self.start, dtype, "start of MultiDiscrete"), nvec.shape, "start of MultiDiscrete")
        if np.any(distinct(nvec) < 1):
            raise SpaceError("a count of MultiDiscrete is too small", expected="at least 1", found=str(nvec))
        last = start.astype(object) + nvec.astype(object) - 1
        cast(last, dtype, "MultiDiscrete")
        for name, value in (("nvec", nvec), ("start", start), ("dtype", dtype)):
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self.nvec.shape

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) choices, all equally likely."""
        return _draw(self.start, self._last(), (n, *self.shape), self.dtype, rng)

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) choices: the first or the last of every element."""
        return ends(self.start, self._last(), (n, *self.shape), self.dtype, rng)

    def contains(self, batch: Batch) -> bool:
        """Whether the array is (n, *shape) of whole numbers in their ranges."""
        return _within(np.asarray(batch), self.start, self._last(), self.shape)

    def _last(self) -> Array:
        # The count less one first: start + nvec may overflow where the last number does not.
        last: Array = self.start + (self.nvec - 1)
        return last

    def describe(self) -> str:
        """Such as "MultiDiscrete([2, 3], start=[0, 1])"."""
        start = f", start={self.start.tolist()}" if np.any(self.start) else ""
        return f"MultiDiscrete({self.nvec.tolist()}{start}{_dtype_text(self.dtype)})"

    def node(self) -> dict[str, Json]:
        """Counts as nested lists, first numbers (one if all are equal), dtype name."""
        start = bounds_json(self.start)
        return {"type": "MultiDiscrete", "nvec": self.nvec.tolist(), "start": start, "dtype": self.dtype.name}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> MultiDiscrete:
        """The space of its JSON; start 0 and dtype int64 may be left out."""
        del parse
        fields(node, where, required=("nvec",), optional=("start", "dtype"))
        dtype = dtype_named(node.get("dtype", "int64"), where, kinds="iu")
        nvec, start = (cast(bounds_of_json(node.get(name, 0), where), dtype, where) for name in ("nvec", "start"))
        return cls(nvec, start, dtype)

    def differences(self, found: MultiDiscrete, use: Use) -> Iterator[Finding]:
        """Counts and starts are errors."""
        del use
        yield from differ("error", "counts", self.nvec.tolist(), found.nvec.tolist())
        if self.shape == found.shape:
            yield from differ("error", "start", self.start.tolist(), found.start.tolist())
        yield from differ("warning", "dtype", self.dtype.name, found.dtype.name)

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.MultiDiscrete`."""
        return kinds.MultiDiscrete(np.array(self.nvec), dtype=self.dtype.type, start=np.array(self.start))

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> MultiDiscrete:
        """The space of a `gymnasium.spaces.MultiDiscrete`."""
        del convert
        return cls(space.nvec, space.start, space.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MultiBinary(Leaf):
    """Arrays of 0 and 1, dtype int8.

    Attributes:
        shape: Shape of one value.

    Raises:
        SpaceError: Something that is no shape.
    """

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", wholes(self.shape, "shape of MultiBinary"))

    @property
    def dtype(self) -> DType:
        """int8, as in gymnasium."""
        return np.dtype(np.int8)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) fair coins."""
        return _draw(0, 1, (n, *self.shape), self.dtype, rng)

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """(n, *shape) of 0 and 1; the first row is all 0, the second all 1."""
        return ends(0, 1, (n, *self.shape), self.dtype, rng)

    def contains(self, batch: Batch) -> bool:
        """Whether the array is (n, *shape) of whole 0 and 1."""
        return _within(np.asarray(batch), 0, 1, self.shape)

    def describe(self) -> str:
        """Such as "MultiBinary(4)" or "MultiBinary((2, 2))"."""
        return f"MultiBinary({self.shape[0] if len(self.shape) == 1 else self.shape})"

    def node(self) -> dict[str, Json]:
        """The shape."""
        return {"type": "MultiBinary", "shape": list(self.shape)}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> MultiBinary:
        """The space of its JSON."""
        del parse
        return cls(wholes(fields(node, where, required=("shape",))["shape"], f"shape of {where}"))

    def differences(self, found: MultiBinary, use: Use) -> Iterator[Finding]:
        """The shape is an error."""
        del use
        yield from differ("error", "shape", self.shape, found.shape)

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.MultiBinary`."""
        return kinds.MultiBinary(self.shape[0] if len(self.shape) == 1 else list(self.shape))

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> MultiBinary:
        """The space of a `gymnasium.spaces.MultiBinary`."""
        del convert
        return cls(tuple(space.shape))


def _draw(first: Any, last: Any, size: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    return rng.integers(first, last, size=size, dtype=dtype.type, endpoint=True)


def _within(array: Array, first: Any, last: Any, shape: tuple[int, ...]) -> bool:
    fits = array.ndim == len(shape) + 1 and array.shape[1:] == shape and array.dtype.kind in "iu"
    return fits and bool(np.all((array >= first) & (array <= last)))


def _dtype_text(dtype: DType) -> str:
    return "" if dtype == _INT64 else f", {dtype}"
