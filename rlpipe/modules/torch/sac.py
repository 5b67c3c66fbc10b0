"""SAC's squashed Gaussian policy and its Q functions (Haarnoja et al. 2018), with targets and a learnt temperature."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, cast

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, flag, read_fields, whole
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.torch.batch import Batch, Outputs
from rlpipe.modules.torch.encoders import (
    LSTM,
    MLP,
    EncoderConfig,
    Inputs,
    RecurrentEncoder,
    input_shape,
    read_encoder,
    sees_parts,
)
from rlpipe.modules.torch.feedforward import one_shape
from rlpipe.modules.torch.heads import LogStd, SquashedGaussianHead
from rlpipe.modules.torch.passes import Sequence, Step, initial_state
from rlpipe.modules.torch.recurrent import merged
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot.spaces import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class SACConfig:
    """Architecture of SAC.

    Attributes:
        actor: Encoder of the policy.
        critic: Encoder of each Q function. A mlp takes observation and action in one row; others take the observation,
            and the action joins behind it.
        n_critics: How many Q functions.
        log_std: "state" or "gsde", see `GaussianHead`.
        mean_clip: Bound on the size of the mean before tanh, or None.
        learn_alpha: The entropy temperature is learnt, as `log_alpha`.
    """

    actor: EncoderConfig = MLP(hidden=(256, 256), activation="relu")
    critic: EncoderConfig = MLP(hidden=(256, 256), activation="relu")
    n_critics: int = 2
    log_std: str = "state"
    mean_clip: float | None = None
    learn_alpha: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("actor", "critic"):
            object.__setattr__(self, name, read_encoder(getattr(self, name), where=f"model_config.{name}"))
        if isinstance(self.critic, LSTM):
            raise SpecError(
                "model_config.critic keeps a memory",
                expected="a mlp or a cnn: the Q functions see single observations",
                found=self.critic.type,
                fix="give the memory to model_config.actor alone",
            )
        whole(self.n_critics, where="model_config.n_critics", least=1)
        choice(self.log_std, ("state", "gsde"), where="model_config.log_std")
        flag(self.learn_alpha, where="model_config.learn_alpha")
        if self.mean_clip is not None:
            object.__setattr__(self, "mean_clip", _positive(self.mean_clip))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with every field."""
        return {
            "actor": self.actor.to_json(),
            "critic": self.critic.to_json(),
            "n_critics": self.n_critics,
            "log_std": self.log_std,
            "mean_clip": self.mean_clip,
            "learn_alpha": self.learn_alpha,
        }


def _positive(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise SpecError("model_config.mean_clip is no bound", expected="a number above 0, or null", found=repr(value))
    return float(value)


class QFunction(nn.Module):
    """Value of an observation and an action.

    Attributes:
        encoder: Features of both, or of an image alone.
        q: The value of the features.
    """

    def __init__(self, config: EncoderConfig, shape: Inputs, n_actions: int) -> None:
        super().__init__()
        self.is_joint = isinstance(config, MLP)
        joint = (prod(one_shape(shape, where=config.type)) + n_actions,) if self.is_joint else shape
        self.encoder = config.build(joint)
        self.q = nn.Linear(self.encoder.out_features + (0 if self.is_joint else n_actions), 1)

    def forward(self, obs: Any, actions: torch.Tensor) -> torch.Tensor:
        """Observations (B, ...) and actions (B, n) to values (B,)."""
        if self.is_joint:
            features = self.encoder(torch.cat([obs.flatten(1), actions], dim=1))
        else:
            features = torch.cat([self.encoder(obs), actions], dim=1)
        value: torch.Tensor = self.q(features).squeeze(1)
        return value


class SACModule(RLModule, InferenceOnlyAPI):
    """Policy, Q functions `qf/<i>`, their targets, and `log_alpha`. `mean` is the value before tanh."""

    COMPONENTS: ClassVar[Mapping[str, str]] = MappingProxyType({"encoder": "pi_encoder"})

    @classmethod
    def full_model_config(cls, model_config: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `SACConfig`."""
        return read_fields(SACConfig, model_config, where="model_config").to_json()

    @classmethod
    def sees_parts(cls, model_config: Mapping[str, Any]) -> bool:
        """With an encoder of type multi."""
        return sees_parts(model_config.get("actor"), model_config.get("critic"))

    def setup(self) -> None:
        """Build policy, Q functions, and targets with the same numbers."""
        config = read_fields(SACConfig, self.model_config, where="model_config")
        if not isinstance(self.action_space, Box):
            found = self.action_space.describe()
            fix = "take another module (module=ppo or module=dqn), or an environment with a Box action space"
            raise SpecError("SAC's actions are real numbers", expected="a Box action space", found=found, fix=fix)
        shape, n_actions = input_shape(self.observation_space), prod(self.action_space.shape)
        self.pi_encoder = config.actor.build(shape)
        self.pi = SquashedGaussianHead(
            self.pi_encoder.out_features, n_actions, cast("LogStd", config.log_std), mean_clip=config.mean_clip
        )
        self.qf = nn.ModuleList(QFunction(config.critic, shape, n_actions) for _ in range(config.n_critics))
        self.target_qf = copy.deepcopy(self.qf).requires_grad_(requires_grad=False)
        if config.learn_alpha:
            self.log_alpha = nn.Parameter(torch.zeros(1))

    def get_non_inference_attributes(self) -> list[str]:
        """Q functions, targets and temperature."""
        return ["qf", "target_qf", "log_alpha"]

    def output_kind(self) -> str:
        """A mean before tanh."""
        return "squashed"

    def get_initial_state(self) -> dict[str, Any]:
        """What the policy's encoder remembers, `actor/h` and so on."""
        return initial_state(actor=self.pi_encoder)

    def forward_inference(self, batch: Batch) -> Outputs:
        """`mean` (B, n)."""
        steps = Step(batch)
        return steps.outputs(self.pi.mode(steps.through("actor", self.pi_encoder, batch["obs"])))

    def forward_exploration(self, batch: Batch) -> Outputs:
        """`mean` and `log_std` (B, n)."""
        steps = Step(batch)
        return steps.outputs(self.pi(steps.through("actor", self.pi_encoder, batch["obs"])))

    def forward_train(self, batch: Batch) -> Outputs:
        """Those of exploration; where the batch has `actions` (B, n) in -1..1 also `critic_q`, `target_q`.

        With a recurrent encoder over sequences, see `Sequence`; the Q functions see single steps.
        """
        steps = Sequence(batch) if isinstance(self.pi_encoder, RecurrentEncoder) else Step(batch)
        outputs = steps.outputs(self.pi(steps.through("actor", self.pi_encoder, batch["obs"])))
        if "actions" not in batch:
            return outputs
        obs, actions = batch["obs"], batch["actions"]
        leading = actions.shape[:-1]
        if isinstance(steps, Sequence):
            obs, actions = merged(obs), merged(actions)
        pairs = (("critic_q", self.qf), ("target_q", self.target_qf))
        values = {
            name: torch.stack([function(obs, actions) for function in functions], dim=1).reshape(*leading, -1)
            for name, functions in pairs
        }
        return {**outputs, **values}
