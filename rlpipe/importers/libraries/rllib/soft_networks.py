"""RLlib's SAC and its relatives CQL, IQL and TQC as the state of rlpipe's SAC.

Sources: ray/rllib/algorithms/sac/sac_catalog.py, sac/torch/default_sac_torch_rl_module.py,
iql/default_iql_rl_module.py, tqc/default_tqc_rl_module.py; TorchMultiStreamEncoder in
ray/rllib/core/models/torch/encoder.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rlpipe.importers.libraries.rllib.bodies import Body, Dense, read_body
from rlpipe.importers.libraries.rllib.networks import BOUND, Network, head, policy_head, require_outputs
from rlpipe.importers.libraries.rllib.settings import Shape, place_of
from rlpipe.importers.libraries.rllib.weights import CLIP_BUFFER, Layer, Stack, Tensors, as_linear
from rlpipe.importers.untaken import Entries

_NO_CRITIC = "only training needs it, and rlpipe's module of this kind has another form of it"
_NO_TARGET = "only training needs it, and the targets that belong to it are not here"
_CRITICS = ("qf", "qf_twin")
_TARGETS = ("target_", "_target_")
"""How the names of targets begin, now and in old versions."""

_OTHERS = ("vf", "vf_encoder", "qf_encoders", "qf_heads", "target_qf_encoders", "target_qf_heads")
"""What IQL and TQC have: a value function, and critics that put out quantiles."""


def soft_actor_critic(tensors: Tensors, shape: Shape) -> Network:
    """SAC: an actor, and a critic or two with their targets where the module was one that learns."""
    tensors.skip_ending_in(CLIP_BUFFER, BOUND)
    body = read_body(tensors, "pi_encoder", shape)
    if body.kind:
        raise tensors.not_supported("a recurrent SAC")
    hidden, last = head(tensors, "pi", body, shape)
    pi, log_std = policy_head(tensors, last, shape)
    for name in _OTHERS:
        tensors.skip(name, _NO_CRITIC)
    actor = soft_actor(body.followed_by(hidden), pi, log_std, shape)
    critics = [name for name in _CRITICS if tensors.has(f"{name}_encoder")]
    prefix = next((one for one in _TARGETS if tensors.has(f"{one}{_CRITICS[0]}_encoder")), None)
    if prefix is None:
        for name in critics:
            tensors.skip(name, _NO_TARGET)
            tensors.skip(f"{name}_encoder", _NO_TARGET)
        return actor
    entries, config = dict(actor.entries), dict[str, Any]()
    for index, name in enumerate(critics):
        for beginning, key in (("", "qf"), (prefix, "target_qf")):
            config, found = _critic(tensors, f"{beginning}{name}", f"{key}/{index}", shape)
            entries |= found
    model_config = {**actor.model_config, "critic": config, "n_critics": len(critics)}
    return replace(actor, model_config=model_config, entries=entries, inference_only=False)


def soft_actor(body: Body, pi: Entries, log_std: str, shape: Shape) -> Network:
    """An actor alone, as rlpipe's SAC, whose log standard deviation is always a layer."""
    heads = dict(pi)
    if shape.continuous and log_std == "free":
        heads |= as_linear((np.zeros_like(heads["pi/mean/weight"]), heads.pop("pi/log_std")), "pi/log_std")
    return Network(
        module="rlpipe.modules.torch.sac.SACModule",
        model_config={
            "actor": body.config(),
            "critic": body.config(),
            "n_critics": 2,
            "log_std": "state",
            "mean_clip": None,
            "learn_alpha": False,
        },
        entries=body.entries("pi_encoder") | heads,
        training=("qf/", "target_qf/"),
        output="squashed" if shape.continuous else "logits",
        inference_only=True,
    )


def _critic(tensors: Tensors, prefix: str, key: str, shape: Shape) -> tuple[dict[str, Any], Entries]:
    """One critic: over choices an encoder of observations, over real numbers one of both, which once were one row."""
    if not shape.continuous:
        body = read_body(tensors, f"{prefix}_encoder", shape)
        hidden, last = head(tensors, prefix, body, shape)
        require_outputs(tensors, last, prefix, shape.outputs)
        return _plain(body.followed_by(hidden), last, key)
    if tensors.has(f"{prefix}_encoder.base_encoders"):
        return _fused(tensors, prefix, key, shape)
    body = read_body(tensors, f"{prefix}_encoder", replace(shape, features=shape.features + shape.outputs))
    hidden, last = head(tensors, prefix, body, shape)
    require_outputs(tensors, last, prefix, 1)
    return _plain(body.followed_by(hidden), last, key)


def _plain(body: Body, last: Layer, key: str) -> tuple[dict[str, Any], Entries]:
    return body.config(), body.entries(f"{key}/encoder") | as_linear(last, f"{key}/q")


def _fused(tensors: Tensors, prefix: str, key: str, shape: Shape) -> tuple[dict[str, Any], Entries]:
    encoders = f"{prefix}_encoder.base_encoders"
    observation = read_body(tensors, f"{encoders}.obs", shape)
    place = place_of(shape.activation)
    actions = Dense(tensors.stack(f"{encoders}.actions.net.mlp", inputs=shape.outputs, place=place), shape.activation)
    fusion = Dense(_fusion(tensors, f"{prefix}_encoder", actions, observation), shape.fusion_activation)
    inputs = fusion.stack.widths[-1]
    *hidden, last = tensors.stack(f"{prefix}.net.mlp", inputs=inputs, place=place_of(shape.head_activation)).layers
    require_outputs(tensors, last, prefix, 1)
    after = Dense(Stack(tuple(hidden)), shape.head_activation)
    config = {
        "type": "fused",
        "observation": observation.config(),
        "actions": actions.config(),
        "fusion": fusion.config(),
        "after": after.config() if hidden else None,
    }
    entries = observation.entries(f"{key}/encoder/observation") | actions.entries(f"{key}/encoder/actions")
    for index, layer in enumerate(fusion.stack.layers):
        entries |= as_linear(layer, f"{key}/encoder/layers/{index}")
    return config, entries | after.entries(f"{key}/encoder/after") | as_linear(last, f"{key}/q")


def _fusion(tensors: Tensors, prefix: str, actions: Dense, observation: Body) -> Stack:
    """The layers that see both; each behind the first sees again what the first saw."""
    both = actions.stack.widths[-1] + observation.width
    names: list[str] = []
    while tensors.has(f"{prefix}.fusion_layers.{len(names)}"):
        names.append(f"{prefix}.fusion_layers.{len(names)}")
    layers: list[Layer] = []
    for name in (*names, f"{prefix}.output_layer"):
        before = len(layers[-1][1]) if layers else 0
        weight, bias = tensors.linear(name, inputs=before + both)
        columns = np.arange(before + both)
        columns[-observation.width :] = columns[-observation.width :][observation.order]
        layers.append((np.ascontiguousarray(weight[:, columns]), bias))
    return Stack(tuple(layers))
