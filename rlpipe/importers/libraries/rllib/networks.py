"""RLlib's default networks as the state of rlpipe's module families.

Sources: ray/rllib/core/models (catalog.py, torch/encoder.py, torch/heads.py), ray/rllib/algorithms/ppo/ppo_catalog.py,
dqn/torch/default_dqn_torch_rl_module.py, sac/torch/default_sac_torch_rl_module.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.settings import Shape, place_of
from rlpipe.importers.libraries.rllib.weights import CLIP_BUFFER, Entries, Layer, Stack, Tensors, as_linear
from rlpipe.policies.default_stages import OutputKind

_BOUND = "a bound on the spread of actions in training; it does not change what the policy does"
_NO_CRITIC = "only training needs it, and rlpipe's module of this kind has another form of it"
_ACTIVATIONS_DIFFER = "encoder and policy head have different activations"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Network:
    """A module of rlpipe with the weights for it.

    Attributes:
        module: Dotted path of the module class.
        model_config: Its architecture.
        entries: Keys of its state -> arrays.
        training: Beginnings of keys that only training needs.
        output: What the module puts out.
        inference_only: The module has no such keys, and is built without them.
    """

    module: str
    model_config: Mapping[str, Any]
    entries: Entries
    training: tuple[str, ...] = ()
    output: OutputKind
    inference_only: bool = False


def actor_critic(tensors: Tensors, shape: Shape) -> Network:
    """PPO and its relatives: encoders of actor and critic, shared or not, with a head each."""
    _refuse_recurrent(tensors)
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    is_shared = tensors.has("encoder.encoder")
    body = _encoder(tensors, "encoder.encoder" if is_shared else "encoder.actor_encoder", shape)
    *hidden, last = _head(tensors, "pi", body.widths[-1], shape).layers
    actor = Stack(tuple(hidden))
    is_split = is_shared or (bool(hidden) and shape.activation != shape.head_activation)
    pi, log_std = _policy_head(tensors, last, shape)
    critic, value = _critic(tensors, shape, body, is_shared=is_shared, is_kept=is_shared or not is_split)
    entries = {**body.entries("encoder/encoder" if is_split else "encoder/actor_encoder"), **pi}
    if is_split:
        entries |= actor.entries("encoder/actor_encoder")
    else:
        entries |= actor.entries("encoder/actor_encoder", start=len(body.layers))
    own = Stack((*(() if is_split else body.layers), *actor.layers))
    act = shape.head_activation if is_split else shape.activation
    return Network(
        module="rlpipe.modules.torch.ppo.PPOModule",
        model_config={
            "shared": _mlp(body, shape.activation) if is_split else None,
            "actor": _mlp(own, act),
            "critic": _mlp(own if critic is None else critic, act),
            "log_std": log_std,
            "squash": False,
        },
        entries=entries | value,
        training=("vf/", "encoder/critic_encoder/"),
        output="mean" if shape.continuous else "logits",
        inference_only=critic is None,
    )


def q_network(tensors: Tensors, shape: Shape) -> Network:
    """DQN: an encoder, a head of Q values or of advantages with one of values beside it, and their targets."""
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    if shape.atoms > 1:
        raise _not_supported(tensors, f"a distributional DQN with num_atoms={shape.atoms}")
    encoder = _encoder(tensors, "encoder", shape)
    is_dueling = tensors.has("vf")
    names = {"af": "af", "vf": "vf"} if is_dueling else {"af": "q"}
    heads = {name: _head(tensors, name, encoder.widths[-1], shape) for name in names}
    entries = encoder.entries("encoder")
    for name, key in names.items():
        entries |= _value_head(heads[name], key)
    has_targets = tensors.has("_target_encoder")
    if has_targets:
        entries |= _encoder(tensors, "_target_encoder", shape).entries("target_encoder")
        for name, key in names.items():
            entries |= _value_head(_head(tensors, f"_target_{name}", encoder.widths[-1], shape), f"target_{key}")
    _require_outputs(tensors, heads["af"].layers[-1], "af", shape.outputs)
    head_hidden = heads["af"].widths[:-1]
    config = {"encoder": _mlp(encoder, shape.activation), "dueling": is_dueling, "double": shape.double}
    if head_hidden and shape.head_activation != shape.activation:
        config["head_activation"] = shape.head_activation
    return Network(
        module="rlpipe.modules.torch.dqn.DQNModule",
        model_config={**config, "head_hidden": list(head_hidden)},
        entries=entries,
        training=("target_encoder/", *(f"target_{key}/" for key in names.values())),
        output="q",
        inference_only=not has_targets,
    )


def soft_actor_critic(tensors: Tensors, shape: Shape) -> Network:
    """SAC: the actor alone. RLlib's critics encode observation and action apart and then fuse them."""
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    if not shape.continuous:
        raise _not_supported(tensors, "SAC over discrete actions")
    body = _encoder(tensors, "pi_encoder", shape)
    *hidden, last = _head(tensors, "pi", body.widths[-1], shape).layers
    if hidden and shape.activation != shape.head_activation:
        raise _not_supported(tensors, f"SAC whose {_ACTIVATIONS_DIFFER}")
    for prefix in ("qf", "qf_twin", "qf_encoder", "qf_twin_encoder"):
        for name in (prefix, f"target_{prefix}", f"_target_{prefix}"):
            tensors.skip(name, _NO_CRITIC)
    pi, _ = _policy_head(tensors, last, shape)
    actor = Stack((*body.layers, *hidden))
    return Network(
        module="rlpipe.modules.torch.sac.SACModule",
        model_config={
            "actor": _mlp(actor, shape.activation),
            "critic": _mlp(body, shape.activation),
            "n_critics": 2,
            "log_std": "state",
            "mean_clip": None,
            "learn_alpha": True,
        },
        entries=actor.entries("pi_encoder") | pi,
        output="squashed",
        inference_only=True,
    )


