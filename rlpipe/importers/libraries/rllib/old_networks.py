"""The networks of old-stack policies: fully connected, of images, or with a LSTM; or a module of the new stack.

Sources: ray/rllib/models/torch (fcnet.py, visionnet.py, recurrent_net.py), ray/rllib/algorithms/dqn
(dqn_torch_model.py, dqn_torch_policy.py), ray/rllib/algorithms/sac/sac_torch_model.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.bodies import Body, Dense, dense_body, recurrent
from rlpipe.importers.libraries.rllib.constructors import plain_fields
from rlpipe.importers.libraries.rllib.images import convolutions
from rlpipe.importers.libraries.rllib.networks import (
    Network,
    acting,
    actor_critic,
    policy_head,
    require_outputs,
)
from rlpipe.importers.libraries.rllib.settings import LINEAR, Shape, activation_of, shape_of
from rlpipe.importers.libraries.rllib.soft_networks import soft_actor
from rlpipe.importers.libraries.rllib.value_networks import deciding, value_head
from rlpipe.importers.libraries.rllib.weights import Layer, Stack, Tensors, as_linear
from rlpipe.snapshot.spaces import Box, Space

_UNUSED = "the policy has such a network, and does not use it"
_NO_TARGET = "only training needs it, and the old stack does not save the targets that belong to it"
_NO_LAYERS = Dense(Stack(()), "relu")
_MOST_LAYERS = 100
_REFUSED = {
    "gtrxl": "an attention network (use_attention)",
    "cnns": "a network of observations with several parts (ComplexInputNetwork)",
    "cnn_0": "a network of observations with several parts (ComplexInputNetwork)",
    "policy_model": "a deterministic policy (DDPG or TD3)",
}


def network_of(tensors: Tensors, config: Mapping[str, Any], *, seen: Box, space: Space) -> Network:
    """What a policy computes with; from ray 2.5 on, where that was asked for, a module of the new stack.

    Args:
        tensors: The policy's weights.
        config: RLlib's settings of the policy.
        seen: Space of prepared observations.
        space: The action space.

    Raises:
        ForeignFormatError: It is something else, or not whole.
    """
    model = plain_fields(config.get("model"))
    if tensors.has("action_model"):
        model = plain_fields(config.get("policy_model_config"))
    shape = shape_of({**config, **model}, seen=seen, space=space, subject=tensors.subject)
    if tensors.has("pi.net"):
        return actor_critic(tensors, shape)
    _require_known(tensors, model)
    old = _old(shape, model, tensors.subject)
    if tensors.has("action_model"):
        return _soft(tensors, model, old)
    if tensors.has("advantage_module") or "dueling" in config:
        return _by_value(tensors, config, old)
    return _on_policy(tensors, model, old)


def _old(shape: Shape, model: Mapping[str, Any], subject: str) -> Shape:
    """As the old stack reads settings: the last filter is not padded, and all layers share an activation."""
    # Without layers of its own a network has those that come behind.
    name = "fcnet_activation" if model.get("fcnet_hiddens", True) else "post_fcnet_activation"
    activation = activation_of(model.get(name, "tanh"), subject=f"the activation of {subject}")
    last = tuple(replace(one, is_padded=False) for one in shape.filters[-1:])
    return replace(shape, activation=activation, filters=(*shape.filters[:-1], *last))


def _require_known(tensors: Tensors, model: Mapping[str, Any]) -> None:
    """Check that nothing is left that cannot be imported, by what gives it away."""
    for prefix, what in _REFUSED.items():
        if tensors.has(prefix):
            raise tensors.not_supported(what)
    if tensors.has_ending("sigma_w"):
        raise tensors.not_supported("noisy networks, which act at random even where the policy does not explore")
    for name in ("lstm_use_prev_action", "lstm_use_prev_reward"):
        if tensors.has("lstm") and model.get(name):
            raise tensors.not_supported(f"a LSTM that sees what came before ({name})")
    if model.get("custom_model"):
        raise tensors.not_supported("a custom_model")


def _on_policy(tensors: Tensors, model: Mapping[str, Any], shape: Shape) -> Network:
    """A body, logits behind it, and a value function on it or on layers of its own."""
    body = _body(tensors, "", model, shape)
    if tensors.has("lstm"):
        body = recurrent(tensors, "lstm", "lstm", body)
        tensors.skip("_value_branch_separate", _UNUSED)
    _require_head(tensors, "_logits_branch" if body.kind else "_logits")
    last = _last(tensors, "_logits_branch" if body.kind else "_logits", body)
    pi, log_std = policy_head(tensors, last, shape, "_append_free_log_std.log_std")
    nothing = dense_body(Stack(()), shape.activation, inputs=body.width)
    if not tensors.has("_value_branch_separate"):
        heads = pi | as_linear(_last(tensors, "_value_branch", body), "vf")
        return acting(body, nothing, nothing, heads, shape, log_std)
    critic, value = _own_critic(tensors, shape)
    return acting(None, body, critic, pi | as_linear(value, "vf"), shape, log_std)


def _own_critic(tensors: Tensors, shape: Shape) -> tuple[Body, Layer]:
    """A critic's own layers; that of images ends in a filter of one by one."""
    prefix = "_value_branch_separate"
    if shape.image is None:
        stack = tensors.stack(prefix, inputs=shape.features, place=lambda index: f"{index}._model.0")
        body = dense_body(stack, shape.activation, inputs=shape.features)
        return body, _last(tensors, "_value_branch", body)
    body = Body(inputs=shape.features, front=(convolutions(tensors, _names(prefix, shape), shape),))
    return body, _last(tensors, f"{prefix}.{len(shape.filters)}", body)


