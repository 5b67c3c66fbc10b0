"""Operators that add up, compare or choose along axes: products of matrices, convolutions, norms, reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.exporters.program.builder import Builder, UnsupportedError, Value
from rlpipe.exporters.program.call import Call, Rule


def _linear(b: Builder, call: Call) -> Value:
    return b.linear(call["input"], call["weight"], call["bias"])


def _addmm(b: Builder, call: Call) -> Value:
    dtype = call.dtype
    product = _product(b, call["mat1"], call["mat2"])
    if call["alpha"] != 1:
        product = b.elementwise("mul", product, b.constant(call["alpha"], dtype))
    bias = call["self"]
    if call["beta"] != 1:
        bias = b.elementwise("mul", bias, b.constant(call["beta"], dtype))
    return b.elementwise("add", product, bias)


def _product(b: Builder, left: Value, right: Value) -> Value:
    if right.data is not None and right.data.ndim == 2:
        return b.linear(left, b.constant(right.data.T, right.dtype), None)
    shape = (*left.shape[:-1], right.shape[-1])
    return b.emit("matmul", [left, right], left.dtype, shape)


def _convolved(b: Builder, call: Call) -> Value:
    x, weight, spatial = call["input"], call["weight"], len(call["weight"].shape) - 2
    if call["transposed"] or spatial > 2 or weight.data is None:
        raise UnsupportedError("a convolution that is transposed, has three dimensions or weights that are computed")
    stride, dilation = (_spread(call[name], spatial, 1) for name in ("stride", "dilation"))
    padding = _spread(call["padding"], spatial, 0)
    if spatial == 1:
        x = b.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        weight = b.constant(weight.data[:, :, None], weight.dtype)
    for axis, width in zip((2, 3), padding, strict=True):
        x = b.pad(x, axis, width, width, 0)
    inputs = [x, weight, *([call["bias"]] if call["bias"] else [])]
    shape = (*call.shape[:2], *([1] if spatial == 1 else []), *call.shape[2:])
    settings = {"stride": stride, "dilation": dilation, "groups": call["groups"]}
    return b.reshape(b.emit("conv", inputs, x.dtype, shape, settings), call.shape)


def _spread(value: Sequence[int], spatial: int, missing: int) -> list[int]:
    """One number for each of two axes; `missing` for the first where there is only the second."""
    numbers = list(value) * (spatial if len(value) == 1 else 1)
    return numbers if spatial == 2 else [missing, *numbers]


def _pooled(b: Builder, call: Call) -> list[Value]:
    kernel, padding, dilation = (_spread(call[name], 2, 0) for name in ("kernel_size", "padding", "dilation"))
    stride = _spread(call["stride"], 2, 0) if call["stride"] else kernel
    if call["ceil_mode"]:
        raise UnsupportedError("pooling with ceil_mode")
    x, rank = call["self"], len(call["self"].shape)
    x = b.reshape(x, (1,) * (4 - rank) + x.shape)
    for axis, width in zip((2, 3), padding, strict=True):
        x = b.pad(x, axis, width, width, float("-inf"))
    shape = call.result[0].shape
    sizes = (*x.shape[:2], int(shape[-2]), int(shape[-1]))
    settings = {"kernel": kernel, "stride": stride, "dilation": dilation}
    pooled = b.emit("max_pool", [x], x.dtype, sizes, settings)
    return [b.reshape(pooled, (*call["self"].shape[:-2], *sizes[2:]))]


def _averaged(b: Builder, call: Call) -> Value:
    """As a convolution of each channel with equal weights."""
    x = call["self"]
    kernel, padding = (_spread(call[name], 2, 0) for name in ("kernel_size", "padding"))
    stride = _spread(call["stride"], 2, 0) if call["stride"] else kernel
    if call["ceil_mode"] or (any(padding) and not call["count_include_pad"]) or len(x.shape) != 4:
        raise UnsupportedError("average pooling with ceil_mode or over parts of a window")
    for axis, width in zip((2, 3), padding, strict=True):
        x = b.pad(x, axis, width, width, 0)
    channels, share = x.shape[1], 1 / (call["divisor_override"] or prod(kernel))
    weight = b.constant(np.full((channels, 1, *kernel), share), x.dtype)
    settings = {"stride": stride, "dilation": [1, 1], "groups": channels}
    return b.emit("conv", [x, weight], x.dtype, call.shape, settings)


def _axes(x: Value, dims: Any) -> list[int]:
    given = [dims] if isinstance(dims, int) else list(dims or range(len(x.shape)))
    return sorted(axis % len(x.shape) for axis in given)


def _reduced(b: Builder, kind: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    if any(x.shape[axis] < 0 for axis in axes):
        raise UnsupportedError("the rows of a batch are taken together")
    if not axes:
        return x
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    shape = kept if keep else tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    return b.emit(kind, [x], x.dtype, shape, {"axes": list(axes), "keep": keep})


def reduction(kind: str) -> Rule:
    """Over `dim` in the result's dtype."""

    def rule(b: Builder, call: Call) -> Value:
        x = b.cast(call["self"], call.dtype)
        axes = _axes(x, call.arguments.get("dim"))
        return _reduced(b, kind, x, axes, keep=bool(call.arguments.get("keepdim")))

    return rule


