"""The networks of old-stack policies: TorchFC of ray/rllib/models/torch/fcnet.py, or a module of the new stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.bodies import Body
from rlpipe.importers.libraries.rllib.networks import Network, actor_critic, policy_head
from rlpipe.importers.libraries.rllib.settings import Shape, activation_of, shape_of
from rlpipe.importers.libraries.rllib.weights import Stack, Tensors, as_linear
from rlpipe.snapshot.spaces import Space


def network_of(tensors: Tensors, model: Mapping[str, Any], *, features: int, space: Space) -> Network:
    """What a policy computes with: TorchFC, or from ray 2.5 on, where that was asked for, a module of the new stack.

    Args:
        tensors: The policy's weights.
        model: RLlib's settings of its networks.
        features: Numbers in a prepared observation.
        space: The action space.

    Raises:
        ForeignFormatError: It is something else, or not whole.
    """
    shape = shape_of(model, features=features, space=space, subject=tensors.subject)
    if tensors.has("pi.net"):
        return actor_critic(tensors, shape)
    # Without layers of its own it has those that come behind.
    name = "fcnet_activation" if model.get("fcnet_hiddens") else "post_fcnet_activation"
    activation = activation_of(model.get(name, "tanh"), subject=f"the activation of {tensors.subject}")
    return _fully_connected(tensors, replace(shape, activation=activation))


def _fully_connected(tensors: Tensors, shape: Shape) -> Network:
    """Hidden layers, logits behind them, and a value function on them or on layers of its own."""
    if not tensors.has("_logits._model.0") or not tensors.has("_hidden_layers.0"):
        raise ForeignFormatError(
            f"{tensors.subject} is no policy of the old stack that can be imported",
            expected="a fully connected policy with a value function, as PPO, A2C and IMPALA have it",
            found="weights of other networks",
            fix="train with the new API stack, or build an RLModule and load the weights into it",
        )
    body, nothing = _body(tensors, "_hidden_layers", shape), Body(layers=Stack(()), activation=shape.activation)
    is_shared = not tensors.has("_value_branch_separate")
    shared, actor = (body, nothing) if is_shared else (None, body)
    critic = nothing if is_shared else _body(tensors, "_value_branch_separate", shape)
    (last,) = tensors.stack("_logits", inputs=body.width, place=lambda _: "_model.0").layers
    value_inputs = (body if is_shared else critic).width
    (value,) = tensors.stack("_value_branch", inputs=value_inputs, place=lambda _: "_model.0").layers
    pi, log_std = policy_head(tensors, last, shape, "_append_free_log_std.log_std")
    return Network(
        module="rlpipe.modules.torch.ppo.PPOModule",
        model_config={
            "shared": shared and shared.config(),
            "actor": actor.config(),
            "critic": critic.config(),
            "log_std": log_std,
            "squash": False,
        },
        entries={
            **(shared.entries("encoder/encoder") if shared else {}),
            **actor.entries("encoder/actor_encoder"),
            **critic.entries("encoder/critic_encoder"),
            **pi,
            **as_linear(value, "vf"),
        },
        training=("vf/", "encoder/critic_encoder/"),
        output="mean" if shape.continuous else "logits",
    )


def _body(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    layers = tensors.stack(prefix, inputs=shape.features, place=lambda index: f"{index}._model.0")
    return Body(layers=layers, activation=shape.activation)
