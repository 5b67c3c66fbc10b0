"""From a traced program to an ONNX model; policies that differ in their weights alone are converted once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.onnx_cleaning import rename_edges

_ANY_SIZE = 1 << 30
_KEPT = 8
"""So many structures are remembered."""
_LARGEST = 16 << 20
"""Bytes; larger ones are converted each time."""


@dataclass(frozen=True, eq=False)
class _Template:
    """A converted program whose weights can be replaced.

    Attributes:
        data: The model, not optimised yet: nothing in it was computed from weights.
        names: The initializers that are tensors of the program.
        is_whole: Whether every tensor of the program is among them, so that others can take their place.
    """

    data: bytes
    names: tuple[str, ...]
    is_whole: bool


_templates: OrderedDict[str, _Template] = OrderedDict()


def converted(graph: ExportGraph, opset: int) -> Any:
    """The `onnx.ModelProto` of a policy, optimised, with what hangs on constants alone computed.

    That an older model with new weights is right is not assumed: it is run and compared like every other.

    Raises:
        torch.onnx.errors.OnnxExporterError: torch cannot write it.
    """
    sides = ("input", graph.signature.inputs), ("output", graph.signature.outputs)
    # Given the real names, torch would let them meet those of weights.
    neutral = {f"{side}__{index}": spec.name for side, specs in sides for index, spec in enumerate(specs)}
    key = _structure(graph.program, opset)
    if (template := _templates.get(key)) is None:
        template = _template_of(_translated(graph.program, neutral, opset), graph.program)
        _keep(key, template)
    model = _optimised(_filled(template, graph.program))
    rename_edges(model, neutral)
    return model


def _keep(key: str, template: _Template) -> None:
    if template.is_whole:
        _templates[key] = template
    while len(_templates) > _KEPT:
        _templates.popitem(last=False)


def _structure(program: ExportedProgram, opset: int) -> str:
    """Equal for programs that differ in the values of their tensors alone."""
    code = [str(part.graph) for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    shapes = [str(node.meta.get("val")) for node in program.graph.nodes if node.op == "placeholder"]
    held = sorted((name, str(tensor.dtype), tuple(tensor.shape)) for name, tensor in _held(program).items())
    text = repr((code, shapes, held, str(program.graph_signature), str(program.range_constraints), opset))
    return sha256(text.encode()).hexdigest()


def _held(program: ExportedProgram) -> dict[str, torch.Tensor]:
    everything: Mapping[str, Any] = {**program.constants, **program.state_dict}
    return {name: value.detach() for name, value in everything.items() if isinstance(value, torch.Tensor)}


def _translated(program: ExportedProgram, names: Iterable[str], opset: int) -> Any:
    sides = {f"{side}_names": [name for name in names if name.startswith(side)] for side in ("input", "output")}
    settings: dict[str, Any] = {**sides, "opset_version": opset}
    if (registry := _registry(opset)) is not None:
        from torch.onnx._internal.exporter import _core

        return _core.export(program, (), registry=registry, verbose=False, optimize=False, **settings).model
    made = torch.onnx.export(program, (), dynamo=True, verbose=False, optimize=False, **settings)
    if made is None:
        raise torch.onnx.errors.OnnxExporterError("torch wrote no model")
    return made.model


@lru_cache(maxsize=2)
def _registry(opset: int) -> Any:
    """torch's table of translations, which it would read from source texts for seconds each time; None: not known."""
    try:
        from torch.onnx._internal.exporter._constants import TORCHLIB_OPSET
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:
        return None
    return ONNXRegistry.from_torchlib(opset_version=max(opset, TORCHLIB_OPSET))


def _template_of(model: Any, program: ExportedProgram) -> _Template:
    from onnx_ir import serde

    initializers = model.graph.initializers
    held = _held(program)
    found = [name for name, tensor in held.items() if _is(initializers.get(name), tensor)]
    signature = program.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    named |= signature.inputs_to_lifted_tensor_constants
    used = {named[node.name] for node in program.graph.nodes if node.name in named and node.users}
    is_whole = used <= set(found) and sum(tensor.nbytes for tensor in held.values()) <= _LARGEST
    return _Template(serde.serialize_model(model).SerializeToString(), tuple(found), is_whole)


def _is(value: Any, tensor: torch.Tensor) -> bool:
    if value is None or value.const_value is None:
        return False
    found, expected = value.const_value.numpy(), tensor.numpy()
    same = found.dtype == expected.dtype and found.shape == expected.shape
    return same and found.tobytes() == np.ascontiguousarray(expected).tobytes()


def _filled(template: _Template, program: ExportedProgram) -> Any:
    import onnx
    import onnx_ir

    model = onnx_ir.serde.deserialize_model(onnx.ModelProto.FromString(template.data))
    held = _held(program)
    for name in template.names:
        array = np.ascontiguousarray(held[name].numpy()).reshape(held[name].shape)
        model.graph.initializers[name].const_value = onnx_ir.tensor(array, name=name)
    return model


def _optimised(model: Any) -> Any:
    """The proto; weights that torch cuts and joins are plain initializers in it."""
    from onnx_ir import serde
    from onnxscript import optimizer

    optimizer.optimize(model, input_size_limit=_ANY_SIZE, output_size_limit=_ANY_SIZE)
    return serde.serialize_model(model)
