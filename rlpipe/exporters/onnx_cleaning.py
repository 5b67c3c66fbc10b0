"""From what torch writes to what belongs into an ONNX file: computation, names, essentials, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BATCH = "batch"


def rename_edges(model: Any, names: Mapping[str, str]) -> None:
    """Give inputs and outputs other names, and whatever else has those names already another one.

    Args:
        model: The proto, changed in place.
        names: Old name -> new name.
    """
    made = {name for node in model.graph.node for name in node.output}
    made |= {tensor.name for tensor in model.graph.initializer}
    apart = {name: f"{name}_inside" for name in sorted(set(names.values()) & made - set(names))}
    rename(model, {**apart, **names})
    for value in [*model.graph.input, *model.graph.output]:
        value.name = names.get(value.name, value.name)


def rename(model: Any, names: Mapping[str, str]) -> None:
    """Give values other names wherever they are read or made, all at once; the lists of inputs and outputs stay."""
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)


def clean(model: Any, essentials: Mapping[str, str]) -> None:
    """Leave the computation, the names and the essentials; file names, source lines and traces go."""
    from onnx import helper

    graphs = [model.graph, *model.functions]
    for part in graphs:
        for item in [part, *part.node, *part.value_info, *getattr(part, "initializer", ())]:
            item.ClearField("metadata_props")
            item.ClearField("doc_string")
    for item in [*model.graph.input, *model.graph.output]:
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    model.ClearField("doc_string")
    model.ClearField("metadata_props")
    # The dimensions inside are derived ones, named after torch's own symbol; any reader can infer them again.
    model.graph.ClearField("value_info")
    model.graph.name = "policy"
    _name_batch(model)
    _without_choices_of_switches(model)
    model.ir_version = helper.find_min_ir_version_for(list(model.opset_import))
    helper.set_model_props(model, dict(sorted(essentials.items())))


def _name_batch(model: Any) -> None:
    """Call the one symbol of the inputs "batch" wherever it stands alone."""
    tensors = [item.type.tensor_type for item in [*model.graph.input, *model.graph.output]]
    symbols = {tensor.shape.dim[0].dim_param for tensor in tensors if tensor.shape.dim}
    for tensor in tensors:
        for dimension in tensor.shape.dim:
            if len(symbols) == 1 and dimension.dim_param in symbols:
                dimension.dim_param = BATCH


def _without_choices_of_switches(model: Any) -> None:
    """Write `where` of booleans as (c and x) or (not c and y): ONNX Runtime has no kernel for it."""
    from onnx import TensorProto

    types = _types(model)
    nodes: list[Any] = []
    for node in model.graph.node:
        is_switch = node.op_type == "Where" and types.get(node.output[0]) == TensorProto.BOOL
        nodes.extend(_switched(node) if is_switch else [node])
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    model.graph.ClearField("node")
    model.graph.node.extend(copies)


def _switched(node: Any) -> list[Any]:
    from onnx import helper

    (condition, x, y), (result,) = node.input, node.output
    names = {part: f"{result}_{part}" for part in ("first", "otherwise", "second")}
    return [
        helper.make_node("And", [condition, x], [names["first"]]),
        helper.make_node("Not", [condition], [names["otherwise"]]),
        helper.make_node("And", [names["otherwise"], y], [names["second"]]),
        helper.make_node("Or", [names["first"], names["second"]], [result]),
    ]


def _types(model: Any) -> dict[str, int]:
    """Name of a value -> its type, as far as it can be inferred."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    return {value.name: value.type.tensor_type.elem_type for value in values}