def _encoder(tensors: Tensors, prefix: str, shape: Shape) -> Stack:
    if tensors.has(f"{prefix}.net.0") or tensors.has(f"{prefix}.net.cnn"):
        raise _not_supported(tensors, "an encoder of images")
    return tensors.stack(f"{prefix}.net.mlp", inputs=shape.features, place=place_of(shape.activation))


def _head(tensors: Tensors, prefix: str, inputs: int, shape: Shape) -> Stack:
    return tensors.stack(f"{prefix}.net.mlp", inputs=inputs, place=place_of(shape.head_activation))


def _policy_head(tensors: Tensors, last: Layer, shape: Shape) -> tuple[Entries, str]:
    """The last layer of a policy head as rlpipe's head, and where its log standard deviation comes from."""
    if not shape.continuous:
        _require_outputs(tensors, last, "pi", shape.outputs)
        return as_linear(last, "pi/logits"), "free"
    n = shape.outputs
    if tensors.has("pi.log_std"):
        _require_outputs(tensors, last, "pi", n)
        return as_linear(last, "pi/mean") | {"pi/log_std": tensors.parameter("pi.log_std", shape=(n,))}, "free"
    _require_outputs(tensors, last, "pi", 2 * n)
    weight, bias = last
    mean, log_std = (weight[:n], bias[:n]), (weight[n:], bias[n:])
    return as_linear(mean, "pi/mean") | as_linear(log_std, "pi/log_std"), "state"


def _critic(
    tensors: Tensors, shape: Shape, body: Stack, *, is_shared: bool, is_kept: bool
) -> tuple[Stack | None, Entries]:
    """The critic's own layers, and the entries of it and its head; None where there is none of rlpipe's form."""
    if not is_kept or not tensors.has("vf") or not (is_shared or tensors.has("encoder.critic_encoder")):
        for name in ("vf", "encoder.critic_encoder"):
            tensors.skip(name, _NO_CRITIC)
        return None, {}
    own = Stack(()) if is_shared else _encoder(tensors, "encoder.critic_encoder", shape)
    *hidden, last = _head(tensors, "vf", (own if own.layers else body).widths[-1], shape).layers
    _require_outputs(tensors, last, "vf", 1)
    layers = Stack((*own.layers, *hidden))
    return layers, layers.entries("encoder/critic_encoder") | as_linear(last, "vf")


def _value_head(head: Stack, key: str) -> Entries:
    return as_linear(head.layers[0], key) if len(head.layers) == 1 else head.entries(key)


def _mlp(stack: Stack, activation: str) -> dict[str, Any]:
    return {"type": "mlp", "hidden": list(stack.widths), "activation": activation}


def _require_outputs(tensors: Tensors, layer: Layer, name: str, outputs: int) -> None:
    if len(layer[1]) != outputs:
        raise tensors.misfit(name, f"{outputs} outputs, as the action space asks for", f"{len(layer[1])}")


def _refuse_recurrent(tensors: Tensors) -> None:
    for kind in ("lstm", "gru"):
        if any(tensors.has(f"encoder.{name}.{kind}") for name in ("encoder", "actor_encoder")):
            raise _not_supported(tensors, f"a recurrent policy ({kind.upper()})")


def _not_supported(tensors: Tensors, what: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"{tensors.subject} holds {what}, which cannot be imported yet",
        expected="PPO with MLP encoders, DQN with plain Q values, or SAC over a Box",
        found=what,
        fix="build an RLModule with the same network and load the weights into it",
    )


def broken_keys(entries: Entries) -> tuple[str, ...]:
    """Keys of arrays that are not finite."""
    return tuple(key for key, array in entries.items() if not np.all(np.isfinite(array)))
