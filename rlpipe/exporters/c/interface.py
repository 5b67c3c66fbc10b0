"""What the C program takes, gives and keeps: the fields of its three structs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.c.text import TYPES, identifiers
from rlpipe.exporters.program.program import Program, Shape, Tensor
from rlpipe.exporters.signature import EPISODE_START, NEXT

Place: TypeAlias = Literal["input", "output", "state"]

BEGIN = EPISODE_START
"""The input that says so; a program with memory keeps it itself."""
_MOST_AXES = 8


@dataclass(frozen=True, slots=True)
class Field:
    """One tensor as a field of a struct.

    Attributes:
        name: In the signature.
        identifier: In C.
        dtype: A numpy dtype name.
        shape: For one observation, without the batch.
        place: The struct.
        tensor: In the program.
    """

    name: str
    identifier: str
    dtype: str
    shape: Shape
    place: Place
    tensor: str

    @property
    def size(self) -> int:
        """Number of elements; a struct has no empty arrays."""
        return max(1, prod(self.shape))

    def declaration(self) -> str:
        """Of the field."""
        return f"{TYPES[self.dtype]} {self.identifier}[{self.size}];"


@dataclass(frozen=True, slots=True)
class Interface:
    """The fields.

    Attributes:
        inputs: All inputs of the program, in order.
        outputs: All outputs, in order; what is carried over lies in the field of its input.
    """

    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]

    def fields(self, place: Place) -> tuple[Field, ...]:
        """Those of one struct."""
        everything = {field.identifier: field for field in (*self.inputs, *self.outputs) if field.place == place}
        return tuple(everything.values())

    @property
    def carried(self) -> tuple[tuple[Field, Field], ...]:
        """Pairs of an input that is memory and the output that goes there."""
        given = {field.name: field for field in self.inputs}
        return tuple((given[field.name.removesuffix(NEXT)], field) for field in self.outputs if field.place == "state")


def interface_of(program: Program) -> Interface:
    """The fields of a program.

    Raises:
        UnsupportedModuleError: A tensor with more axes than the table has room for.
    """
    carried = {name for name in program.inputs if name + NEXT in program.outputs}
    kept = {*carried, BEGIN} if carried else set()
    named = identifiers([*program.inputs, *(n for n in program.outputs if n.removesuffix(NEXT) not in carried)])

    def fields(tensors: Mapping[str, Tensor], place: Place, memory: set[str]) -> tuple[Field, ...]:
        return tuple(
            Field(
                name,
                named[name.removesuffix(NEXT) if name in memory else name],
                tensor.dtype,
                tensor.shape[1:],
                "state" if name in memory else place,
                tensor.name,
            )
            for name, tensor in tensors.items()
        )

    inputs = fields(program.inputs, "input", kept)
    outputs = fields(program.outputs, "output", {name + NEXT for name in carried})
    for field in (*inputs, *outputs):
        if len(field.shape) > _MOST_AXES:
            raise UnsupportedModuleError(
                f"{field.name} has too many axes", expected=f"at most {_MOST_AXES}", found=str(len(field.shape))
            )
    return Interface(inputs, outputs)