def choice(kind: str) -> Rule:
    """The place of the extreme along one axis."""
    return lambda b, call: _place(b, kind, call["self"], call["dim"], keep=call["keepdim"])


def _place(b: Builder, kind: str, x: Value, dim: int | None, *, keep: bool) -> Value:
    if dim is None and any(size < 0 for size in x.shape):
        raise UnsupportedError("one place is chosen among all rows of the batch")
    if dim is None:
        x, dim = b.reshape(x, (prod(x.shape),)), 0
    axis = dim % len(x.shape)
    if x.shape[axis] < 0:
        raise UnsupportedError("one row of the batch is chosen")
    shape = (*x.shape[:axis], *([1] if keep else []), *x.shape[axis + 1 :])
    return b.emit(kind, [x], "int64", shape, {"axis": axis, "keep": keep})


def extreme(kind: str) -> Rule:
    """Both the extreme and its place."""

    def rule(b: Builder, call: Call) -> list[Value]:
        x, keep = call["self"], call["keepdim"]
        value = _reduced(b, f"a{kind}", x, _axes(x, call["dim"]), keep=keep)
        return [value, _place(b, f"arg{kind}", x, call["dim"], keep=keep)]

    return rule


def mean_of(b: Builder, x: Value, axes: Sequence[int], *, keep: bool, less: float = 0) -> Value:
    """The sum over axes, divided by the number of its terms, less some."""
    count = prod(x.shape[axis] for axis in axes)
    return b.elementwise("div", _reduced(b, "sum", x, axes, keep=keep), b.constant(count - less, x.dtype))


def _mean(b: Builder, call: Call) -> Value:
    x = b.cast(call["self"], call.dtype)
    return mean_of(b, x, _axes(x, call.arguments.get("dim")), keep=bool(call.arguments.get("keepdim")))


