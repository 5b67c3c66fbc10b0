"""RLlib's DQN as the state of rlpipe's.

Sources: ray/rllib/algorithms/dqn/torch/default_dqn_torch_rl_module.py; up to ray 2.40 dqn_rainbow_torch_rl_module.py,
dqn_rainbow_torch_noisy_net.py and dqn_rainbow_catalog.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlpipe.importers.libraries.rllib.bodies import Body, Dense, dense_body, read_body
from rlpipe.importers.libraries.rllib.images import Images
from rlpipe.importers.libraries.rllib.networks import BOUND, Network, head, require_outputs
from rlpipe.importers.libraries.rllib.settings import Shape
from rlpipe.importers.libraries.rllib.weights import CLIP_BUFFER, Layer, Stack, Tensors, as_linear
from rlpipe.importers.untaken import Entries
from rlpipe.snapshot.state import Array

_NOISE = "noise of layers, which RLlib leaves out where it does not explore"
_NO_MATTER = "RLlib adds one value to all atoms of a distribution, which leaves it as it is"


def q_network(tensors: Tensors, shape: Shape) -> Network:
    """DQN since ray 2.41: an encoder, and a head of Q values or of advantages with one of values beside it."""
    return _by_value(tensors, shape, read_body, _as_it_is)


def rainbow(tensors: Tensors, shape: Shape) -> Network:
    """DQN before that: layers may be noisy, and atoms of advantages are centred over the actions."""
    is_centred = tensors.has("vf") and shape.atoms is not None
    read = _noisy_body if tensors.has_ending("weight_sigma") else read_body
    tensors.take_means(_NOISE)
    return _by_value(tensors, shape, read, (lambda layer: _centred(layer, shape.outputs)) if is_centred else _as_it_is)


def _as_it_is(layer: Layer) -> Layer:
    return layer


def _noisy_body(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    """An encoder whose last layer has the activation of heads, as TorchNoisyMLPEncoder has it."""
    body = read_body(tensors, prefix, shape)
    (front,) = body.front
    if body.kind or isinstance(front, Images):
        return body
    *first, last = front.stack.layers
    start = dense_body(Stack(tuple(first)), front.activation, inputs=body.inputs)
    return start.followed_by(Dense(Stack((last,)), shape.head_activation))


def _by_value(
    tensors: Tensors,
    shape: Shape,
    read: Callable[[Tensors, str, Shape], Body],
    finish: Callable[[Layer], Layer],
) -> Network:
    """A Q network with its target.

    Args:
        tensors: The module's weights.
        shape: What they do not say.
        read: Takes an encoder.
        finish: The last layer of a head as it is there -> as it is meant.
    """
    tensors.skip_ending_in(CLIP_BUFFER, BOUND)
    if shape.atoms is not None:
        for name in ("vf", "_target_vf"):
            tensors.skip(name, _NO_MATTER)
    is_dueling = tensors.has("vf")
    outputs = {"af": shape.outputs * (shape.atoms.count if shape.atoms else 1), **({"vf": 1} if is_dueling else {})}
    body = read(tensors, "encoder", shape)
    entries, hidden = body.entries("encoder"), Dense(Stack(()), shape.head_activation)
    has_targets = tensors.has("_target_encoder")
    bodies = {"": body}
    if has_targets:
        bodies["target_"] = read(tensors, "_target_encoder", shape)
        entries |= bodies["target_"].entries("target_encoder")
    for key, own in bodies.items():
        for name, count in outputs.items():
            hidden, last = head(tensors, f"_{key}{name}" if key else name, own, shape)
            require_outputs(tensors, last, name, count)
            entries |= value_head(hidden, finish(last), f"{key}{name if is_dueling else 'q'}")
    return deciding(body, hidden, entries, shape, is_dueling=is_dueling, has_targets=has_targets)


def _centred(layer: Layer, actions: int) -> Layer:
    """A layer whose outputs (actions, atoms) are less their mean over the actions."""
    weight, bias = (part.astype(np.float64).reshape(actions, -1, *part.shape[1:]) for part in layer)
    return _less_mean(weight, layer[0].shape), _less_mean(bias, layer[1].shape)


def _less_mean(parts: Array, shape: tuple[int, ...]) -> Array:
    return (parts - parts.mean(axis=0, keepdims=True)).astype(np.float32).reshape(shape)


def deciding(
    body: Body, hidden: Dense, entries: Entries, shape: Shape, *, is_dueling: bool, has_targets: bool
) -> Network:
    """A Q network with these layers in its heads, as rlpipe's DQN."""
    has_own = bool(hidden.stack.layers) and hidden.activation != body.config().get("activation")
    return Network(
        module="rlpipe.modules.torch.dqn.DQNModule",
        model_config={
            "encoder": body.config(),
            "head_hidden": list(hidden.stack.widths),
            "dueling": is_dueling,
            "double": shape.double,
            **({"head_activation": hidden.activation} if has_own else {}),
            **({"atoms": shape.atoms.config()} if shape.atoms is not None else {}),
        },
        entries=entries,
        training=("target_encoder/", "target_q/", "target_af/", "target_vf/"),
        output="q",
        inference_only=not has_targets,
        memory=body.memory("encoder"),
    )


def value_head(hidden: Dense, last: Layer, key: str) -> Entries:
    """A head of values: one layer, or with hidden ones before it."""
    layers = hidden.stack.layers
    return Stack((*layers, last)).entries(key) if layers else as_linear(last, key)
