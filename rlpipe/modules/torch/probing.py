"""Trying a module on a few inputs, without a trace in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from rlpipe.checkpoint.classes import resolve_class
from rlpipe.modules.torch.batch import STATE_IN
from rlpipe.modules.torch.tensors import tensor_of
from rlpipe.modules.torch.trial import seed_generators
from rlpipe.snapshot.spaces import Box, Leaf, Space, flat_batch, flat_items, nested_batch
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from rlpipe.modules.rl_module import RLModuleSpec
    from rlpipe.modules.torch.batch import Outputs
    from rlpipe.modules.torch.rl_module import RLModule

_DRAWN = 36
_EXTREME = 12
_PROBES = _DRAWN + _EXTREME
_SCALES = (-3.0, 3.0)
"""Powers of ten between which observations are scaled, as far as their space reaches."""


def place_of(module: nn.Module) -> torch.device:
    """Where a module's parameters and buffers are; the CPU without any."""
    tensor = next(chain(module.parameters(), module.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def to_tensors(batch: Any, device: torch.device) -> Any:
    """Nested arrays as fresh tensors on a device; dicts and tuples stay."""
    if isinstance(batch, Mapping):
        return {key: to_tensors(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(to_tensors(value, device) for value in batch)
    return tensor_of(batch).clone().to(device)


def probe_of(module: RLModule) -> dict[str, Any]:
    """A small batch of inference inputs on the module's device, the same every time."""
    device = place_of(module)
    observations = to_tensors(_observations(module.observation_space), device)
    memory = {name: _memories(value, device) for name, value in module.get_initial_state().items()}
    return {"obs": observations, STATE_IN: memory} if memory else {"obs": observations}


def _memories(initial: Any, device: torch.device) -> torch.Tensor:
    """Every second one as at the start; the others moved away from it, so that weights on the memory count."""
    memory = torch.as_tensor(initial, device=device).detach().expand(_PROBES, *initial.shape).clone()
    if memory.is_floating_point():
        noise = np.random.default_rng(1).normal(size=memory[1::2].shape)
        memory[1::2] += torch.as_tensor(noise).to(memory)
    return memory


def _observations(space: Space) -> Any:
    """Drawn ones at all scales and extreme ones, nested as the space is."""
    rng = np.random.default_rng(0)
    parts = [flat_batch(space, batch, "obs") for batch in (space.sample(_DRAWN, rng), space.corners(_EXTREME, rng))]
    scales = 10 ** rng.uniform(*_SCALES, _DRAWN)
    flat = {
        name: np.concatenate([_scaled(leaf, parts[0][name], scales), parts[1][name]])
        for name, leaf in flat_items(space, "obs")
    }
    return nested_batch(space, flat, "obs")


def _scaled(leaf: Leaf, drawn: Array, scales: Array) -> Array:
    if not isinstance(leaf, Box) or leaf.dtype.kind != "f":
        return drawn
    with np.errstate(over="ignore"):
        scaled = (drawn * scales.reshape(-1, *[1] * len(leaf.shape))).astype(leaf.dtype)
    return np.clip(scaled, leaf.low, leaf.high)


def act(module: Any, batch: Mapping[str, Any]) -> Outputs:
    """Inference without gradients; a module that draws random numbers draws the same ones every time."""
    device = place_of(module)
    forked = [device] if device.type == "cuda" else []
    with torch.inference_mode(), torch.random.fork_rng(devices=forked):
        seed_generators(0, device)
        outputs: Outputs = module.forward_inference(batch)
    return outputs


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What only a module's code knows about its spec.

    Attributes:
        output_kind: See `RLModule.output_kind`.
        model_config: The config with every default filled in; classes in it stay classes.
        state: See `RLModuleSpec.state`.
    """

    output_kind: str
    model_config: Mapping[str, Any]
    state: Mapping[str, Mapping[str, Any]]


def class_of(kind: str | type, *, trust: tuple[str, ...]) -> type[RLModule]:
    """The class of a module, of itself or of its dotted path.

    Raises:
        UntrustedClassError: The path is not trusted.
        SpecError: It is the path of something else.
    """
    from rlpipe.modules.torch.rl_module import RLModule

    return resolve_class(kind, RLModule, trust=trust) if isinstance(kind, str) else kind  # type: ignore[type-abstract]


def learn_about(spec: RLModuleSpec, *, trust: tuple[str, ...]) -> ModuleFacts:
    """Build a module of the spec, ask it, and let it go; random numbers go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[]):
        module = spec.build(trust=trust)
        config = module.full_model_config(spec.model_config)
        return ModuleFacts(module.output_kind(), config, module.get_module_spec().state)