def _centred(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    mean = mean_of(b, x, axes, keep=True)
    return mean, b.elementwise("sub", x, mean)


def _variance(b: Builder, call: Call) -> Value:
    x = call["self"]
    axes = _axes(x, call["dim"])
    _, centred = _centred(b, x, axes)
    less = 1 if call["correction"] is None else call["correction"]
    return mean_of(b, b.elementwise("mul", centred, centred), axes, keep=call["keepdim"], less=less)


def _variance_and_mean(b: Builder, call: Call) -> list[Value]:
    x = call["self"]
    return [_variance(b, call), mean_of(b, x, _axes(x, call["dim"]), keep=call["keepdim"])]


def _normal(b: Builder, x: Value, axes: Sequence[int], eps: float) -> Value:
    """With a mean of 0 and a variance of 1 over some axes."""
    _, centred = _centred(b, x, axes)
    variance = mean_of(b, b.elementwise("mul", centred, centred), axes, keep=True)
    spread = b.elementwise("sqrt", b.elementwise("add", variance, b.constant(eps, x.dtype)))
    return b.elementwise("div", centred, spread)


def _scaled(b: Builder, x: Value, call: Call, shape: tuple[int, ...]) -> Value:
    """Times the weight, plus the bias, where there are such."""
    for kind, name in (("mul", "weight"), ("add", "bias")):
        if call[name] is not None:
            x = b.elementwise(kind, x, b.reshape(call[name], shape))
    return x


def _layer_norm(b: Builder, call: Call) -> list[Value]:
    x, shape = call["input"], tuple(call["normalized_shape"])
    axes = range(len(x.shape) - len(shape), len(x.shape))
    return [_scaled(b, _normal(b, x, list(axes), call["eps"]), call, shape)]


def _group_norm(b: Builder, call: Call) -> list[Value]:
    x, groups = call["input"], call["group"]
    grouped = b.reshape(x, (x.shape[0], groups, prod(x.shape[1:]) // groups))
    normal = b.reshape(_normal(b, grouped, [2], call["eps"]), x.shape)
    return [_scaled(b, normal, call, (x.shape[1], *(1 for _ in x.shape[2:])))]


def _batch_norm(b: Builder, call: Call) -> list[Value]:
    """With statistics that are frozen."""
    x, mean, variance = (call[name] for name in ("input", "running_mean", "running_var"))
    if mean.data is None or variance.data is None:
        raise UnsupportedError("batch normalisation with statistics that are computed")
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    spread = b.constant(np.sqrt(variance.data + np.float32(call["eps"])).reshape(shape), x.dtype)
    normal = b.elementwise("div", b.elementwise("sub", x, b.reshape(mean, shape)), spread)
    return [_scaled(b, normal, call, shape)]


def _softmax(b: Builder, call: Call) -> Value:
    exponential, total, _ = _exponentials(b, call)
    return b.elementwise("div", exponential, total)


def _log_softmax(b: Builder, call: Call) -> Value:
    _, total, moved = _exponentials(b, call)
    return b.elementwise("sub", moved, b.elementwise("log", total))


def _exponentials(b: Builder, call: Call) -> tuple[Value, Value, Value]:
    """exp(x - max x) and its sum along the axis, and x - max x."""
    x, axes = b.cast(call["self"], call.dtype), _axes(call["self"], call["dim"])
    moved = b.elementwise("sub", x, _reduced(b, "amax", x, axes, keep=True))
    exponential = b.elementwise("exp", moved)
    return exponential, _reduced(b, "sum", exponential, axes, keep=True), moved


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "linear.default": _linear,
        "addmm.default": _addmm,
        "mm.default": lambda b, call: _product(b, call["self"], call["mat2"]),
        "bmm.default": lambda b, call: _product(b, call["self"], call["mat2"]),
        "convolution.default": _convolved,
        "max_pool2d_with_indices.default": _pooled,
        "avg_pool2d.default": _averaged,
        "native_layer_norm.default": _layer_norm,
        "native_group_norm.default": _group_norm,
        "_native_batch_norm_legit_no_training.default": _batch_norm,
        "_softmax.default": _softmax,
        "_log_softmax.default": _log_softmax,
        "var.correction": _variance,
        "var_mean.correction": _variance_and_mean,
        **{
            f"{name}.{form}": reduction(name) for name in ("amax", "amin", "sum") for form in ("default", "dim_IntList")
        },
        **{f"{name}.{form}": reduction(name) for name in ("any", "prod") for form in ("default", "dim", "dims")},
        "prod.dim_int": reduction("prod"),
        "mean.default": _mean,
        "mean.dim": _mean,
        "argmax.default": choice("argmax"),
        "argmin.default": choice("argmin"),
        "max.dim": extreme("max"),
        "min.dim": extreme("min"),
    }
)
