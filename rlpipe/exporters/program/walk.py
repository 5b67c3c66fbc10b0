"""From a traced policy to a program: torch breaks its operators down, a rule for each of the rest lists it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.export import ExportedProgram
from torch.fx import Node

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.program.builder import Builder, UnsupportedError, Value
from rlpipe.exporters.program.call import Rule, call_of, dtype_of, shape_of
from rlpipe.exporters.program.program import DTYPES, Program
from rlpipe.exporters.program.rules import elementwise, shapes, sums
from rlpipe.exporters.signature import Signature, TensorSpec

_WHOLE = "the policy"
_LIBRARIES = ("aten", "prims")

RULES: Mapping[str, Rule] = MappingProxyType({**elementwise.RULES, **shapes.RULES, **sums.RULES})

_KEPT = (torch.ops.aten.linear.default,)
"""Left as they are where torch would break them down."""

_BROKEN_DOWN = ("_adaptive_avg_pool2d", "elu", "gelu", "hardtanh", "leaky_relu", "linalg_vector_norm")
"""Broken down where torch would leave them as they are."""


@lru_cache(maxsize=1)
def program_of(graph: ExportGraph) -> Program:
    """The program of a policy; the last one is kept for the next target.

    Raises:
        UnsupportedModuleError: An operator that programs do not have, with the part of the policy that uses it; or
            spaces whose numbers they cannot hold.
    """
    _require_spaces(graph.signature)
    traced = graph.program.run_decompositions(_table())
    signature = traced.graph_signature
    walk = _Walk(graph, _held(traced))
    for name, spec in zip(signature.user_inputs, graph.signature.inputs, strict=True):
        walk.take_input(str(name), spec)
    for node in _needed(traced):
        walk.take(node)
    specs = graph.signature.outputs
    found = dict(zip((spec.name for spec in specs), map(str, signature.user_outputs), strict=True))
    with _refusing(_WHOLE):
        return walk.builder.finished({name: walk.values[result] for name, result in found.items()})


def _require_spaces(signature: Signature) -> None:
    """Check that programs can hold the numbers that the environment gives and takes, whatever the module computes."""
    specs = [spec for spec in (*signature.inputs, *signature.outputs) if spec.dtype not in DTYPES]
    for kind in ("observation", "action"):
        if strange := [f"{spec.name} of {spec.dtype}" for spec in specs if spec.kind == kind]:
            raise UnsupportedModuleError(
                f"the {kind} space has numbers that cannot be written without a framework",
                expected=listed(sorted(DTYPES)),
                found=listed(strange),
                fix=f"make the environment's {kind} space float32, or export to onnx",
            )


def _table() -> Any:
    """torch's table of how operators break down, with our changes."""
    table: Any = torch.export.default_decompositions()
    for whole in _KEPT:
        table.pop(whole)
    table.update(get_decompositions([getattr(torch.ops.aten, name) for name in _BROKEN_DOWN]))
    return table


def _held(traced: ExportedProgram) -> dict[str, torch.Tensor]:
    """Every tensor that the program holds, by the name of its node."""
    signature = traced.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    lifted = signature.inputs_to_lifted_tensor_constants
    state = {**traced.constants, **traced.state_dict}
    return {name: state[target].detach() for name, target in {**named, **lifted}.items()}


def _needed(traced: ExportedProgram) -> list[Node]:
    """The operators that the outputs hang on, in order; assertions about values are none of them."""
    needed: set[Node] = set()
    waiting = list(traced.graph.output_node().all_input_nodes)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return [node for node in traced.graph.nodes if node in needed and node.op == "call_function"]


class _Walk:
    """Goes through the nodes in order.

    Attributes:
        builder: The program so far.
        values: What the nodes so far are, by name; several results are a list.
    """

    def __init__(self, graph: ExportGraph, held: Mapping[str, torch.Tensor]) -> None:
        self.builder = Builder()
        self.values: dict[str, Any] = {}
        self._origins = graph.origins
        with _refusing(_WHOLE):
            self.values.update({name: self._constant(tensor) for name, tensor in held.items()})

    def take_input(self, name: str, spec: TensorSpec) -> None:
        """An input of the policy, by the name of its node."""
        with _refusing(_WHOLE):
            self.values[name] = self.builder.input(spec.name, spec.dtype, (-1, *spec.shape))

    def take(self, node: Node) -> None:
        """One node. Sizes are no values, they stand in the shapes."""
        if isinstance(node.meta["val"], (torch.SymInt, int)):
            return
        with _refusing(self._origin(node)):
            self._apply(node)

    def _apply(self, node: Node) -> None:
        library, _, name = str(node.target).partition(".")
        if node.target is operator.getitem:
            self.values[node.name] = self._one_of(*node.args)
        elif self._is_constant(node):
            self.values[node.name] = self._evaluated(node)
        elif library in _LIBRARIES and name in RULES:
            self.values[node.name] = RULES[name](self.builder, call_of(node, self.values))
        else:
            raise UnsupportedError(str(node.target))
        self._require_shape(node)

    def _one_of(self, source: Any, index: Any) -> Value:
        results: list[Value] = self.values[source.name]
        if index >= len(results):
            raise UnsupportedError(f"the result {index} of {source.target}")
        return results[index]

    def _is_constant(self, node: Node) -> bool:
        """Whether it can be computed now, from constants alone."""
        results = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
        if any(isinstance(size, torch.SymInt) for result in results for size in result.shape):
            return False
        values = [self.values.get(item.name) for item in node.all_input_nodes]
        return all(isinstance(value, Value) and value.data is not None for value in values)

    def _evaluated(self, node: Node) -> Value | list[Value]:
        def real(item: Node) -> torch.Tensor:
            return torch.from_numpy(self.values[item.name].data)

        args: Any = torch.fx.map_arg(node.args, real)
        kwargs: Any = torch.fx.map_arg(node.kwargs, real)
        function: Any = node.target
        with torch.no_grad():
            result = function(*args, **kwargs)
        return self._constant(result) if isinstance(result, torch.Tensor) else list(map(self._constant, result))

    def _constant(self, tensor: torch.Tensor) -> Value:
        if tensor.dtype in (torch.bfloat16, torch.complex64) or tensor.is_sparse or tensor.is_quantized:
            raise UnsupportedError(f"numbers of type {dtype_of(tensor.dtype)}")
        return self.builder.constant(tensor.contiguous().numpy(), dtype_of(tensor.dtype))

    def _require_shape(self, node: Node) -> None:
        """A rule that gives something else than torch must not become a wrong artifact."""
        value, expected = self.values[node.name], node.meta["val"]
        if isinstance(value, Value) and (value.shape, value.dtype) != (shape_of(expected), dtype_of(expected.dtype)):
            raise UnsupportedError(f"{node.target} with these arguments")

    def _origin(self, node: Node) -> str:
        """The part of the policy that a node comes from."""
        sources = list(node.meta.get("from_node", ()))
        while sources:
            source = sources.pop()
            if source.name in self._origins:
                return self._origins[source.name]
            sources.extend(source.from_node)
        return _WHOLE


@contextmanager
def _refusing(origin: str) -> Iterator[None]:
    """What programs cannot hold becomes an error that names the part of the policy."""
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedModuleError(
            f"{origin} cannot be written without a framework",
            expected="operators of networks, elementwise maths, reductions and moves, each row by itself",
            found=str(error),
            fix="replace it in the module, or export to onnx, which has more operators",
        ) from error
