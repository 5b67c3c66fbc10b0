"""RLlib's default networks as the state of rlpipe's module families.

Sources: ray/rllib/core/models (catalog.py, torch/encoder.py, torch/heads.py), ray/rllib/algorithms/ppo/ppo_catalog.py,
dqn/torch/default_dqn_torch_rl_module.py, sac/torch/default_sac_torch_rl_module.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpipe.importers.libraries.rllib.bodies import Body, read_body
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
        memory: What it remembers, as the spec of a module says it.
    """

    module: str
    model_config: Mapping[str, Any]
    entries: Entries
    training: tuple[str, ...] = ()
    output: OutputKind
    inference_only: bool = False
    memory: Mapping[str, Any] = field(default_factory=dict)


def actor_critic(tensors: Tensors, shape: Shape) -> Network:
    """PPO and its relatives: encoders of actor and critic, shared or not, with a head each."""
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    is_shared = tensors.has("encoder.encoder")
    body = read_body(tensors, "encoder.encoder" if is_shared else "encoder.actor_encoder", shape)
    hidden, last = _head(tensors, "pi", body.width, shape)
    joined = None if is_shared else body.followed_by(hidden, shape.head_activation)
    shared = body if joined is None else None
    actor = joined or Body(layers=hidden, activation=shape.head_activation)
    pi, log_std = policy_head(tensors, last, shape)
    critic, value = _critic(tensors, shape, body, is_shared=is_shared, is_kept=is_shared or joined is not None)
    return Network(
        module="rlpipe.modules.torch.ppo.PPOModule",
        model_config={
            "shared": shared and shared.config(),
            "actor": actor.config(),
            "critic": (critic or actor).config(),
            "log_std": log_std,
            "squash": False,
        },
        entries={
            **(shared.entries("encoder/encoder") if shared else {}),
            **actor.entries("encoder/actor_encoder"),
            **(critic.entries("encoder/critic_encoder") if critic else {}),
            **pi,
            **value,
        },
        training=("vf/", "encoder/critic_encoder/"),
        output="mean" if shape.continuous else "logits",
        inference_only=critic is None,
        memory={**(shared.memory("shared") if shared else {}), **actor.memory("actor")},
    )


def q_network(tensors: Tensors, shape: Shape) -> Network:
    """DQN: an encoder, a head of Q values or of advantages with one of values beside it, and their targets."""
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    if shape.atoms > 1:
        raise tensors.not_supported(f"a distributional DQN with num_atoms={shape.atoms}")
    encoder = read_body(tensors, "encoder", shape)
    is_dueling = tensors.has("vf")
    names = {"af": "af", "vf": "vf"} if is_dueling else {"af": "q"}
    outputs = {"af": shape.outputs, "vf": 1}
    entries = encoder.entries("encoder")
    head_hidden: tuple[int, ...] = ()
    for name, key in names.items():
        hidden, last = _head(tensors, name, encoder.width, shape)
        _require_outputs(tensors, last, name, outputs[name])
        head_hidden = hidden.widths
        entries |= _value_head(hidden, last, key)
    has_targets = tensors.has("_target_encoder")
    if has_targets:
        entries |= read_body(tensors, "_target_encoder", shape).entries("target_encoder")
        for name, key in names.items():
            entries |= _value_head(*_head(tensors, f"_target_{name}", encoder.width, shape), f"target_{key}")
    config = {"encoder": encoder.config(), "dueling": is_dueling, "double": shape.double}
    if head_hidden and shape.head_activation != shape.activation:
        config["head_activation"] = shape.head_activation
    return Network(
        module="rlpipe.modules.torch.dqn.DQNModule",
        model_config={**config, "head_hidden": list(head_hidden)},
        entries=entries,
        training=("target_encoder/", *(f"target_{key}/" for key in names.values())),
        output="q",
        inference_only=not has_targets,
        memory=encoder.memory("encoder"),
    )


