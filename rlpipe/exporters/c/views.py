"""Where the elements of a tensor lie: most moves of elements need no code, only other strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from rlpipe.exporters.program.program import Shape


@dataclass(frozen=True, slots=True)
class View:
    """A tensor for a batch of one, inside an array.

    Attributes:
        array: Name of the array in C.
        dtype: Of the elements.
        shape: Sizes of the axes.
        strides: Elements from one entry to the next along each axis.
        offset: Elements before the first.
    """

    array: str
    dtype: str
    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def solid(self) -> bool:
        """Whether the elements lie one after the other in C order."""
        wanted = contiguous(self.shape)
        return all(size <= 1 or one == other for size, one, other in zip(self.shape, self.strides, wanted, strict=True))

    @property
    def start(self) -> str:
        """The address of the first element."""
        return f"{self.array} + {self.offset}" if self.offset else self.array

    def permute(self, axes: Sequence[int]) -> View:
        """Axis i of the result is axis `axes[i]`."""
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def slice(self, axis: int, start: int, step: int, size: int) -> View:
        """Some entries of an axis."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        strides = (*self.strides[:axis], self.strides[axis] * step, *self.strides[axis + 1 :])
        return replace(self, shape=shape, strides=strides, offset=self.offset + start * self.strides[axis])

    def broadcast(self, shape: Shape) -> View:
        """Repeated along new axes and those of size 1."""
        new = len(shape) - len(self.shape)
        old = zip(self.shape, self.strides, shape[new:], strict=True)
        strides = (0,) * new + tuple(0 if size != wanted else stride for size, stride, wanted in old)
        return replace(self, shape=shape, strides=strides)

    def reshape(self, shape: Shape) -> View | None:
        """The same elements in another shape, or None if they have to be moved for it."""
        if self.solid:
            return replace(self, shape=shape, strides=contiguous(shape))
        kept = [(size, stride) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
        if [size for size, _ in kept] != [size for size in shape if size != 1]:
            return None
        strides = iter(stride for _, stride in kept)
        return replace(self, shape=shape, strides=tuple(0 if size == 1 else next(strides) for size in shape))


def contiguous(shape: Shape) -> Shape:
    """The strides of elements in C order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def solid(array: str, dtype: str, shape: Shape) -> View:
    """An array from its beginning."""
    return View(array, dtype, shape, contiguous(shape))


@dataclass(frozen=True, slots=True)
class Loops:
    """Nested loops over all elements of some views of one shape, as few as possible.

    Attributes:
        sizes: How often each loop runs, the outermost first.
        places: For each view, the index of its element in terms of the loops' variables.
    """

    sizes: Shape
    places: tuple[str, ...]


def loops(views: Sequence[View], variable: str = "i") -> Loops:
    """The loops over views; the variables are i0, i1, ..."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(views[0].shape):
        strides = tuple(view.strides[axis] for view in views)
        if size == 1:
            continue
        if axes and axes[-1][1] == tuple(size * stride for stride in strides):
            axes[-1] = (axes[-1][0] * size, strides)
        else:
            axes.append((size, strides))
    places = tuple(
        _place([strides[index] for _, strides in axes], view.offset, variable) for index, view in enumerate(views)
    )
    return Loops(tuple(size for size, _ in axes), places)


def _place(strides: Sequence[int], offset: int, variable: str) -> str:
    terms = [
        f"{variable}{index}" if stride == 1 else f"{variable}{index} * {stride}"
        for index, stride in enumerate(strides)
        if stride
    ]
    return " + ".join([*terms, *([str(offset)] if offset or not terms else [])])
