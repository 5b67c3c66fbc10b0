"""Gives an ONNX model the edges that a profile demands: casts, transpositions, constants, names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlpipe.exporters.onnx_cleaning import BATCH, rename
from rlpipe.exporters.onnx_profile import Edge, Profile, edges
from rlpipe.exporters.signature import Signature

METADATA_KEY = "rlpipe.profile"
"""Where the file says how its tensors are called, typed and laid out here, if that differs."""

_INNER, _APART = "{}_as_trained", "{}_inside"


def apply(model: Any, signature: Signature, profile: Profile) -> None:
    """Give a model the edges of a profile, and note in its metadata how they map to the signature.

    Raises:
        UnsupportedModuleError: The policy has other inputs or outputs than the profile knows.
    """
    inputs, outputs = edges(signature, profile)
    _make_room(model, [*inputs, *outputs], profile.constants)
    nodes = [node for edge in inputs if edge.constant is None for node in _into(edge)]
    kept = [edge for edge in inputs if edge.constant is None]
    for edge in inputs:
        if edge.constant is not None:
            nodes += _instead(model, edge, kept[0], profile)
    _put_first(model, nodes)
    for edge in outputs:
        model.graph.node.extend(_out_of(edge))
    _declare(model, kept, outputs, profile)
    _add_constants(model, profile.constants)
    if profile.ir is not None:
        model.ir_version = profile.ir
    here = [spec.name for spec in (*signature.inputs, *signature.outputs)]
    ordered = [sorted(side, key=lambda edge: here.index(edge.spec.name)) for side in (inputs, outputs)]
    mapping = {
        "id": profile.id,
        "inputs": [edge.to_json() for edge in ordered[0]],
        "outputs": [edge.to_json() for edge in ordered[1]],
        "batch": 1 if profile.batch == "fixed" else None,
    }
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, json.dumps(mapping, sort_keys=True)


def _make_room(model: Any, found: Sequence[Edge], constants: Mapping[str, Any]) -> None:
    """Rename what the edges are called inside, and whatever else has a name that an edge will have."""
    own = {edge.spec.name for edge in found}
    made = {name for node in model.graph.node for name in node.output}
    made |= {tensor.name for tensor in model.graph.initializer}
    taken = {edge.name for edge in found} | set(constants)
    apart = {name: _APART.format(name) for name in taken & (made - own)}
    rename(model, {**apart, **{name: _INNER.format(name) for name in own}})


def _into(edge: Edge) -> list[Any]:
    """From an input of the file to what the policy takes."""
    from onnx import helper

    inner, last, nodes = _INNER.format(edge.spec.name), edge.name, []
    if edge.axes is not None:
        nodes.append(helper.make_node("Transpose", [last], [f"{inner}_moved"], perm=np.argsort(edge.axes).tolist()))
        last = f"{inner}_moved"
    return [*nodes, _cast(last, inner, edge.spec.dtype)]


def _out_of(edge: Edge) -> list[Any]:
    from onnx import helper

    inner = _INNER.format(edge.spec.name)
    if edge.axes is None:
        return [_cast(inner, edge.name, edge.dtype)]
    moved = helper.make_node("Transpose", [f"{inner}_cast"], [edge.name], perm=list(edge.axes))
    return [_cast(inner, f"{inner}_cast", edge.dtype), moved]


def _cast(source: str, result: str, dtype: str) -> Any:
    from onnx import helper

    return helper.make_node("Cast", [source], [result], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _instead(model: Any, edge: Edge, other: Edge, profile: Profile) -> list[Any]:
    """A constant in the place of an input, as often as the batch of another input is large."""
    from onnx import helper, numpy_helper

    inner, spec = _INNER.format(edge.spec.name), edge.spec
    one = np.full((1, *spec.shape), edge.constant, spec.dtype)
    if profile.batch == "fixed":
        model.graph.initializer.append(numpy_helper.from_array(one, inner))
        return []
    sizes = np.array(spec.shape, np.int64)
    model.graph.initializer.append(numpy_helper.from_array(one, f"{inner}_value"))
    model.graph.initializer.append(numpy_helper.from_array(sizes, f"{inner}_sizes"))
    axis = 0 if other.axes is None else other.axes.index(0)
    return [
        helper.make_node("Shape", [other.name], [f"{inner}_batch"], start=axis, end=axis + 1),
        helper.make_node("Concat", [f"{inner}_batch", f"{inner}_sizes"], [f"{inner}_shape"], axis=0),
        helper.make_node("Expand", [f"{inner}_value", f"{inner}_shape"], [inner]),
    ]


def _put_first(model: Any, nodes: Sequence[Any]) -> None:
    for index, node in enumerate(nodes):
        model.graph.node.insert(index, node)


def _declare(model: Any, inputs: Sequence[Edge], outputs: Sequence[Edge], profile: Profile) -> None:
    """The inputs and outputs of the file, in its order."""
    from onnx import helper

    for side, found in (("input", inputs), ("output", outputs)):
        model.graph.ClearField(side)
        for edge in found:
            sizes = [1 if size == BATCH and profile.batch == "fixed" else size for size in edge.dimensions]
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(edge.dtype))
            getattr(model.graph, side).append(helper.make_tensor_value_info(edge.name, kind, sizes))


def _add_constants(model: Any, constants: Mapping[str, Any]) -> None:
    from onnx import helper, numpy_helper

    for name, constant in constants.items():
        array = np.asarray(constant["value"], dtype=constant["dtype"])
        model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_value"))
        model.graph.node.append(helper.make_node("Identity", [f"{name}_value"], [name]))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.output.append(helper.make_tensor_value_info(name, kind, array.shape))
