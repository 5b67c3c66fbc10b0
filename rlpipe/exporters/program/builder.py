"""Puts a program together; operations that change nothing are left out as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rlpipe.exporters.program.program import COMPARISONS, DTYPES, Array, Operation, Program, Shape, Tensor


class UnsupportedError(Exception):
    """Something that a program cannot hold, in words; the walk adds where it comes from."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of the program under construction; `data` if it is a constant."""

    name: str
    dtype: str
    shape: Shape
    data: Array | None = None


class Builder:
    """Collects operations. Its methods take values and give the value of the result."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._operations: dict[str, Operation] = {}
        self._inputs: dict[str, Tensor] = {}
        self._rows: set[str] = set()

    def input(self, name: str, dtype: str, shape: Shape) -> Value:
        """An input of the program."""
        value = self._value(dtype, shape)
        self._inputs[name] = Tensor(value.name, dtype, shape)
        return value

    def rows(self, dtype: str) -> Value:
        """The numbers of the rows in their batch. No program knows them; they only say that each row takes its own."""
        value = self._value(dtype, (-1,))
        self._rows.add(value.name)
        return value

    def is_rows(self, value: Value) -> bool:
        """Whether a value is `rows`."""
        return value.name in self._rows

    def constant(self, data: Any, dtype: str) -> Value:
        """A constant: an array or a number."""
        array = np.ascontiguousarray(np.asarray(data).astype(dtype)).reshape(np.shape(data))
        value = Value(f"c{len(self._values)}", self._known(dtype), array.shape, array)
        self._values[value.name] = value
        return value

    def emit(
        self, kind: str, inputs: Sequence[Value], dtype: str, shape: Shape, attributes: Mapping[str, Any] | None = None
    ) -> Value:
        """The result of an operation as it is."""
        value = self._value(dtype, shape)
        self._operations[value.name] = Operation(
            kind, tuple(item.name for item in inputs), value.name, attributes or {}
        )
        return value

    def elementwise(self, kind: str, *inputs: Value) -> Value:
        """Element by element; the inputs have one dtype, but for the condition of `where`."""
        shape = broadcast(*(item.shape for item in inputs))
        slim = [self._ranked(item, len(shape)) for item in inputs]
        for index, item in enumerate(slim):
            source = self._made_by(item, "broadcast")
            if source and broadcast(*(other.shape for other in (*slim[:index], source, *slim[index + 1 :]))) == shape:
                slim[index] = source
        # A constant that has all axes spares numpy the search for how to repeat it.
        return self.emit(kind, slim, "bool" if kind in COMPARISONS else inputs[-1].dtype, shape)

    def cast(self, x: Value, dtype: str) -> Value:
        """The same numbers in another dtype."""
        if x.dtype == dtype:
            return x
        if x.data is not None:
            return self.constant(x.data, dtype)
        if dtype == "bool":
            return self.elementwise("ne", x, self.constant(0, x.dtype))
        return self.emit("cast", [x], dtype, x.shape, {"dtype": dtype})

    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in order."""
        x = self._made_by(x, "reshape") or x
        if shape == x.shape:
            return x
        if x.data is not None:
            return self.constant(x.data.reshape(shape), x.dtype)
        if sum(size < 0 for size in shape) > 1:
            raise UnsupportedError("a tensor with two axes that grow with the batch")
        return self.emit("reshape", [x], x.dtype, shape, {"shape": list(shape)})

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        """Axis i of the result is axis `axes[i]`."""
        shape = tuple(x.shape[axis] for axis in axes)
        moving = [axis for axis in axes if x.shape[axis] != 1]
        if moving == sorted(moving):
            return self.reshape(x, shape)
        return self.emit("permute", [x], x.dtype, shape, {"axes": list(axes)})

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """Repeated along new axes and those of size 1."""
        if shape == x.shape:
            return x
        return self.emit("broadcast", [self._made_by(x, "broadcast") or x], x.dtype, shape, {"shape": list(shape)})

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Entries start, start + step, ... before stop of an axis."""
        size = x.shape[axis]
        if start == 0 and step == 1 and stop >= (size if size >= 0 else 1 << 62):
            return x
        if size < 0:
            raise UnsupportedError("some rows of the batch are taken apart")
        length = len(range(size)[start:stop:step])
        attributes = {"axis": axis, "start": start, "stop": stop, "step": step}
        return self.emit("slice", [x], x.dtype, (*x.shape[:axis], length, *x.shape[axis + 1 :]), attributes)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Behind each other along an axis."""
        parts = [part for part in parts if 0 not in part.shape] or parts
        if len(parts) == 1:
            return parts[0]
        if len({part.shape[axis] < 0 for part in parts}) > 1:
            raise UnsupportedError("rows of the batch and others are put behind each other")
        length = sum(part.shape[axis] for part in parts)
        shape = (*parts[0].shape[:axis], length, *parts[0].shape[axis + 1 :])
        return self.emit("concat", parts, parts[0].dtype, shape, {"axis": axis})

    def linear(self, x: Value, weight: Value, bias: Value | None) -> Value:
        """(..., k) times the transposed weight (n, k), plus the bias."""
        rows = (_product(x.shape[:-1]), x.shape[-1])
        inputs = [self.reshape(x, rows), weight, *([bias] if bias else [])]
        flat = self.emit("linear", inputs, x.dtype, (rows[0], weight.shape[0]))
        return self.reshape(flat, (*x.shape[:-1], weight.shape[0]))

    def pad(self, x: Value, axis: int, before: int, after: int, fill: float) -> Value:
        """More entries at the ends of an axis, or with negative numbers fewer."""
        if before < 0 or after < 0:
            x = self.slice(x, axis, max(0, -before), x.shape[axis] - max(0, -after))

        def border(length: int) -> list[Value]:
            shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
            return [self.broadcast(self.constant(fill, x.dtype), shape)] if length > 0 else []

        return self.concat([*border(before), x, *border(after)], axis)

    def finished(self, outputs: Mapping[str, Value]) -> Program:
        """The program of these outputs; what they do not need is left out.

        Raises:
            UnsupportedError: An output hangs on the number of its row.
        """
        needed = {value.name for value in outputs.values()}
        kept: list[Operation] = []
        for name, operation in reversed(self._operations.items()):
            if name in needed:
                needed.update(operation.inputs)
                kept.append(operation)
        if needed & self._rows:
            raise UnsupportedError("numbers that are counted off as far as the batch is large")
        needed.update(tensor.name for tensor in self._inputs.values())
        used = {name: value for name, value in self._values.items() if name in needed}
        tensors = {name: Tensor(name, value.dtype, value.shape) for name, value in used.items()}
        constants = {name: value.data for name, value in used.items() if value.data is not None}
        put_out = {name: tensors[value.name] for name, value in outputs.items()}
        return Program(self._inputs, put_out, tensors, constants, tuple(reversed(kept)))

    def _ranked(self, x: Value, rank: int) -> Value:
        """A constant with all axes; a number stays one."""
        if x.data is None or x.data.ndim in (0, rank):
            return x
        return self.constant(x.data.reshape((1,) * (rank - x.data.ndim) + x.shape), x.dtype)

    def _value(self, dtype: str, shape: Shape) -> Value:
        value = Value(f"t{len(self._values)}", self._known(dtype), shape)
        self._values[value.name] = value
        return value

    def _known(self, dtype: str) -> str:
        if dtype not in DTYPES:
            raise UnsupportedError(f"numbers of type {dtype}")
        return dtype

    def _made_by(self, value: Value, kind: str) -> Value | None:
        """What an operation of that kind made the value of."""
        operation = self._operations.get(value.name)
        return self._values[operation.inputs[0]] if operation and operation.kind == kind else None


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an elementwise result; sizes that grow with the batch win over 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def _product(sizes: Shape) -> int:
    """Of sizes of which at most one grows with the batch."""
    if sum(size < 0 for size in sizes) > 1:
        raise UnsupportedError("a tensor with two axes that grow with the batch")
    return prod(sizes)
