"""What a target gets: one frozen policy as a traced program with named tensors, free of its author's machine."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule, Node

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.exporters.freeze import first_line, freeze, inputs_of, require_independent_rows
from rlpipe.exporters.location import Location
from rlpipe.exporters.signature import Signature
from rlpipe.exporters.target import Arrays

LARGEST_BATCH = 65536
_TRACED_BATCH = 2
"""torch.export takes a batch of 1 for a constant."""

_SWITCHES = ("train", "training", "dropout_p")
_KEPT = frozenset({"val", "tensor_meta"})


@dataclass(frozen=True, eq=False)
class ExportGraph:
    """A policy ready for targets; they must not change it.

    Attributes:
        module: The frozen eager graph.
        program: The same traced, batch symbolic, without stack traces and sample inputs.
        signature: Names, dtypes and shapes of its inputs and outputs, in order.
        sample: Input name -> some observations, (n, *shape).
        origins: Node of the program -> the part of the module that it comes from.
        weights: Dotted name -> array of the policy's state that inference needs, statistics too.
    """

    module: nn.Module
    program: ExportedProgram
    signature: Signature
    sample: Arrays
    origins: Mapping[str, str]
    weights: Arrays = field(default_factory=dict)


def export_graph(module: nn.Module, signature: Signature, sample: Arrays) -> ExportGraph:
    """Freeze, prove and trace a policy's graph.

    Args:
        module: Takes one tensor per input, gives one per output; it is copied.
        signature: What it takes and gives.
        sample: Input name -> observations, at least 7, better 64.

    Raises:
        UnsupportedModuleError: It is no pure function of any batch size, or torch.export cannot follow it.
    """
    frozen = freeze(module, signature, sample)
    program = _traced(frozen, signature, sample)
    require_independent_rows(frozen, signature, sample)
    _require_deterministic(program)
    origins = _origins(program)
    _drop_unused(program)
    _strip(program)
    return ExportGraph(frozen, program, signature, sample, origins)


def _traced(module: nn.Module, signature: Signature, sample: Arrays) -> ExportedProgram:
    inputs = inputs_of(signature, {name: rows[:_TRACED_BATCH] for name, rows in sample.items()})
    with Location(module) as location, _without_argument_checks(), torch.no_grad():
        try:
            return torch.export.export(module, inputs, dynamic_shapes=_batch_first(module, len(inputs)), strict=False)
        except Exception as error:
            raise _explained(error, location) from error


def _batch_first(module: nn.Module, count: int) -> tuple[Any, ...]:
    """The first dimension of every input is the batch; what goes into `*inputs` counts as one argument, a tuple."""
    batch = {0: Dim("batch", min=1, max=LARGEST_BATCH)}
    shapes = (batch,) * count
    kinds = [parameter.kind for parameter in inspect.signature(module.forward).parameters.values()]
    single = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else count
    return shapes if single == count else (*shapes[:single], shapes[single:])


@contextmanager
def _without_argument_checks() -> Iterator[None]:
    """Distributions check their arguments by branching on values, which no trace can follow."""
    distribution = torch.distributions.Distribution
    before = distribution._validate_args  # noqa: SLF001 - torch has a setter for it, but no getter
    distribution.set_default_validate_args(value=False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)


def _explained(error: Exception, location: Location) -> UnsupportedModuleError:
    text = str(error)
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        return UnsupportedModuleError(
            f"{location.of(error)} takes Python decisions from the values of its input",
            expected="a forward that computes the same way for all values",
            found=first_line(error),
            fix="use torch.where or a mask instead of if, float(), .item() and boolean indexing",
        )
    if "specialized" in text or location.fixed_batch:
        return UnsupportedModuleError(
            f"{location.fixed_batch or location.of(error)} fixes the batch size",
            expected="any batch size",
            found=f"a batch of exactly {_TRACED_BATCH}",
            fix="use x.flatten(1), x.shape[0] as it is, and -1 in reshapes",
        )
    return UnsupportedModuleError(
        f"torch.export cannot follow {location.of(error)}",
        expected="torch operations on the given tensors",
        found=first_line(error),
        fix="rewrite that part of the forward with torch operations",
    )


def _require_deterministic(program: ExportedProgram) -> None:
    drawing = sorted({str(node.target) for node in program.graph.nodes if _draws(node)})
    if drawing:
        raise UnsupportedModuleError(
            "the policy draws random numbers when it acts",
            expected="a deterministic inference forward",
            found=listed(drawing),
            fix="return the distribution's mode in forward_inference",
        )


def _draws(node: Node) -> bool:
    """Whether an operator draws random numbers; dropout and its like in eval mode do not."""
    operator = node.target
    if not isinstance(operator, OpOverload) or torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    names = [argument.name for argument in operator._schema.arguments]  # noqa: SLF001 - torch's only view of it
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    switches = [given.get(name) for name in _SWITCHES if name in names]
    return any(switches) or not switches


def _origins(program: ExportedProgram) -> dict[str, str]:
    """For every node the innermost part of the module that made it, such as "module.pi (Linear)"."""
    found = {}
    for node in program.graph.nodes:
        parts = [part for part in node.meta.get("nn_module_stack", {}).values() if part[0]]
        if parts:
            path, kind = parts[-1]
            found[node.name] = f"{path} ({str(kind).rpartition('.')[2]})"
    return found


def _drop_unused(program: ExportedProgram) -> None:
    """Take out what no output needs: weights behind a component, deviations of actions that are not drawn."""
    program.graph.eliminate_dead_code()
    signature = program.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    unused = {node.name: node for node in program.graph.nodes if node.name in targets and not node.users}
    for node in unused.values():
        program.graph.erase_node(node)
    signature.input_specs[:] = [spec for spec in signature.input_specs if spec.arg.name not in unused]
    kept = {target for name, target in targets.items() if name not in unused}
    for name in unused:
        # A weight that is tied under a name that is needed stays.
        if targets[name] not in kept:
            program.state_dict.pop(targets[name], None)
            program.constants.pop(targets[name], None)
    parents = {name[:end] for name in kept for end in range(len(name)) if name[end] == "."}
    program.module_call_graph[:] = [
        entry for entry in program.module_call_graph if not entry.fqn or entry.fqn in parents
    ]
    program.graph_module.recompile()


def _strip(program: ExportedProgram) -> None:
    """Drop what names files, source lines and values of the author's machine."""
    program.example_inputs = None
    for part in program.graph_module.modules():
        if isinstance(part, GraphModule):
            part.meta.clear()
            for node in part.graph.nodes:
                for name in node.meta.keys() - _KEPT:
                    del node.meta[name]
