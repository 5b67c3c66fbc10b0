"""The settings of a module that its weights do not show: activations, and what kind of network it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.acting import outputs_of
from rlpipe.importers.restricted.values import Name
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.snapshot.spaces import Box, Space

_BY_TORCH_NAME: Mapping[str, str] = MappingProxyType({name: key for key, name in ACTIVATIONS.items()})
_LINEAR = "identity"
_BY_RLLIB_NAME: Mapping[str, str] = MappingProxyType(
    {"linear": _LINEAR, "none": _LINEAR, "swish": "silu", "silu": "silu", "relu": "relu", "tanh": "tanh", "elu": "elu"}
)
"""Names that get_activation_fn() in ray/rllib/models/utils.py knows beside those of torch.nn, in small letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the weights do not say about the networks.

    Attributes:
        features: Numbers in a prepared observation.
        outputs: Numbers that decide: logits, Q values, or elements of the action.
        continuous: Whether actions are a Box.
        activation: Name of the activation in encoders.
        head_activation: Name of the activation between the layers of heads.
        atoms: Numbers that a Q value is made of; 1 for a plain one.
        double: Whether DQN's loss takes the next action from the online network.
    """

    features: int
    outputs: int
    continuous: bool
    activation: str
    head_activation: str
    atoms: int = 1
    double: bool = True


def shape_of(config: Mapping[str, Any], *, features: int, space: Space, subject: str) -> Shape:
    """What the weights of a module do not say.

    Args:
        config: RLlib's settings of the module.
        features: Numbers in a prepared observation.
        space: The action space.
        subject: How errors name the module.

    Raises:
        ForeignFormatError: An activation that cannot be imported.
    """
    activation, head_activation = activations_of(config, subject=subject)
    atoms = config.get("num_atoms")
    return Shape(
        features=features,
        outputs=outputs_of(space),
        continuous=isinstance(space, Box),
        activation=activation,
        head_activation=head_activation,
        atoms=int(atoms) if isinstance(atoms, (int, np.integer)) else 1,
        double=config.get("double_q", True) is True,
    )


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
    step = 1 if activation == _LINEAR else 2
    return lambda index: str(step * index)
