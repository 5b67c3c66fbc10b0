"""The networks of Stable-Baselines3 policies as the state of rlpipe's module families.

Each function takes its tensors out of `Weights` and says which module they make. Sources: stable_baselines3/common/
policies.py (ActorCriticPolicy, ContinuousCritic), dqn/policies.py, sac/policies.py, common/torch_layers.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.stable_baselines3.weights import Weights, Widths, require_floats
from rlpipe.importers.untaken import Entries
from rlpipe.policies.default_stages import OutputKind
from rlpipe.snapshot.state import Array

LOG_ALPHA = "log_ent_coef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the weights do not say about the networks.

    Attributes:
        features: Numbers in a prepared observation.
        outputs: Numbers that decide: logits, Q values, or elements of the action.
        continuous: Whether actions are a Box.
        activation: Name of the activation between the layers.
        squash_output: Whether an on-policy actor with gSDE ends in tanh.
        clip_mean: Bound on the mean of a SAC actor with gSDE.
    """

    features: int
    outputs: int
    continuous: bool
    activation: str
    squash_output: bool
    clip_mean: float

    def mlp(self, widths: Widths) -> dict[str, Any]:
        """The config of an encoder with layers of these widths."""
        return {"type": "mlp", "hidden": list(widths), "activation": self.activation}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Network:
    """A module of rlpipe with the weights for it.

    Attributes:
        module: Dotted path of the module class.
        model_config: Its architecture.
        entries: Keys of its state -> arrays.
        training: Keys, or beginnings of keys, that only training needs.
        output: What the module puts out.
    """

    module: str
    model_config: Mapping[str, Any]
    entries: Entries
    training: tuple[str, ...]
    output: OutputKind


def actor_critic(weights: Weights, shape: Shape, variables: Mapping[str, Array]) -> Network:
    """PPO, A2C, TRPO and MaskablePPO: a policy net and a value net, in files before 1.8 on shared layers."""
    del variables
    shared, entries = weights.hidden("mlp_extractor.shared_net", "encoder/encoder", inputs=shape.features)
    inputs = _last(shared, shape.features)
    actor, actor_entries = weights.hidden("mlp_extractor.policy_net", "encoder/actor_encoder", inputs=inputs)
    critic, critic_entries = weights.hidden("mlp_extractor.value_net", "encoder/critic_encoder", inputs=inputs)
    head = "pi/mean" if shape.continuous else "pi/logits"
    pi = weights.linear("action_net", head, inputs=_last(actor, inputs), outputs=shape.outputs)
    vf = weights.linear("value_net", "vf", inputs=_last(critic, inputs), outputs=1)
    log_std, log_std_entries = _log_std(weights, "log_std", pi[f"{head}/weight"]) if shape.continuous else ("free", {})
    squash = shape.squash_output and log_std == "gsde"
    return Network(
        module="rlpipe.modules.torch.ppo.PPOModule",
        model_config={
            "shared": shape.mlp(shared) if shared else None,
            "actor": shape.mlp(actor),
            "critic": shape.mlp(critic),
            "log_std": log_std,
            "squash": squash,
        },
        entries=entries | actor_entries | critic_entries | pi | log_std_entries | vf,
        training=("vf/", "encoder/critic_encoder/"),
        output=("squashed" if squash else "mean") if shape.continuous else "logits",
    )


def q_network(weights: Weights, shape: Shape, variables: Mapping[str, Array]) -> Network:
    """DQN: a Q network and its target."""
    del variables
    sizes = {"inputs": shape.features, "outputs": shape.outputs}
    hidden, entries = weights.network("q_net.q_net", "encoder", "q", **sizes)
    _, target = weights.network("q_net_target.q_net", "target_encoder", "target_q", **sizes)
    return Network(
        module="rlpipe.modules.torch.dqn.DQNModule",
        model_config={"encoder": shape.mlp(hidden), "dueling": False, "double": False, "head_hidden": []},
        entries=entries | target,
        training=("target_encoder/", "target_q/"),
        output="q",
    )


def soft_actor_critic(weights: Weights, shape: Shape, variables: Mapping[str, Array]) -> Network:
    """SAC: a squashed actor, Q networks with targets, and the entropy coefficient."""
    actor, entries = weights.hidden("actor.latent_pi", "pi_encoder", inputs=shape.features)
    clipped = weights.has("actor.mu.0")  # gSDE puts a Hardtanh, which has no weights, behind the mean
    sizes = {"inputs": _last(actor, shape.features), "outputs": shape.outputs}
    mean = weights.linear("actor.mu.0" if clipped else "actor.mu", "pi/mean", **sizes)
    log_std, log_std_entries = "state", {}
    if weights.has("actor.log_std.weight"):
        log_std_entries = weights.linear("actor.log_std", "pi/log_std", **sizes)
    else:
        log_std, log_std_entries = _log_std(weights, "actor.log_std", mean["pi/mean/weight"])
    critic, critics, critic_entries = _critics(weights, shape)
    log_alpha = _log_alpha(variables)
    return Network(
        module="rlpipe.modules.torch.sac.SACModule",
        model_config={
            "actor": shape.mlp(actor),
            "critic": shape.mlp(critic),
            "n_critics": critics,
            "log_std": log_std,
            "mean_clip": shape.clip_mean if clipped else None,
            "learn_alpha": bool(log_alpha),
        },
        entries=entries | mean | log_std_entries | critic_entries | log_alpha,
        training=("qf/", "target_qf/", "log_alpha"),
        output="squashed",
    )


def _critics(weights: Weights, shape: Shape) -> tuple[Widths, int, Entries]:
    """Widths of the Q networks, how many there are, and the weights of them and their targets."""
    entries: Entries = {}
    widths: Widths = ()
    count = 0
    while weights.has(f"critic.qf{count}"):
        for source, key in ((f"critic.qf{count}", f"qf/{count}"), (f"critic_target.qf{count}", f"target_qf/{count}")):
            inputs = shape.features + shape.outputs
            widths, found = weights.network(source, f"{key}/encoder", f"{key}/q", inputs=inputs, outputs=1)
            entries |= found
        count += 1
    return widths, count, entries


def _log_std(weights: Weights, name: str, mean: Array) -> tuple[str, Entries]:
    """A log standard deviation that is a parameter: one for each action, or with gSDE a matrix (latent, actions)."""
    outputs, latent = mean.shape
    gsde = weights.dimensions(name) == 2
    log_std = weights.tensor(name, dimensions=2 if gsde else 1)
    allowed = ((latent, outputs), (latent, 1)) if gsde else ((outputs,),)
    if log_std.shape not in allowed:
        raise ForeignFormatError(
            f"{name} of {weights.subject} does not fit the action",
            expected=" or ".join(map(str, allowed)),
            found=str(log_std.shape),
            fix="the file is not whole, or its spaces were changed after training",
        )
    # full_std=False keeps one column for all actions
    spread = np.array(np.broadcast_to(log_std, allowed[0]))
    return ("gsde" if gsde else "free"), {"pi/log_std": spread}


def _log_alpha(variables: Mapping[str, Array]) -> Entries:
    """The logarithm of the entropy coefficient, where it was learned; a fixed one is a setting of training."""
    found = variables.get(LOG_ALPHA)
    if found is None or found.size != 1:
        return {}
    return {"log_alpha": np.asarray(require_floats(found, LOG_ALPHA), np.float32).reshape(1)}


def _last(widths: Widths, inputs: int) -> int:
    return widths[-1] if widths else inputs
