"""PPO's actor and critic (Schulman et al. 2017), with shared or separate encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import torch
from torch import nn

from rlpipe.modules.fields import choice, flag, read_fields
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.torch.batch import Batch, Outputs
from rlpipe.modules.torch.encoders import LSTM, MLP, EncoderConfig, Inputs, input_shape, read_encoder, sees_parts
from rlpipe.modules.torch.heads import GaussianHead, LogStd, PartsHead, policy_head, value_head
from rlpipe.modules.torch.passes import Sequence, Step, initial_state
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOConfig:
    """Architecture of PPO.

    Attributes:
        shared: Encoder that actor and critic share, or None; the others come behind it.
        actor: Encoder of the policy.
        critic: Encoder of the value function.
        log_std: "free", "state", "std", "gsde" or "none", see `GaussianHead`; for Box actions only.
        squash: The mean is meant to go through tanh.
    """

    shared: EncoderConfig | None = None
    actor: EncoderConfig = MLP()
    critic: EncoderConfig = MLP()
    log_std: str = "free"
    squash: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("shared", "actor", "critic"):
            if (value := getattr(self, name)) is not None or name != "shared":
                object.__setattr__(self, name, read_encoder(value, where=f"model_config.{name}"))
        choice(self.log_std, ("free", "state", "std", "gsde", "none"), where="model_config.log_std")
        flag(self.squash, where="model_config.squash")

    @property
    def is_recurrent(self) -> bool:
        """Whether an encoder keeps a memory, so that training takes sequences (B, T, ...)."""
        return any(isinstance(encoder, LSTM) for encoder in (self.shared, self.actor, self.critic))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with every field."""
        return {
            "shared": self.shared and self.shared.to_json(),
            "actor": self.actor.to_json(),
            "critic": self.critic.to_json(),
            "log_std": self.log_std,
            "squash": self.squash,
        }


class ActorCriticEncoder(nn.Module):
    """Features of actor and critic, from one observation.

    Attributes:
        encoder: What both share; absent without.
        actor_encoder: The actor's own.
        critic_encoder: The critic's own; absent in a module that only acts.
    """

    def __init__(self, config: PPOConfig, shape: Inputs) -> None:
        super().__init__()
        self.encoder = config.shared.build(shape) if config.shared else None
        inner: Inputs = (self.encoder.out_features,) if self.encoder is not None else shape
        self.actor_encoder = config.actor.build(inner)
        self.critic_encoder = config.critic.build(inner)

    def actor(self, obs: Any, steps: Step) -> torch.Tensor:
        """(B, ...) observations to (B, latent) features of the policy."""
        return steps.through("actor", self.actor_encoder, self._shared(obs, steps))

    def both(self, obs: Any, steps: Step) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, ...) observations to features of the policy and of the value function."""
        shared = self._shared(obs, steps)
        actor = steps.through("actor", self.actor_encoder, shared)
        return actor, steps.through("critic", self.critic_encoder, shared)

    def _shared(self, obs: Any, steps: Step) -> Any:
        return obs if self.encoder is None else steps.through("shared", self.encoder, obs)

    def initial_state(self) -> dict[str, Array]:
        """What acting remembers before the first step."""
        return initial_state(shared=self.encoder, actor=self.actor_encoder)


class PPOModule(RLModule, InferenceOnlyAPI):
    """Policy and value function. Outputs: `logits`, or `mean` with `log_std`; in training also `value` (B,)."""

    encoder: ActorCriticEncoder
    pi: nn.Module
    vf: nn.Module

    COMPONENTS: ClassVar[Mapping[str, str]] = MappingProxyType({"encoder": "encoder.actor_encoder"})

    @classmethod
    def full_model_config(cls, model_config: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `PPOConfig`."""
        return read_fields(PPOConfig, model_config, where="model_config").to_json()

    @classmethod
    def sees_parts(cls, model_config: Mapping[str, Any]) -> bool:
        """With an encoder of type multi."""
        return sees_parts(*(model_config.get(name) for name in ("shared", "actor", "critic")))

    def setup(self) -> None:
        """Build encoders and heads."""
        self.config = read_fields(PPOConfig, self.model_config, where="model_config")
        self.encoder = ActorCriticEncoder(self.config, input_shape(self.observation_space))
        latent = self.encoder.actor_encoder.out_features
        self.pi = policy_head(latent, self.action_space, cast("LogStd", self.config.log_std))
        self.vf = value_head(self.encoder.critic_encoder.out_features, 1)

    def get_non_inference_attributes(self) -> list[str]:
        """Value function and its encoder."""
        return ["vf", "encoder.critic_encoder"]

    def output_kind(self) -> str:
        """Logits of choices, or a mean."""
        if isinstance(self.pi, GaussianHead):
            return "squashed" if self.config.squash else "mean"
        return "squashed" if self.config.squash and isinstance(self.pi, PartsHead) else "logits"

    def get_initial_state(self) -> dict[str, Any]:
        """What the encoders that act remember, `shared/h` and `actor/h` and so on; the critic's memory is its own."""
        return self.encoder.initial_state()

    def get_initial_train_state(self) -> dict[str, Any]:
        """What the critic's own encoder remembers."""
        return initial_state(critic=self.encoder.critic_encoder)

    def takes_sequences(self) -> bool:
        """If the actor remembers, or the critic alone."""
        return self.config.is_recurrent

    def forward_inference(self, batch: Batch) -> Outputs:
        """`logits` (B, n), or `mean` (B, n)."""
        steps = Step(batch)
        latent = self.encoder.actor(batch["obs"], steps)
        return steps.outputs(
            self.pi.mode(latent) if isinstance(self.pi, (GaussianHead, PartsHead)) else self.pi(latent)
        )

    def forward_exploration(self, batch: Batch) -> Outputs:
        """`logits`, or `mean` and `log_std`."""
        steps = Step(batch)
        return steps.outputs(self.pi(self.encoder.actor(batch["obs"], steps)))

    def forward_train(self, batch: Batch) -> Outputs:
        """The outputs of exploration, and `value` (B,); with a recurrent encoder over sequences, see `Sequence`."""
        steps = Sequence(batch) if self.takes_sequences() else Step(batch)
        actor, critic = self.encoder.both(batch["obs"], steps)
        return steps.outputs({**self.pi(actor), "value": self.vf(critic).squeeze(-1)})