def _by_value(tensors: Tensors, config: Mapping[str, Any], shape: Shape) -> Network:
    """DQN: a body, and a head of advantages with one of values, or with no layers of its own one of Q values."""
    if tensors.has("lstm"):
        raise tensors.not_supported("a recurrent DQN (R2D2)")
    body = _body(tensors, "", plain_fields(config.get("model")), shape)
    for name in ("_value_branch", "_value_branch_separate"):
        tensors.skip(name, _UNUSED)
    is_dueling, atoms = config.get("dueling") is True, shape.atoms.count if shape.atoms is not None else 1
    if not tensors.has("advantage_module"):
        if is_dueling or atoms > 1:
            raise tensors.not_supported("a dueling or distributional DQN without hiddens")
        return _without_head(tensors, body, shape)
    heads = [("advantage_module", "A", "af" if is_dueling else "q", shape.outputs * atoms)]
    heads += [("value_module", "V", "vf", atoms)] if is_dueling else []
    entries, hidden = body.entries("encoder"), _NO_LAYERS
    for prefix, letter, key, outputs in heads:
        hidden, last = _stream(tensors, prefix, letter, body)
        require_outputs(tensors, last, prefix, outputs)
        entries |= value_head(hidden, last, key)
    return deciding(body, hidden, entries, shape, is_dueling=is_dueling, has_targets=False)


def _without_head(tensors: Tensors, body: Body, shape: Shape) -> Network:
    _require_head(tensors, "_logits")
    last = _last(tensors, "_logits", body)
    require_outputs(tensors, last, "_logits", shape.outputs)
    entries = body.entries("encoder") | as_linear(last, "q")
    return deciding(body, _NO_LAYERS, entries, shape, is_dueling=False, has_targets=False)


def _stream(tensors: Tensors, prefix: str, letter: str, body: Body) -> tuple[Dense, Layer]:
    """The layers of a head of DQN, whose activation is RLlib's own."""
    count = sum(tensors.has(f"{prefix}.dueling_{letter}_{index}") for index in range(_MOST_LAYERS))
    names = [f"dueling_{letter}_{index}._model.0" for index in range(count)] + [f"{letter}._model.0"]
    *hidden, last = tensors.stack(prefix, inputs=body.width, place=lambda index: names[min(index, count)]).layers
    return Dense(Stack(tuple(hidden)), "relu"), last