def soft_actor_critic(tensors: Tensors, shape: Shape) -> Network:
    """SAC: the actor alone. RLlib's critics encode observation and action apart and then fuse them."""
    tensors.skip_ending_in(CLIP_BUFFER, _BOUND)
    if not shape.continuous:
        raise tensors.not_supported("SAC over discrete actions")
    body = read_body(tensors, "pi_encoder", shape)
    hidden, last = _head(tensors, "pi", body.width, shape)
    actor = body.followed_by(hidden, shape.head_activation)
    if actor is None or actor.kind:
        raise tensors.not_supported(f"SAC whose {_ACTIVATIONS_DIFFER}" if actor is None else "a recurrent SAC")
    for prefix in ("qf", "qf_twin", "qf_encoder", "qf_twin_encoder"):
        for name in (prefix, f"target_{prefix}", f"_target_{prefix}"):
            tensors.skip(name, _NO_CRITIC)
    pi, _ = policy_head(tensors, last, shape)
    return Network(
        module="rlpipe.modules.torch.sac.SACModule",
        model_config={
            "actor": actor.config(),
            "critic": body.config(),
            "n_critics": 2,
            "log_std": "state",
            "mean_clip": None,
            "learn_alpha": True,
        },
        entries=actor.entries("pi_encoder") | pi,
        output="squashed",
        inference_only=True,
    )


def _head(tensors: Tensors, prefix: str, inputs: int, shape: Shape) -> tuple[Stack, Layer]:
    """The hidden layers of a head, and its last one."""
    place = place_of(shape.head_activation)
    *hidden, last = tensors.stack(f"{prefix}.net.mlp", inputs=inputs, place=place).layers
    return Stack(tuple(hidden)), last


def policy_head(tensors: Tensors, last: Layer, shape: Shape, free: str = "pi.log_std") -> tuple[Entries, str]:
    """The last layer of a policy head as rlpipe's head, and where its log standard deviation comes from.

    Args:
        tensors: What is left of the module.
        last: The layer.
        shape: For the action space.
        free: Name of a log standard deviation that is a parameter.

    Raises:
        ForeignFormatError: It does not fit the action space.
    """
    if not shape.continuous:
        _require_outputs(tensors, last, "pi", shape.outputs)
        return as_linear(last, "pi/logits"), "free"
    n = shape.outputs
    if tensors.has(free):
        _require_outputs(tensors, last, "pi", n)
        return as_linear(last, "pi/mean") | {"pi/log_std": tensors.parameter(free, shape=(n,))}, "free"
    _require_outputs(tensors, last, "pi", 2 * n)
    weight, bias = last
    mean, log_std = (weight[:n], bias[:n]), (weight[n:], bias[n:])
    return as_linear(mean, "pi/mean") | as_linear(log_std, "pi/log_std"), "state"


def _critic(
    tensors: Tensors, shape: Shape, body: Body, *, is_shared: bool, is_kept: bool
) -> tuple[Body | None, Entries]:
    """The critic's own layers, and the entries of its head; None where there is none of rlpipe's form."""
    if not is_kept or not tensors.has("vf") or not (is_shared or tensors.has("encoder.critic_encoder")):
        for name in ("vf", "encoder.critic_encoder"):
            tensors.skip(name, _NO_CRITIC)
        return None, {}
    own = body if is_shared else read_body(tensors, "encoder.critic_encoder", shape)
    hidden, last = _head(tensors, "vf", own.width, shape)
    _require_outputs(tensors, last, "vf", 1)
    alone = Body(layers=hidden, activation=shape.head_activation)
    return (alone if is_shared else own.followed_by(hidden, shape.head_activation)), as_linear(last, "vf")


def _value_head(hidden: Stack, last: Layer, key: str) -> Entries:
    return Stack((*hidden.layers, last)).entries(key) if hidden.layers else as_linear(last, key)


def _require_outputs(tensors: Tensors, layer: Layer, name: str, outputs: int) -> None:
    if len(layer[1]) != outputs:
        raise tensors.misfit(name, f"{outputs} outputs, as the action space asks for", f"{len(layer[1])}")


def broken_keys(entries: Entries) -> tuple[str, ...]:
    """Keys of arrays that are not finite."""
    return tuple(key for key, array in entries.items() if not np.all(np.isfinite(array)))
