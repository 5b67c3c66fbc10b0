"""Tensors as RLlib's modules name them, for tests of what takes them apart; random, without ray."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rlpipe.importers.libraries.rllib.networks import Network
from rlpipe.importers.libraries.rllib.settings import Shape, shape_of
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.snapshot.spaces import Box, Discrete, Space
from rlpipe.snapshot.state import from_entries

Array = np.ndarray[Any, np.dtype[Any]]
SEEN = Box.uniform(-np.inf, np.inf, (4,))
PAIR = Box.uniform(-1, 1, (2,))
CHOICES = Discrete(3)
OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
_RNG = np.random.default_rng(0)


def layers(prefix: str, *widths: int, step: int = 2, ending: str = "") -> dict[str, Array]:
    """Linear layers at `<prefix>.0`, `<prefix>.<step>`, ...; `ending` stands between number and parameter."""
    found: dict[str, Array] = {}
    for index, (inputs, outputs) in enumerate(pairwise(widths)):
        found |= linear(f"{prefix}.{step * index}{ending}", inputs, outputs)
    return found


def linear(name: str, inputs: int, outputs: int) -> dict[str, Array]:
    """One linear layer."""
    return {f"{name}.weight": drawn(outputs, inputs), f"{name}.bias": drawn(outputs)}


def convolution(name: str, channels: int, outputs: int, size: int) -> dict[str, Array]:
    """One convolution."""
    return {f"{name}.weight": drawn(outputs, channels, size, size), f"{name}.bias": drawn(outputs)}


def lstm(name: str, inputs: int, hidden: int) -> dict[str, Array]:
    """A LSTM of one layer."""
    rows = 4 * hidden
    return {
        f"{name}.weight_ih_l0": drawn(rows, inputs),
        f"{name}.weight_hh_l0": drawn(rows, hidden),
        f"{name}.bias_ih_l0": drawn(rows),
        f"{name}.bias_hh_l0": drawn(rows),
    }


def drawn(*shape: int) -> Array:
    """Random numbers."""
    return _RNG.normal(size=shape).astype(np.float32)


def built(network: Network, seen: Space, acted_in: Space) -> Any:
    """The module of rlpipe with exactly the weights of a network."""
    spec = RLModuleSpec(
        network.module,
        seen,
        acted_in,
        model_config=dict(network.model_config),
        inference_only=network.inference_only,
    )
    module = spec.build()
    module.set_state(from_entries(network.entries))
    return module


def shape(space: Space, **config: Any) -> Shape:
    """What RLlib's settings say beside weights."""
    return shape_of(config, seen=SEEN, space=space, subject="it")


def through(given: dict[str, Array], prefix: str, x: Array, act: Any = np.tanh, *, last: bool = True) -> Array:
    """Layers at 0, 2, ... with an activation behind each, but for the last one where that is a head."""
    count = sum(name.startswith(f"{prefix}.") and name.endswith("weight") for name in given)
    for index in range(count):
        x = x @ given[f"{prefix}.{2 * index}.weight"].T + given[f"{prefix}.{2 * index}.bias"]
        x = act(x) if last or index < count - 1 else x
    return x


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0)
