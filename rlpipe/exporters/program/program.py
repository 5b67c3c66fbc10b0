"""The list itself: named tensors, constants and operations. No torch, no framework; plain data in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from rlpipe.snapshot.spec import Json

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = tuple[int, ...]
"""Sizes of the axes; a negative size -k stands for k times the batch."""

# fmt: off
UNARY = frozenset((
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1",
    "floor", "log", "log10", "log1p", "log2", "neg", "not", "round", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
))
# fmt: on
"""Element by element, the dtype kept; `not` of booleans, `round` to the even neighbour."""

BINARY = frozenset(("add", "atan2", "div", "fmod", "maximum", "minimum", "mul", "pow", "sub", "and", "or", "xor"))
"""Element by element of two tensors of one dtype, which is the result's; NaN wins in maximum and minimum."""

COMPARISONS = frozenset(("eq", "ge", "gt", "le", "lt", "ne"))
"""Element by element of two tensors of one dtype; the result is bool."""

REDUCTIONS = frozenset(("amax", "amin", "any", "prod", "sum"))
"""Over the axes of the attribute `axes`; with `keep` they stay with size 1."""

CHOICES = frozenset(("argmax", "argmin"))
"""The first place of the extreme along `axis`, NaN before all; `keep` as above; the result is int64."""

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(sorted(UNARY | BINARY | COMPARISONS), ()),
        **dict.fromkeys(sorted(REDUCTIONS), ("axes", "keep")),
        **dict.fromkeys(sorted(CHOICES), ("axis", "keep")),
        "where": (),
        "cast": ("dtype",),
        "reshape": ("shape",),
        "permute": ("axes",),
        "broadcast": ("shape",),
        "slice": ("axis", "start", "stop", "step"),
        "concat": ("axis",),
        "take": ("axis",),
        "gather": ("axis",),
        "linear": (),
        "matmul": (),
        "conv": ("stride", "dilation", "groups"),
        "max_pool": ("kernel", "stride", "dilation"),
    }
)
"""Every kind of operation and its attributes.

- elementwise kinds, `where` and `cast` take tensors that broadcast as in numpy;
- `take` (x, indices of rank 1): the entries of an axis;
- `gather` (x, indices of x's shape but for one axis): for each of the other axes' places the entries of its own;
- `linear` (x (m, k), weight (n, k), bias (n,) or none): x times the transposed weight, plus the bias;
- `matmul` (a (..., m, k), b (..., k, n)), with equal leading axes;
- `conv` (x (m, c, h, w), weight (n, c / groups, kh, kw), bias (n,) or none) without padding;
- `max_pool` (x (m, c, h, w)) without padding; `kernel`, `stride` and `dilation` are pairs.
"""

DTYPES = frozenset(
    ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the program.

    Attributes:
        name: Unique in the program.
        dtype: A name of `DTYPES`.
        shape: See `Shape`.
    """

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Operation:
    """One step.

    Attributes:
        kind: One of `KINDS`.
        inputs: Names of tensors or constants.
        output: Name of the tensor that it makes.
        attributes: Plain JSON, as `KINDS` has it.
    """

    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Program:
    """A policy as data. Every tensor is made once, before it is used.

    Attributes:
        inputs: Name in the signature -> tensor, in order.
        outputs: Name in the signature -> tensor or constant, in order.
        tensors: Every tensor by name: inputs, constants and results.
        constants: Name -> C-contiguous array.
        operations: In order.
    """

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, Array]
    operations: tuple[Operation, ...]

    def to_json(self) -> dict[str, Json]:
        """Plain JSON without the constants' values."""
        return {
            "inputs": [_put(name, tensor) for name, tensor in self.inputs.items()],
            "outputs": [_put(name, tensor) for name, tensor in self.outputs.items()],
            "operations": [
                [operation.kind, list(operation.inputs), operation.output, dict(operation.attributes)]
                for operation in self.operations
            ],
        }


def sized(shape: Shape, batch: int) -> Shape:
    """The sizes of a shape for a batch."""
    return tuple(size if size >= 0 else -size * batch for size in shape)


def _put(name: str, tensor: Tensor) -> dict[str, Json]:
    return {"name": name, "tensor": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
