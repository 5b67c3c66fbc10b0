"""The C code of every kind of operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from rlpipe.exporters.c.body import Body
from rlpipe.exporters.c.expressions import better, cast_to, expression
from rlpipe.exporters.c.text import TYPES, highest, is_real, literal, lowest
from rlpipe.exporters.c.views import View, loops
from rlpipe.exporters.program.program import BINARY, CHOICES, COMPARISONS, REDUCTIONS, UNARY, Array, Operation

PANEL = 32
"""Columns that the kernel of products takes together."""

Emitter: TypeAlias = "Callable[[Body, Operation], None]"


def emit(body: Body, operation: Operation) -> None:
    """Add the code of an operation."""
    sources = ", ".join(operation.inputs)
    body.begin(f"{operation.output} = {operation.kind}({sources})")
    EMITTERS[operation.kind](body, operation)


def _elementwise(body: Body, operation: Operation) -> None:
    target = body.result(operation.output)
    sources = [body.view(name).broadcast(target.shape) for name in operation.inputs]
    dtype = sources[-1].dtype
    body.store(target, sources, lambda operands: expression(operation.kind, operands, dtype, target.dtype))


def _cast(body: Body, operation: Operation) -> None:
    target, source = body.result(operation.output), body.view(operation.inputs[0])
    body.store(target, [source], lambda operands: cast_to(operands[0], source.dtype, target.dtype))


def _reshape(body: Body, operation: Operation) -> None:
    view, shape = body.view(operation.inputs[0]), body.shape(operation.output)
    moved = view.reshape(shape) or body.copied(view).reshape(shape)
    assert moved is not None  # noqa: S101 - what was copied is in order
    _seen_as(body, operation, moved)


def _permute(body: Body, operation: Operation) -> None:
    _seen_as(body, operation, body.view(operation.inputs[0]).permute(operation.attributes["axes"]))


def _broadcast(body: Body, operation: Operation) -> None:
    _seen_as(body, operation, body.view(operation.inputs[0]).broadcast(body.shape(operation.output)))


def _slice(body: Body, operation: Operation) -> None:
    axis, start, step = (operation.attributes[name] for name in ("axis", "start", "step"))
    size = body.shape(operation.output)[axis]
    _seen_as(body, operation, body.view(operation.inputs[0]).slice(axis, start, step, size))


def _seen_as(body: Body, operation: Operation, view: View) -> None:
    """No code: the result is the same memory, seen in another way."""
    body.views[operation.output] = view
    body.lines[-1] = body.lines[-1].replace(" */", "; in place */")


def _concat(body: Body, operation: Operation) -> None:
    target, axis = body.result(operation.output), operation.attributes["axis"]
    start = 0
    for name in operation.inputs:
        part = body.view(name)
        body.store(target.slice(axis, start, 1, part.shape[axis]), [part], lambda operands: operands[0])
        start += part.shape[axis]


def _take(body: Body, operation: Operation) -> None:
    axis, target = operation.attributes["axis"], body.result(operation.output)
    x, indices = (body.view(name) for name in operation.inputs)
    base = x.slice(axis, 0, 1, 1).broadcast(target.shape)
    along = tuple(indices.strides[0] if other == axis else 0 for other in range(len(target.shape)))
    chosen = replace(indices, shape=target.shape, strides=along)
    _pick(body, target, base, chosen, (x.shape[axis], x.strides[axis]))


def _gather(body: Body, operation: Operation) -> None:
    axis, target = operation.attributes["axis"], body.result(operation.output)
    x, indices = (body.view(name) for name in operation.inputs)
    base = x.slice(axis, 0, 1, 1).broadcast(target.shape)
    _pick(body, target, base, indices, (x.shape[axis], x.strides[axis]))


def _pick(body: Body, target: View, base: View, chosen: View, along: tuple[int, int]) -> None:
    """Fill a target with entries of an axis of that size and stride; what is out of it counts as its end."""
    size, stride = along
    found = loops([target, base, chosen])
    body.nest(
        found.sizes,
        [
            f"const int64_t at = {chosen.array}[{found.places[2]}];",
            f"const int64_t inside = at < 0 ? 0 : at > {size - 1} ? {size - 1} : at;",
            f"{target.array}[{found.places[0]}] = {base.array}[{found.places[1]} + inside * {stride}];",
        ],
    )


def _reduction(body: Body, operation: Operation) -> None:
    x, axes = body.view(operation.inputs[0]), operation.attributes["axes"]
    target = body.result(operation.output)
    first, best = _reducing(operation.kind, x.dtype)
    kept = _kept(x, axes)
    outer = loops([target.reshape(kept.shape) or target, kept])
    gone = View(x.array, x.dtype, tuple(x.shape[axis] for axis in axes), tuple(x.strides[axis] for axis in axes))
    inner = loops([gone], "k")
    element = f"{x.array}[{outer.places[1]} + {inner.places[0]}]"
    statements = [f"{TYPES[x.dtype]} all = {first};"]
    for depth, size in enumerate(inner.sizes):
        statements.append(f"{'    ' * depth}for (int k{depth} = 0; k{depth} < {size}; ++k{depth})")
    statements.append(f"{'    ' * len(inner.sizes)}all = {best('all', element)};")
    body.nest(outer.sizes, [*statements, f"{target.array}[{outer.places[0]}] = all;"])


def _kept(x: View, axes: list[int]) -> View:
    """The first elements along the axes that go away."""
    for axis in axes:
        x = x.slice(axis, 0, 1, 1)
    return x


def _reducing(kind: str, dtype: str) -> tuple[str, Callable[[str, str], str]]:
    """What a reduction begins with, and how it goes on."""
    table: dict[str, tuple[str, Callable[[str, str], str]]] = {
        "sum": (literal(0, dtype), lambda a, x: f"{a} + {x}"),
        "prod": (literal(1, dtype), lambda a, x: f"{a} * {x}"),
        "any": (literal(0, "bool"), lambda a, x: f"{a} || {x}"),
        "amax": (lowest(dtype), lambda a, x: f"{better('>', x, a, dtype)} ? {x} : {a}"),
        "amin": (highest(dtype), lambda a, x: f"{better('<', x, a, dtype)} ? {x} : {a}"),
    }
    return table[kind]


def _choice(body: Body, operation: Operation) -> None:
    x, axis = body.view(operation.inputs[0]), operation.attributes["axis"]
    target = body.result(operation.output)
    kept = _kept(x, [axis])
    outer = loops([target.reshape(kept.shape) or target, kept])
    sign = ">" if operation.kind == "argmax" else "<"
    stride = "" if x.strides[axis] == 1 else f" * {x.strides[axis]}"
    one, best = f"{x.array}[{outer.places[1]} + k{stride}]", f"{x.array}[{outer.places[1]} + best{stride}]"
    beyond = better(sign, one, best, x.dtype)
    condition = f"{best} == {best} && {beyond}" if is_real(x.dtype) else beyond
    body.nest(
        outer.sizes,
        [
            "int best = 0;",
            f"for (int k = 1; k < {x.shape[axis]}; ++k)",
            f"    if ({condition})",
            "        best = k;",
            f"{target.array}[{outer.places[0]}] = best;",
        ],
    )


def _linear(body: Body, operation: Operation) -> None:
    x, target = body.solid(operation.inputs[0]), body.result(operation.output)
    (rows, inner), outer = x.shape, target.shape[1]
    weight = _columns(body, operation.inputs[1])
    bias = _bias(body, operation, 2, outer)
    body.kernels.add(("linear", x.dtype))
    sizes = f"{rows}, {inner}, {outer}"
    body.lines.append(f"linear_{TYPES[x.dtype]}({x.start}, {weight.start}, {bias.start}, {sizes}, {target.start});")


def _columns(body: Body, name: str) -> View:
    """A weight (n, k) as the panels of its columns, as the kernel reads them."""
    array = body.array(name)
    if array is not None:
        return body.constant(f"{name}_panels", panels(array.T))
    columns = body.view(name).permute([1, 0])
    inner, outer = columns.shape
    target = body.piece(f"{columns.array}_{len(body.pieces)}", columns.dtype, (inner * outer,))
    for start in range(0, outer, PANEL):
        width = min(PANEL, outer - start)
        part = View(target.array, target.dtype, (inner, width), (width, 1), start * inner)
        body.store(part, [columns.slice(1, start, 1, width)], lambda operands: operands[0])
    return target


def panels(columns: Array) -> Array:
    """(k, n) cut into pieces of `PANEL` columns, each in C order behind the other."""
    cuts = range(PANEL, columns.shape[1], PANEL)
    return np.concatenate([part.reshape(-1) for part in np.split(columns, list(cuts), axis=1)])


def _bias(body: Body, operation: Operation, index: int, size: int) -> View:
    if len(operation.inputs) > index:
        return body.solid(operation.inputs[index])
    dtype = body.program.tensors[operation.output].dtype
    return body.constant(f"zeros_{TYPES[dtype]}_{size}", np.zeros(size, dtype))


def _conv(body: Body, operation: Operation) -> None:
    x, target = body.solid(operation.inputs[0]), body.result(operation.output)
    name, groups = operation.inputs[1], operation.attributes["groups"]
    weight = body.program.constants[name]
    outer = len(weight) // groups
    taps = prod(weight.shape[1:])
    packed = [panels(group.T) for group in weight.reshape(groups, outer, taps)]
    columns = body.constant(f"{name}_panels", np.concatenate(packed))
    bias = _bias(body, operation, 2, len(weight))
    patch = body.piece(f"{operation.output}_patch", x.dtype, (taps + outer,))
    stride, dilation = operation.attributes["stride"], operation.attributes["dilation"]
    numbers = [*x.shape, groups, len(weight), *weight.shape[2:], *stride, *dilation, *target.shape[2:]]
    _sized_call(body, "conv", x, numbers, [columns.start, bias.start, patch.start, target.start])
    body.kernels |= {("linear", x.dtype), ("conv", x.dtype)}


def _max_pool(body: Body, operation: Operation) -> None:
    x, target = body.solid(operation.inputs[0]), body.result(operation.output)
    settings = [number for name in ("kernel", "stride", "dilation") for number in operation.attributes[name]]
    numbers = [x.shape[0] * x.shape[1], *x.shape[2:], *settings, *target.shape[2:]]
    _sized_call(body, "max_pool", x, numbers, [target.start])
    body.kernels.add(("max_pool", x.dtype))


def _sized_call(body: Body, kernel: str, x: View, numbers: list[int], rest: list[str]) -> None:
    sizes = ", ".join(map(str, numbers))
    call = f"{kernel}_{TYPES[x.dtype]}(&sizes, {', '.join([x.start, *rest])});"
    body.lines += ["{", f"    static const {kernel}_sizes sizes = {{{sizes}}};", f"    {call}", "}"]


def _matmul(body: Body, operation: Operation) -> None:
    left, right = (body.view(name) for name in operation.inputs)
    target = body.result(operation.output)
    inner = left.shape[-1]
    rank = len(target.shape)
    rows = left.slice(rank - 1, 0, 1, 1).broadcast(target.shape)
    columns = right.slice(rank - 2, 0, 1, 1).broadcast(target.shape)
    found = loops([target, rows, columns])
    product = (
        f"{left.array}[{found.places[1]} + k * {left.strides[-1]}]"
        f" * {right.array}[{found.places[2]} + k * {right.strides[-2]}]"
    )
    body.nest(
        found.sizes,
        [
            f"{TYPES[left.dtype]} sum = {literal(0, left.dtype)};",
            f"for (int k = 0; k < {inner}; ++k)",
            f"    sum += {product};",
            f"{target.array}[{found.places[0]}] = sum;",
        ],
    )


EMITTERS: Mapping[str, Emitter] = MappingProxyType(
    {
        **dict.fromkeys(UNARY | BINARY | COMPARISONS | {"where"}, _elementwise),
        **dict.fromkeys(REDUCTIONS, _reduction),
        **dict.fromkeys(CHOICES, _choice),
        "cast": _cast,
        "reshape": _reshape,
        "permute": _permute,
        "broadcast": _broadcast,
        "slice": _slice,
        "concat": _concat,
        "take": _take,
        "gather": _gather,
        "linear": _linear,
        "matmul": _matmul,
        "conv": _conv,
        "max_pool": _max_pool,
    }
)
