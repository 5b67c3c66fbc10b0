"""The code of one step under construction: its lines, its pieces of memory and its constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from rlpipe.exporters.c.arena import Piece
from rlpipe.exporters.c.text import TYPES, literal
from rlpipe.exporters.c.views import View, loops, solid
from rlpipe.exporters.program.program import Array, Program, Shape, sized


@dataclass(eq=False)
class Body:
    """What the operations so far came to.

    Attributes:
        program: Where they are from.
        views: Tensor -> where its elements lie.
        lines: The code.
        pieces: Intermediate results by name.
        constants: Arrays that the code reads, by name.
        kernels: (name, dtype) of the functions that it calls.
    """

    program: Program
    views: dict[str, View]
    lines: list[str] = field(default_factory=list)
    pieces: dict[str, Piece] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    kernels: set[tuple[str, str]] = field(default_factory=set)
    _step: int = 0

    def begin(self, text: str) -> None:
        """The next operation."""
        self._step += 1
        self.lines.append(f"/* {text} */")

    def shape(self, name: str) -> Shape:
        """The shape of a tensor for a batch of one."""
        return sized(self.program.tensors[name].shape, 1)

    def array(self, name: str) -> Array | None:
        """A constant of the program, or None."""
        return self.program.constants.get(name)

    def view(self, name: str) -> View:
        """Where the elements of a tensor lie; it counts as read."""
        if name not in self.views:
            array = self.program.constants[name]
            self.views[name] = self.constant(name, array)
        return self.reading(self.views[name])

    def reading(self, view: View) -> View:
        """The same view, which this operation reads."""
        if view.array in self.pieces:
            self.pieces[view.array].last = self._step
        return view

    def constant(self, name: str, array: Array) -> View:
        """An array of numbers that never change."""
        self.constants[name] = np.ascontiguousarray(array)
        return solid(name, array.dtype.name, array.shape)

    def piece(self, name: str, dtype: str, shape: Shape) -> View:
        """Memory that this operation writes."""
        self.pieces[name] = Piece(dtype, max(1, prod(shape)), self._step, self._step)
        return solid(name, dtype, shape)

    def result(self, name: str) -> View:
        """Memory for a tensor of the program."""
        self.views[name] = self.piece(name, self.program.tensors[name].dtype, self.shape(name))
        return self.views[name]

    def solid(self, name: str) -> View:
        """A tensor with its elements in C order, moved there if need be."""
        view = self.view(name)
        return view if view.solid else self.copied(view)

    def copied(self, view: View) -> View:
        """A copy in C order."""
        copy = self.piece(f"{view.array}_{len(self.pieces)}", view.dtype, view.shape)
        self.store(copy, [view], lambda operands: operands[0])
        return copy

    def store(self, target: View, sources: Sequence[View], value: Callable[[Sequence[str]], str]) -> None:
        """Fill a view element by element.

        Args:
            target: What is filled.
            sources: Of the same shape.
            value: From the C expressions of one element of each source to that of the target.
        """
        found = loops([target, *sources])
        operands = [self._operand(view, place) for view, place in zip(sources, found.places[1:], strict=True)]
        statement = f"{target.array}[{found.places[0]}] = {value(operands)};"
        self.nest(found.sizes, [statement])

    def nest(self, sizes: Shape, statements: Sequence[str], variable: str = "i") -> None:
        """Statements inside of loops."""
        for depth, size in enumerate(sizes):
            name = f"{variable}{depth}"
            brace = " {" if len(statements) > 1 and depth == len(sizes) - 1 else ""
            self.lines.append(f"{'    ' * depth}for (int {name} = 0; {name} < {size}; ++{name}){brace}")
        braced = len(statements) > 1
        self.lines += ["{"] if braced and not sizes else []
        self.lines += [f"{'    ' * max(len(sizes), int(braced))}{statement}" for statement in statements]
        self.lines += [f"{'    ' * max(0, len(sizes) - 1)}}}"] if braced else []

    def _operand(self, view: View, place: str) -> str:
        if view.array in self.constants and view.size and not any(view.strides):
            number = literal(self.constants[view.array].reshape(-1)[view.offset], view.dtype)
            return f"({number})" if number.startswith("-") else number
        return f"{view.array}[{place}]"


def declared(pieces: Mapping[str, Piece], places: Mapping[str, int], reached: Mapping[str, str]) -> list[str]:
    """The pointers to all pieces.

    Args:
        pieces: By name.
        places: Where they lie in the array of their type.
        reached: dtype -> C expression of that array.
    """
    return [
        f"{TYPES[piece.dtype]} *const {name} = {reached[piece.dtype]} + {places[name]};"
        for name, piece in pieces.items()
    ]
