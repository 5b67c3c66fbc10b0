"""RLlib's default networks of actors and their critics as the state of rlpipe's PPO.

Sources: ray/rllib/core/models (catalog.py, torch/encoder.py, torch/heads.py), ray/rllib/algorithms/ppo/ppo_catalog.py,
bc/torch/default_bc_torch_rl_module.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpipe.importers.libraries.rllib.bodies import Body, Dense, dense_body, read_body
from rlpipe.importers.libraries.rllib.settings import Leaf, Shape, place_of
from rlpipe.importers.libraries.rllib.weights import CLIP_BUFFER, Layer, Stack, Tensors, as_linear
from rlpipe.importers.untaken import Entries
from rlpipe.policies.default_stages import OutputKind

BOUND = "a bound on the spread of actions in training; it does not change what the policy does"
_NOT_WHOLE = "only training needs it, and the critic is not whole"
_OLD = "APPO's copy of the policy as it was before its last updates; only training needs it"


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
    tensors.skip_ending_in(CLIP_BUFFER, BOUND)
    for name in ("_old_encoder", "_old_pi"):
        tensors.skip(name, _OLD)
    is_shared = tensors.has("encoder.encoder")
    body = read_body(tensors, "encoder.encoder" if is_shared else "encoder.actor_encoder", shape)
    hidden, last = head(tensors, "pi", body, shape)
    shared = body if is_shared else None
    actor = dense_body(hidden.stack, hidden.activation, inputs=body.width) if is_shared else body.followed_by(hidden)
    pi, log_std = policy_head(tensors, last, shape)
    critic, value = _critic(tensors, shape, body, is_shared=is_shared)
    return acting(shared, actor, critic, pi | value, shape, log_std)


def behaviour_cloning(tensors: Tensors, shape: Shape) -> Network:
    """BC: an actor alone."""
    tensors.skip_ending_in(CLIP_BUFFER, BOUND)
    body = read_body(tensors, "_encoder", shape)
    hidden, last = head(tensors, "_pi_head", body, shape)
    pi, log_std = policy_head(tensors, last, shape, "_pi_head.log_std")
    return acting(None, body.followed_by(hidden), None, pi, shape, log_std)


def acting(
    shared: Body | None, actor: Body, critic: Body | None, heads: Entries, shape: Shape, log_std: str
) -> Network:
    """An actor with its critic, or for None without one, as rlpipe's PPO."""
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
            **heads,
        },
        training=("vf/", "encoder/critic_encoder/"),
        output="mean" if shape.continuous else "logits",
        inference_only=critic is None,
        memory={**(shared.memory("shared") if shared else {}), **actor.memory("actor")},
    )


def head(tensors: Tensors, prefix: str, body: Body, shape: Shape) -> tuple[Dense, Layer]:
    """The hidden layers of a head behind an encoder, and its last one."""
    stack = body.layers_behind(tensors, f"{prefix}.net.mlp", place_of(shape.head_activation))
    *hidden, last = stack.layers
    return Dense(Stack(tuple(hidden)), shape.head_activation), last


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
    if shape.leaves:
        return _parts_head(tensors, last, shape.leaves), "state"
    if not shape.continuous:
        require_outputs(tensors, last, "pi", shape.outputs)
        return as_linear(last, "pi/logits"), "free"
    n = shape.outputs
    if tensors.has(free):
        require_outputs(tensors, last, "pi", n)
        return as_linear(last, "pi/mean") | {"pi/log_std": tensors.parameter(free, shape=(n,))}, "free"
    require_outputs(tensors, last, "pi", 2 * n)
    return _gaussian(last, "pi", 0, n), "state"


def _parts_head(tensors: Tensors, last: Layer, leaves: tuple[Leaf, ...]) -> Entries:
    """The rows of each leaf of an action: logits, or means and behind them log standard deviations."""
    require_outputs(tensors, last, "pi", sum(leaf.rows for leaf in leaves))
    weight, bias = last
    entries: Entries = {}
    start = 0
    for index, leaf in enumerate(leaves):
        key = f"pi/parts/{index}"
        rows = slice(start, start + leaf.rows)
        entries |= (
            _gaussian(last, key, start, leaf.outputs)
            if leaf.continuous
            else as_linear((weight[rows], bias[rows]), f"{key}/logits")
        )
        start += leaf.rows
    return entries


def _gaussian(layer: Layer, key: str, start: int, n: int) -> Entries:
    weight, bias = layer
    mean, log_std = slice(start, start + n), slice(start + n, start + 2 * n)
    return as_linear((weight[mean], bias[mean]), f"{key}/mean") | as_linear(
        (weight[log_std], bias[log_std]), f"{key}/log_std"
    )


def _critic(tensors: Tensors, shape: Shape, body: Body, *, is_shared: bool) -> tuple[Body | None, Entries]:
    """The critic's own layers, and the entries of its head; None where there is no critic."""
    if not tensors.has("vf") or not (is_shared or tensors.has("encoder.critic_encoder")):
        for name in ("vf", "encoder.critic_encoder"):
            tensors.skip(name, _NOT_WHOLE)
        return None, {}
    own = body if is_shared else read_body(tensors, "encoder.critic_encoder", shape)
    hidden, last = head(tensors, "vf", own, shape)
    require_outputs(tensors, last, "vf", 1)
    alone = dense_body(hidden.stack, hidden.activation, inputs=own.width)
    return (alone if is_shared else own.followed_by(hidden)), as_linear(last, "vf")


def require_outputs(tensors: Tensors, layer: Layer, name: str, outputs: int) -> None:
    """Check how many numbers a layer puts out.

    Raises:
        ForeignFormatError: Others than the action space asks for.
    """
    if len(layer[1]) != outputs:
        raise tensors.misfit(name, f"{outputs} outputs, as the action space asks for", f"{len(layer[1])}")


def broken_keys(entries: Entries) -> tuple[str, ...]:
    """Keys of arrays that are not finite."""
    return tuple(key for key, array in entries.items() if not np.all(np.isfinite(array)))
