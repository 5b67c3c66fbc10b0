"""SAC's policy and its Q functions (Haarnoja et al. 2018), with targets and a learnt temperature.

The policy is a squashed Gaussian, or over choices a categorical one (Christodoulou 2019).
"""

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
from rlpipe.modules.torch.encoders import MLP, EncoderConfig, RecurrentEncoder, input_shape, read_encoder, sees_parts
from rlpipe.modules.torch.heads import CategoricalHead, LogStd, SquashedGaussianHead
from rlpipe.modules.torch.passes import Sequence, Step, initial_state
from rlpipe.modules.torch.q_functions import ChoiceQFunction, CriticConfig, QFunction, read_critic
from rlpipe.modules.torch.recurrent import merged
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot.spaces import Box, Discrete


@dataclass(frozen=True, slots=True, kw_only=True)
class SACConfig:
    """Architecture of SAC.

    Attributes:
        actor: Encoder of the policy.
        critic: Encoder of each Q function. A mlp, or a chain of them, takes observation and action in one row; one of
            type fused has an encoder for each; others take the observation, and the action joins behind. Of choices all
            see the observation alone.
        n_critics: How many Q functions.
        log_std: "state" or "gsde", see `GaussianHead`.
        mean_clip: Bound on the size of the mean before tanh, or None.
        learn_alpha: The entropy temperature is learnt, as `log_alpha`.
    """

    actor: EncoderConfig = MLP(hidden=(256, 256), activation="relu")
    critic: CriticConfig = MLP(hidden=(256, 256), activation="relu")
    n_critics: int = 2
    log_std: str = "state"
    mean_clip: float | None = None
    learn_alpha: bool = True

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "actor", read_encoder(self.actor, where="model_config.actor"))
        object.__setattr__(self, "critic", read_critic(self.critic, where="model_config.critic"))
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
        shape = input_shape(self.observation_space)
        self.pi_encoder = config.actor.build(shape)
        self.pi = self._policy_head(config, self.pi_encoder.out_features)
        space, critic = self.action_space, config.critic
        self.qf = nn.ModuleList(
            ChoiceQFunction(critic, shape, space.n)
            if isinstance(space, Discrete)
            else QFunction(critic, shape, prod(space.shape))  # type: ignore[attr-defined]
            for _ in range(config.n_critics)
        )
        self.target_qf = copy.deepcopy(self.qf).requires_grad_(requires_grad=False)
        if config.learn_alpha:
            self.log_alpha = nn.Parameter(torch.zeros(1))

    def _policy_head(self, config: SACConfig, latent: int) -> nn.Module:
        if isinstance(self.action_space, Discrete):
            return CategoricalHead(latent, self.action_space.n)
        if isinstance(self.action_space, Box):
            n, log_std = prod(self.action_space.shape), cast("LogStd", config.log_std)
            return SquashedGaussianHead(latent, n, log_std, mean_clip=config.mean_clip)
        raise SpecError(
            "SAC's actions are real numbers, or one choice",
            expected="a Box or Discrete action space",
            found=self.action_space.describe(),
            fix="take another module (module=ppo), or an environment with a Box or Discrete action space",
        )

    def get_non_inference_attributes(self) -> list[str]:
        """Q functions, targets and temperature."""
        return ["qf", "target_qf", "log_alpha"]

    def output_kind(self) -> str:
        """A mean before tanh, or logits of choices."""
        return "squashed" if isinstance(self.pi, SquashedGaussianHead) else "logits"

    def get_initial_state(self) -> dict[str, Any]:
        """What the policy's encoder remembers, `actor/h` and so on."""
        return initial_state(actor=self.pi_encoder)

    def forward_inference(self, batch: Batch) -> Outputs:
        """`mean` (B, n), or `logits` (B, n)."""
        steps = Step(batch)
        latent = steps.through("actor", self.pi_encoder, batch["obs"])
        return steps.outputs(self.pi.mode(latent) if isinstance(self.pi, SquashedGaussianHead) else self.pi(latent))

    def forward_exploration(self, batch: Batch) -> Outputs:
        """`mean` and `log_std` (B, n), or `logits` (B, n)."""
        steps = Step(batch)
        return steps.outputs(self.pi(steps.through("actor", self.pi_encoder, batch["obs"])))

    def forward_train(self, batch: Batch) -> Outputs:
        """Those of exploration, and values by the Q functions `critic_q` and their targets `target_q`.

        Over a Box those of the batch's `actions` (B, n) in -1..1, where it has some: (B, critics). Over choices those
        of every one: (B, critics, n). With a recurrent encoder over sequences, see `Sequence`; the Q functions see
        single steps.
        """
        steps = Sequence(batch) if isinstance(self.pi_encoder, RecurrentEncoder) else Step(batch)
        outputs = steps.outputs(self.pi(steps.through("actor", self.pi_encoder, batch["obs"])))
        if isinstance(self.action_space, Box) and "actions" not in batch:
            return outputs
        given = (batch["obs"], *((batch["actions"],) if isinstance(self.action_space, Box) else ()))
        leading = next(iter(outputs.values())).shape[:-1]
        if isinstance(steps, Sequence):
            given = tuple(map(merged, given))
        pairs = (("critic_q", self.qf), ("target_q", self.target_qf))
        values = {name: torch.stack([function(*given) for function in functions], dim=1) for name, functions in pairs}
        return {**outputs, **{name: found.reshape(*leading, *found.shape[1:]) for name, found in values.items()}}
