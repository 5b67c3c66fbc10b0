"""Asking the graph of a policy: arrays in, tensors out, in eval mode, and an error that names whose fault it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rlpipe.errors import ObservationError, RlpipeError, SpecError, listed
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.modules.torch.trial import last_line
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.observation_modules import in_float64
from rlpipe.policies.policy_graph import PolicyGraph
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.state import Array, State

_WITHOUT_FLOAT64 = frozenset({"mps"})
"""Device types that have no float64."""

_FLOATS = frozenset({"float16", "float32", "float64"})


def graphs_of(
    spec: PolicySpec, module: RLModule, statistics: State, options: GraphOptions, place: torch.device
) -> tuple[PolicyGraph, PolicyGraph]:
    """What is exported, and what runs here: with the trainers' precision, where the device has it."""
    exported, running = (PolicyGraph(spec, module, statistics, options) for _ in range(2))
    if place.type not in _WITHOUT_FLOAT64:
        in_float64(running.observation)
    return exported.to(place), running.to(place)


def asked(graph: PolicyGraph, name: str, named: Mapping[str, Array], module: RLModule, place: torch.device) -> Any:
    """What a method of a graph gives for flat named arrays.

    Args:
        graph: The graph.
        name: Its method.
        named: Input name -> (B, ...), in the dtypes that the graph takes.
        module: The network in it.
        place: Where both are.

    Raises:
        ObservationError: An input is missing.
        SpecError: The network fails.
    """
    if missing := [each for each in graph.input_names if each not in named]:
        raise ObservationError(
            "a step of the policy lacks inputs",
            expected=", ".join(graph.input_names),
            found=f"{listed(missing)} missing",
            fix="give all of them: graph(options).input_names",
        )
    tensors = {each: torch.from_numpy(named[each]).to(place) for each in graph.input_names}
    with evaluating(module), torch.inference_mode(), _blaming(module):
        return getattr(graph, name)(tensors)


@contextmanager
def _blaming(module: RLModule) -> Iterator[None]:
    """The stages take whatever their space holds: what fails here is the network."""
    try:
        yield
    except RlpipeError:
        raise
    except Exception as error:
        raise SpecError(
            f"{module.get_module_spec().class_path} fails in forward_inference",
            expected=f"outputs for {module.observation_space.describe()}",
            found=last_line(error),
            fix="try the module alone on a batch of its observation space",
        ) from error


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Eval mode inside, and the modes of before behind it."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def as_array(tensor: torch.Tensor) -> Array:
    """The tensor as an array; numpy has no bfloat16 and no float8."""
    is_strange = tensor.is_floating_point() and str(tensor.dtype).removeprefix("torch.") not in _FLOATS
    array: Array = (tensor.float() if is_strange else tensor).detach().cpu().numpy()
    return array
