"""Q functions of actors with critics: values of an observation and an action, or of an observation and each choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, TypeAlias

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.fields import read_fields
from rlpipe.modules.torch.encoders import LSTM, MLP, AnyEncoder, Chain, EncoderConfig, Inputs, activation, read_encoder
from rlpipe.modules.torch.feedforward import one_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Observation and action through an encoder each, their features through layers that fuse them.

    Attributes:
        observation: Encoder of the observation.
        actions: Encoder of the action.
        fusion: Layers behind both, at least one. Each behind the first also sees what the first saw.
        after: Layers behind those, or None.
    """

    observation: EncoderConfig = MLP()
    actions: MLP = MLP()
    fusion: MLP = MLP()
    after: MLP | None = None

    type: ClassVar[str] = "fused"

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("observation", "actions", "fusion", "after"):
            if (value := getattr(self, name)) is not None or name != "after":
                object.__setattr__(self, name, read_encoder(value, where=f"{name} of a fused critic"))
        others = (self.actions, self.fusion, *((self.after,) if self.after is not None else ()))
        if not all(isinstance(part, MLP) for part in others) or not self.fusion.hidden:
            found = ", ".join(part.type for part in others)
            raise SpecError(
                "a fused critic has other layers",
                expected="actions, fusion, after: a mlp, fusion with layers",
                found=found,
            )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_critic`."""
        return {
            "type": self.type,
            "observation": self.observation.to_json(),
            "actions": self.actions.to_json(),
            "fusion": self.fusion.to_json(),
            "after": self.after and self.after.to_json(),
        }


CriticConfig: TypeAlias = EncoderConfig | Fused


def read_critic(value: Any, *, where: str) -> CriticConfig:
    """The encoder config of a Q function.

    Raises:
        SpecError: Unknown type or field, a value that does not fit, or a memory.
    """
    if isinstance(value, Mapping) and value.get("type") == Fused.type:
        value = read_fields(Fused, {name: field for name, field in value.items() if name != "type"}, where=where)
    found = value if isinstance(value, Fused) else read_encoder(value, where=where)
    if isinstance(found.observation if isinstance(found, Fused) else found, LSTM):
        raise SpecError(
            f"{where} keeps a memory",
            expected="a mlp or a cnn: the Q functions see single observations",
            found=LSTM.type,
            fix="give the memory to model_config.actor alone",
        )
    return found


class FusedEncoder(nn.Module):
    """The network of `Fused`.

    Attributes:
        observation: Encoder of the observation.
        actions: Encoder of the action.
        layers: What fuses them; the features of the action are ahead of those of the observation.
        after: Layers behind; absent without.
        out_features: Length of the features.
    """

    def __init__(self, config: Fused, shape: Inputs, n_actions: int) -> None:
        super().__init__()
        self.observation = config.observation.build(shape)
        self.actions = config.actions.build((n_actions,))
        both = self.actions.out_features + self.observation.out_features
        inputs = (both, *(width + both for width in config.fusion.hidden[:-1]))
        self.layers = nn.ModuleList(map(nn.Linear, inputs, config.fusion.hidden))
        self.act = activation(config.fusion.activation)
        self.after = config.after.build((config.fusion.hidden[-1],)) if config.after is not None else None
        self.out_features = config.fusion.hidden[-1] if self.after is None else self.after.out_features

    def forward(self, obs: Any, actions: torch.Tensor) -> torch.Tensor:
        """Observations (B, ...) and actions (B, n) to features (B, out_features)."""
        both = torch.cat([self.actions(actions), self.observation(obs)], dim=1)
        first, *others = self.layers
        features: torch.Tensor = self.act(first(both))
        for layer in others:
            features = self.act(layer(torch.cat([features, both], dim=1)))
        return features if self.after is None else self.after(features)


class QFunction(nn.Module):
    """Value of an observation and an action.

    Attributes:
        encoder: Features of both, or of an image alone.
        q: The value of the features.
    """

    def __init__(self, config: CriticConfig, shape: Inputs, n_actions: int) -> None:
        super().__init__()
        self.is_joint = isinstance(config.links[0] if isinstance(config, Chain) else config, MLP)
        self.encoder: FusedEncoder | AnyEncoder
        if isinstance(config, Fused):
            self.encoder = FusedEncoder(config, shape, n_actions)
        elif self.is_joint:
            self.encoder = config.build((prod(one_shape(shape, where=config.type)) + n_actions,))
        else:
            self.encoder = config.build(shape)
        is_whole = self.is_joint or isinstance(config, Fused)
        self.q = nn.Linear(self.encoder.out_features + (0 if is_whole else n_actions), 1)

    def forward(self, obs: Any, actions: torch.Tensor) -> torch.Tensor:
        """Observations (B, ...) and actions (B, n) to values (B,)."""
        value: torch.Tensor = self.q(self._features(obs, actions)).squeeze(1)
        return value

    def _features(self, obs: Any, actions: torch.Tensor) -> Any:
        if isinstance(self.encoder, FusedEncoder):
            return self.encoder(obs, actions)
        if self.is_joint:
            return self.encoder(torch.cat([obs.flatten(1), actions], dim=1))
        return torch.cat([self.encoder(obs), actions], dim=1)


class ChoiceQFunction(nn.Module):
    """Values of an observation and each of `n` choices.

    Attributes:
        encoder: Features of the observation.
        q: The values of the features.

    Raises:
        SpecError: The encoder is one of actions too.
    """

    def __init__(self, config: CriticConfig, shape: Inputs, n: int) -> None:
        super().__init__()
        if isinstance(config, Fused):
            fix = "name the encoder of the observation alone"
            found = "a fused critic"
            raise SpecError("choices have no features to fuse", expected="a mlp or a cnn", found=found, fix=fix)
        self.encoder = encoder = config.build(shape)
        self.q = nn.Linear(encoder.out_features, n)

    def forward(self, obs: Any) -> torch.Tensor:
        """Observations (B, ...) to values (B, n)."""
        values: torch.Tensor = self.q(self.encoder(obs))
        return values
