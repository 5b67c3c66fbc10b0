"""Operators that move elements, take some, or make constant ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rlpipe.exporters.program.builder import Builder, UnsupportedError, Value
from rlpipe.exporters.program.call import Call, Rule, shape_of

_TO_THE_END = 1 << 62


def _same(_: Builder, call: Call) -> Value:
    value: Value = call.arguments.get("self", call.arguments.get("input"))
    return value


def _cast(b: Builder, call: Call) -> Value:
    return b.cast(_same(b, call) if "a" not in call.arguments else call["a"], call.dtype)


def _reshaped(b: Builder, call: Call) -> Value:
    return b.reshape(call["self"], call.shape)


def _repeated(b: Builder, call: Call) -> Value:
    return b.broadcast(call["self"], call.shape)


def _restrided(b: Builder, call: Call) -> Value:
    """Only where it changes no element's place: torch does so to axes of size 1."""
    x, sizes = call["self"], tuple(call["size"])
    long = [(size, stride) for size, stride in zip(sizes[1:], call["stride"][1:], strict=True) if size != 1]
    row = long[0][0] if long else 1
    if sizes != x.shape or len(long) > 1 or call["storage_offset"] or any(stride != 1 for _, stride in long):
        raise UnsupportedError("elements are seen through other strides")
    if sizes[0] < 0 and call["stride"][0] != row:
        raise UnsupportedError("elements are seen through other strides")
    return _same(b, call)


def _tiled(b: Builder, call: Call) -> Value:
    x = call["self"]
    repeats = call["repeats"]
    x = b.reshape(x, (1,) * (len(repeats) - len(x.shape)) + x.shape)
    for axis, count in enumerate(repeats):
        if x.shape[axis] == 1:
            x = b.broadcast(x, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
        elif count < 1:
            raise UnsupportedError("a tensor is repeated as often as the batch is large")
        else:
            x = b.concat([x] * count, axis)
    return x


def _permuted(b: Builder, call: Call) -> Value:
    x, rank = call["self"], len(call["self"].shape)
    if "dims" in call.arguments:
        axes = [axis % rank for axis in call["dims"]]
    else:
        axes = list(range(rank))
        first, second = call.arguments.get("dim0", 0), call.arguments.get("dim1", rank - 1)
        axes[first], axes[second] = axes[second], axes[first]
    return b.permute(x, axes)


def _sliced(b: Builder, call: Call) -> Value:
    x, axis = call["self"], call["dim"] % len(call["self"].shape)
    start, stop = call["start"] or 0, _TO_THE_END if call["end"] is None else call["end"]
    size = x.shape[axis]
    if size >= 0:
        start, stop, _ = slice(start, stop).indices(size)
    elif stop == size:
        stop = _TO_THE_END
    return b.slice(x, axis, start, stop, call["step"])


def _selected(b: Builder, call: Call) -> Value:
    x, axis = call["self"], call["dim"] % len(call["self"].shape)
    size, index = x.shape[axis], call["index"]
    if size < 0:
        raise UnsupportedError("one row of the batch is taken out")
    return b.reshape(b.slice(x, axis, index % size, index % size + 1), call.shape)


def _split(b: Builder, call: Call) -> list[Value]:
    x, axis = call["self"], call["dim"] % len(call["self"].shape)
    ends, parts = 0, []
    for result in call.result:
        length = shape_of(result)[axis]
        parts.append(b.slice(x, axis, ends, ends + length) if length != x.shape[axis] else x)
        ends += length
    return parts


def _concatenated(b: Builder, call: Call) -> Value:
    parts = [b.cast(part, call.dtype) for part in call["tensors"] if part.shape != (0,)]
    return b.concat(parts, call["dim"] % len(parts[0].shape))


def _taken(b: Builder, x: Value, axis: int, indices: Value, shape: Sequence[int]) -> Value:
    axis %= len(x.shape)
    flat = b.cast(b.reshape(indices, (_count(indices),)), "int64")
    taken_shape = (*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :])
    return b.reshape(b.emit("take", [x, flat], x.dtype, taken_shape, {"axis": axis}), tuple(shape))


def _count(indices: Value) -> int:
    count = 1
    for size in indices.shape:
        count *= size
    if sum(size < 0 for size in indices.shape) > 1:
        raise UnsupportedError("indices with two axes that grow with the batch")
    return count


def _index_selected(b: Builder, call: Call) -> Value:
    return _taken(b, call["self"], call["dim"], call["index"], call.shape)


def _embedded(b: Builder, call: Call) -> Value:
    return _taken(b, call["weight"], 0, call["indices"], call.shape)


def _gathered(b: Builder, call: Call) -> Value:
    """For each place an entry of its own; the indices may leave out the ends of the other axes."""
    x, indices, axis = call["self"], call["index"], call["dim"] % max(1, len(call["self"].shape))
    for other, size in enumerate(indices.shape):
        if other != axis and size != x.shape[other]:
            x = b.slice(x, other, 0, size)
    return b.emit("gather", [x, b.cast(indices, "int64")], x.dtype, indices.shape, {"axis": axis})


def _one_of_each_row(b: Builder, call: Call) -> Value:
    """x[arange(batch), indices]."""
    x, indices = call["self"], call["indices"][1]
    shape = (x.shape[0], 1, *x.shape[2:])
    column = b.reshape(b.cast(indices, "int64"), (indices.shape[0], *(1 for _ in shape[1:])))
    return b.reshape(b.emit("gather", [x, b.broadcast(column, shape)], x.dtype, shape, {"axis": 1}), call.shape)