def _soft(tensors: Tensors, model: Mapping[str, Any], shape: Shape) -> Network:
    """SAC: the actor alone."""
    for name in ("q_net", "twin_q_net", "log_alpha", "target_entropy"):
        tensors.skip(name, _NO_TARGET)
    for name in ("_value_branch", "_value_branch_separate"):
        tensors.skip(f"action_model.{name}", _UNUSED)
    body = _body(tensors, "action_model.", model, shape)
    last = _last(tensors, "action_model._logits", body)
    pi, log_std = policy_head(tensors, last, shape, "action_model._append_free_log_std.log_std")
    return soft_actor(body, pi, log_std, shape)


def _body(tensors: Tensors, prefix: str, model: Mapping[str, Any], shape: Shape) -> Body:
    """The layers before logits, below a prefix that ends in a dot or is empty."""
    images = f"{prefix}_convs"
    if not tensors.has(images):
        layers = f"{prefix}_hidden_layers"
        place = lambda index: f"{index}._model.0"  # noqa: E731 - a name for it says no more
        found = tensors.stack(layers, inputs=shape.features, place=place) if tensors.has(layers) else Stack(())
        return dense_body(found, shape.activation, inputs=shape.features)
    body = Body(inputs=shape.features, front=(convolutions(tensors, _names(images, shape), shape),))
    return _behind(tensors, images, model, body, shape)


def _names(prefix: str, shape: Shape) -> list[str]:
    return [f"{prefix}.{index}._model.{int(one.is_padded)}" for index, one in enumerate(shape.filters)]


def _behind(tensors: Tensors, prefix: str, model: Mapping[str, Any], body: Body, shape: Shape) -> Body:
    """Linear layers behind an image's; the last has no activation, unless it takes the place of logits."""
    activation = activation_of(model.get("post_fcnet_activation", "relu"), subject="post_fcnet_activation")
    layers: list[Layer] = []
    # A nn.Flatten stands between.
    while tensors.has(name := f"{prefix}.{len(shape.filters) + 1 + len(layers)}._model.0"):
        layers.append(tensors.linear(name, inputs=len(layers[-1][1]) if layers else body.width))
    if model.get("no_final_linear") is True:
        return body.followed_by(Dense(Stack(tuple(layers)), activation))
    return body.followed_by(Dense(Stack(tuple(layers[:-1])), activation)).followed_by(
        Dense(Stack(tuple(layers[-1:])), LINEAR)
    )


def _last(tensors: Tensors, prefix: str, body: Body) -> Layer:
    """A layer without activation; over an image's features of one place RLlib has a filter of one by one."""
    places = [place for place in ("_model.0", "_model.1") if tensors.has(f"{prefix}.{place}")]
    if not places:
        raise tensors.misfit(prefix, "a layer", "nothing")
    name = f"{prefix}.{places[0]}"
    if tensors.dimensions(f"{name}.weight") != 4:
        return tensors.linear(name, inputs=body.width)
    weight, bias = tensors.convolution(name, channels=body.width)
    if weight.shape[2] != 1:
        raise tensors.misfit(name, "a filter of one by one", f"{weight.shape[2]} by {weight.shape[2]}")
    return weight[:, :, 0, 0], bias


def _require_head(tensors: Tensors, name: str) -> None:
    if not tensors.has(name):
        raise ForeignFormatError(
            f"{tensors.subject} is no policy of the old stack that can be imported",
            expected="RLlib's own networks of PPO, A2C, IMPALA, DQN or SAC: fully connected, of images, or with a LSTM",
            found="weights of other networks",
            fix="train with the new API stack, or build an RLModule and load the weights into it",
        )
