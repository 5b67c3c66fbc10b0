"""The settings of a module that its weights do not show: activations, and what kind of network it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.acting import leaves_of, outputs_of
from rlpipe.importers.libraries.rllib.filters import Filter, filters_of
from rlpipe.importers.restricted.values import Name
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.snapshot.spaces import Box, Space

_BY_TORCH_NAME: Mapping[str, str] = MappingProxyType({name: key for key, name in ACTIVATIONS.items()})
LINEAR = "identity"
_BY_RLLIB_NAME: Mapping[str, str] = MappingProxyType(
    {"linear": LINEAR, "none": LINEAR, "swish": "silu", "silu": "silu", "relu": "relu", "tanh": "tanh", "elu": "elu"}
)
"""Names that get_activation_fn() in ray/rllib/models/utils.py knows beside those of torch.nn, in small letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atoms:
    """The values that a distribution of Q values is over: `count` of them, evenly from `low` to `high`."""

    count: int
    low: float
    high: float

    def config(self) -> dict[str, Any]:
        """As rlpipe's DQN is described."""
        return {"count": self.count, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of a composite action: how many numbers decide on it, and whether it is a Box."""

    outputs: int
    continuous: bool

    @property
    def rows(self) -> int:
        """How many numbers a network puts out for it: a Box has a deviation for each mean."""
        return self.outputs * (2 if self.continuous else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the weights do not say about the networks.

    Attributes:
        features: Numbers in a prepared observation.
        image: Channels, height and width of one that is an image, else None.
        outputs: Numbers that decide: logits, Q values, or elements of the action.
        continuous: Whether actions are a Box.
        leaves: Parts of a Dict or Tuple of actions, in flat order; none of any other.
        activation: Name of the activation in encoders.
        head_activation: Name of the activation between the layers of heads.
        filters: What is seen of an image, layer by layer.
        image_activation: Name of the activation behind filters.
        fusion_activation: Name of the one in SAC's critics, where observation and action come together.
        atoms: What a Q value is a distribution over; None for a plain one.
        double: Whether DQN's loss takes the next action from the online network.
    """

    features: int
    image: tuple[int, int, int] | None = None
    outputs: int
    continuous: bool
    leaves: tuple[Leaf, ...] = ()
    activation: str
    head_activation: str
    filters: tuple[Filter, ...] = ()
    image_activation: str = "relu"
    fusion_activation: str = "tanh"
    atoms: Atoms | None = None
    double: bool = True


def shape_of(config: Mapping[str, Any], *, seen: Box, space: Space, subject: str) -> Shape:
    """What the weights of a module do not say.

    Args:
        config: RLlib's settings of the module.
        seen: Space of prepared observations.
        space: The action space.
        subject: How errors name the module.

    Raises:
        ForeignFormatError: An activation or filters that cannot be imported.
    """
    activation, head_activation = activations_of(config, subject=subject)
    is_image = len(seen.shape) == 3
    return Shape(
        features=prod(seen.shape),
        image=(seen.shape[0], seen.shape[1], seen.shape[2]) if is_image else None,
        outputs=outputs_of(space),
        continuous=isinstance(space, Box),
        leaves=tuple(Leaf(outputs_of(leaf), isinstance(leaf, Box)) for leaf in leaves_of(space)),
        activation=activation,
        head_activation=head_activation,
        filters=filters_of(config.get("conv_filters"), seen.shape[1:], subject=subject) if is_image else (),
        image_activation=activation_of(config.get("conv_activation", "relu"), subject=f"conv_activation of {subject}"),
        fusion_activation=activation_of(
            config.get("fusionnet_activation", "relu"), subject=f"fusionnet_activation of {subject}"
        ),
        atoms=_atoms(config),
        double=config.get("double_q", True) is True,
    )


def _atoms(config: Mapping[str, Any]) -> Atoms | None:
    count, low, high = (config.get(name) for name in ("num_atoms", "v_min", "v_max"))
    if not isinstance(count, (int, np.integer)) or count <= 1:
        return None
    least, most = (
        float(value) if isinstance(value, (int, float, np.number)) else default
        for value, default in ((low, -10.0), (high, 10.0))
    )
    return Atoms(count=int(count), low=least, high=most)


def activations_of(config: Mapping[str, Any], *, subject: str) -> tuple[str, str]:
    """The activation in encoders, and the one between the layers of heads.

    Raises:
        ForeignFormatError: One is none of torch.nn's without arguments and parameters.
    """
    head = config.get("head_fcnet_activation", config.get("post_fcnet_activation", "relu"))
    return (
        activation_of(config.get("fcnet_activation", "tanh"), subject=f"fcnet_activation of {subject}"),
        activation_of(head, subject=f"head_fcnet_activation of {subject}"),
    )


def activation_of(value: Any, *, subject: str) -> str:
    """The name in rlpipe of an activation as RLlib names it.

    Raises:
        ForeignFormatError: It is none of torch.nn's without arguments and parameters.
    """
    name = value.name if isinstance(value, Name) else "none" if value is None else value
    if isinstance(name, str) and name in _BY_TORCH_NAME:
        return _BY_TORCH_NAME[name]
    if isinstance(name, str) and name.lower() in _BY_RLLIB_NAME:
        return _BY_RLLIB_NAME[name.lower()]
    raise ForeignFormatError(
        f"{subject} cannot be imported",
        expected=f"one of {', '.join(sorted(_BY_RLLIB_NAME))}, or of torch.nn: {', '.join(sorted(_BY_TORCH_NAME))}",
        found=repr(name)[:80],
        fix="build an RLModule with the same network and load the weights into it",
    )


def place_of(activation: str) -> Any:
    """Number of a layer -> its place in RLlib's nn.Sequential, where a linear activation takes none."""
    step = 1 if activation == LINEAR else 2
    return lambda index: str(step * index)