def _counted(b: Builder, call: Call) -> Value:
    """The numbers of the rows; fixed ones are constants before they come here."""
    if call.shape != (-1,) or (call.arguments.get("start") or 0) != 0 or call.arguments.get("step", 1) != 1:
        raise UnsupportedError("numbers that are counted off as far as the batch is large")
    return b.rows(call.dtype)


def _scattered(b: Builder, call: Call) -> Value:
    """One entry of each row of an axis becomes a number."""
    x, indices, axis = call["self"], call["index"], call["dim"] % len(call["self"].shape)
    others = [size for other, size in enumerate(x.shape) if other != axis]
    if indices.shape[axis] != 1 or x.shape[axis] < 0 or [*indices.shape[:axis], *indices.shape[axis + 1 :]] != others:
        raise UnsupportedError("scattering more than one entry along an axis")
    places = b.constant(range(x.shape[axis]), "int64")
    places = b.reshape(places, tuple(-1 if other == axis else 1 for other in range(len(x.shape))))
    hit = b.elementwise("eq", b.cast(indices, "int64"), b.constant(places.data, "int64"))
    return b.elementwise("where", hit, b.constant(call["value"], x.dtype), x)


def _overwritten(b: Builder, call: Call) -> Value:
    """x with some entries of an axis replaced: y[:, 2:4] = z."""
    x, source, axis = call["self"], call["src"], call["dim"] % len(call["self"].shape)
    size = x.shape[axis]
    if size < 0 or call.arguments.get("step", 1) != 1:
        raise UnsupportedError("some rows of the batch, or every other entry, are overwritten")
    if "index" in call.arguments:
        start = call["index"] % size
        stop = start + 1
        source = b.reshape(source, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    else:
        start, stop, _ = slice(call["start"], call["end"]).indices(size)
    parts = [b.slice(x, axis, 0, start), source, b.slice(x, axis, stop, size)]
    return b.concat([part for part in parts if part.shape[axis]], axis)


def _copied(b: Builder, call: Call) -> Value:
    return b.broadcast(b.cast(call["src"], call.dtype), call.shape)


def _indexed(b: Builder, call: Call) -> Value:
    given = [(axis, index) for axis, index in enumerate(call["indices"]) if index is not None]
    if [axis for axis, _ in given] == [0, 1] and b.is_rows(given[0][1]) and given[1][1].dtype != "bool":
        return _one_of_each_row(b, call)
    if len(given) != 1 or given[0][1].dtype == "bool":
        raise UnsupportedError("indexing with several tensors or with a mask")
    return _taken(b, call["self"], *given[0], call.shape)


def _flipped(b: Builder, call: Call) -> Value:
    x = call["self"]
    for axis in (axis % len(x.shape) for axis in call["dims"]):
        if x.shape[axis] < 0:
            raise UnsupportedError("the batch is turned round")
        x = _taken(b, x, axis, b.constant(range(x.shape[axis])[::-1], "int64"), x.shape)
    return x


def _padded(b: Builder, call: Call) -> Value:
    x, pads = call["self"], call["pad"]
    for index in range(len(pads) // 2):
        x = b.pad(x, len(x.shape) - 1 - index, pads[2 * index], pads[2 * index + 1], call["value"])
    return x


def _filled(b: Builder, call: Call) -> Value:
    value: Any = call.arguments.get("fill_value", call.arguments.get("s", call.arguments.get("value", 0)))
    filler = b.cast(value, call.dtype) if isinstance(value, Value) else b.constant(value, call.dtype)
    return b.broadcast(filler, call.shape)


def _zeros(b: Builder, call: Call) -> Value:
    return b.broadcast(b.constant(0, call.dtype), call.shape)


def _ones(b: Builder, call: Call) -> Value:
    return b.broadcast(b.constant(1, call.dtype), call.shape)


def _names(rule: Rule, *names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, rule)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **_names(_same, "alias.default", "clone.default", "detach.default", "contiguous.default"),
        **_names(_same, "lift_fresh_copy.default", "dropout.default"),
        **_names(_cast, "_to_copy.default", "to.dtype", "convert_element_type.default"),
        **_names(_reshaped, "view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default"),
        **_names(_reshaped, "squeeze.default", "squeeze.dim", "squeeze.dims", "flatten.using_ints"),
        **_names(_permuted, "permute.default", "transpose.int", "t.default"),
        **_names(_zeros, "zeros.default", "zeros_like.default", "new_zeros.default"),
        **_names(_ones, "ones.default", "ones_like.default", "new_ones.default"),
        **_names(_filled, "full.default", "full_like.default", "new_full.default", "scalar_tensor.default"),
        **_names(_filled, "fill.Scalar", "fill.Tensor"),
        **_names(_split, "split_with_sizes.default", "split.Tensor"),
        "as_strided.default": _restrided,
        "expand.default": _repeated,
        "repeat.default": _tiled,
        "slice.Tensor": _sliced,
        "select.int": _selected,
        "cat.default": _concatenated,
        "index_select.default": _index_selected,
        "embedding.default": _embedded,
        "index.Tensor": _indexed,
        "gather.default": _gathered,
        "arange.start_step": _counted,
        "scatter.value": _scattered,
        "copy.default": _copied,
        **_names(_overwritten, "slice_scatter.default", "select_scatter.default"),
        "flip.default": _flipped,
        "constant_pad_nd.default": _padded,
    }
)
