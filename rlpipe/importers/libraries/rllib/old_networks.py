"""The networks of old-stack policies: TorchFC of ray/rllib/models/torch/fcnet.py, or a module of the new stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.bodies import Body, dense_body
from rlpipe.importers.libraries.rllib.networks import Network, acting, actor_critic, policy_head
from rlpipe.importers.libraries.rllib.settings import Shape, activation_of, shape_of
from rlpipe.importers.libraries.rllib.weights import Stack, Tensors, as_linear
from rlpipe.snapshot.spaces import Box, Space


def network_of(tensors: Tensors, model: Mapping[str, Any], *, seen: Box, space: Space) -> Network:
    """What a policy computes with: TorchFC, or from ray 2.5 on, where that was asked for, a module of the new stack.

    Args:
        tensors: The policy's weights.
        model: RLlib's settings of its networks.
        seen: Space of prepared observations.
        space: The action space.

    Raises:
        ForeignFormatError: It is something else, or not whole.
    """
    shape = shape_of(model, seen=seen, space=space, subject=tensors.subject)
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
    body = _body(tensors, "_hidden_layers", shape)
    is_shared = not tensors.has("_value_branch_separate")
    own = body if is_shared else _body(tensors, "_value_branch_separate", shape)
    (last,) = tensors.stack("_logits", inputs=body.width, place=lambda _: "_model.0").layers
    (value,) = tensors.stack("_value_branch", inputs=own.width, place=lambda _: "_model.0").layers
    pi, log_std = policy_head(tensors, last, shape, "_append_free_log_std.log_std")
    nothing = dense_body(Stack(()), shape.activation, inputs=body.width)
    heads = pi | as_linear(value, "vf")
    shared, actor, critic = (body, nothing, nothing) if is_shared else (None, body, own)
    return acting(shared, actor, critic, heads, shape, log_std)


def _body(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    layers = tensors.stack(prefix, inputs=shape.features, place=lambda index: f"{index}._model.0")
    return dense_body(layers, shape.activation, inputs=shape.features)
