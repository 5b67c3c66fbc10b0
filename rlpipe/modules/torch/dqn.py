"""DQN's Q network (Mnih et al. 2015) with its target, double and dueling where asked for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.modules.fields import choice, flag, read_fields, whole, wholes
from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.torch.batch import Batch, Outputs
from rlpipe.modules.torch.encoders import LSTM, MLP, EncoderConfig, input_shape, read_encoder, sees_parts
from rlpipe.modules.torch.heads import dueling, value_head
from rlpipe.modules.torch.passes import Sequence, Step, initial_state
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.snapshot.spaces import Discrete


@dataclass(frozen=True, slots=True, kw_only=True)
class Atoms:
    """The values that a Q value is a distribution over: `count` of them, evenly from `low` to `high`."""

    count: int
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the fields."""
        whole(self.count, where="model_config.atoms.count", least=2)
        if not all(type(end) in (int, float) for end in (self.low, self.high)) or not -inf < self.low < self.high < inf:
            raise SpecError("model_config.atoms span nothing", expected="finite low below high", found=str(self))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"count": self.count, "low": float(self.low), "high": float(self.high)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DQNConfig:
    """Architecture of DQN.

    Attributes:
        encoder: From observations to features.
        head_hidden: Widths of hidden layers in each head.
        head_activation: Activation of the heads' hidden layers; None: the encoder's.
        dueling: Advantages and values in two heads, `af` and `vf`, in place of one head `q`.
        double: The loss takes the next action from the online network (van Hasselt et al. 2016).
        atoms: Q values are means of distributions over these values (Bellemare et al. 2017); None: plain numbers.
    """

    encoder: EncoderConfig = MLP(activation="relu")
    head_hidden: tuple[int, ...] = ()
    head_activation: str | None = None
    dueling: bool = False
    double: bool = True
    atoms: Atoms | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "encoder", read_encoder(self.encoder, where="model_config.encoder"))
        hidden = wholes(self.head_hidden, where="model_config.head_hidden", least=1)
        object.__setattr__(self, "head_hidden", hidden)
        if self.head_activation is not None:
            choice(self.head_activation, ACTIVATIONS, where="model_config.head_activation")
        for name in ("dueling", "double"):
            flag(getattr(self, name), where=f"model_config.{name}")
        if not isinstance(self.atoms, (Atoms, type(None))):
            object.__setattr__(self, "atoms", read_fields(Atoms, self.atoms, where="model_config.atoms"))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with every field; the head's activation and atoms only where there are some, as specs had it."""
        own: dict[str, Any] = {} if self.head_activation is None else {"head_activation": self.head_activation}
        if self.atoms is not None:
            own = {**own, "atoms": self.atoms.to_json()}
        return {
            "encoder": self.encoder.to_json(),
            "head_hidden": list(self.head_hidden),
            "dueling": self.dueling,
            "double": self.double,
            **own,
        }


class DQNModule(RLModule, InferenceOnlyAPI):
    """Q values of every action: `q` (B, n). The target network has the same parts under `target_` names.

    Attributes:
        support: The values of atoms, where Q values are distributions.
    """

    support: torch.Tensor

    @classmethod
    def full_model_config(cls, model_config: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `DQNConfig`."""
        return read_fields(DQNConfig, model_config, where="model_config").to_json()

    @classmethod
    def sees_parts(cls, model_config: Mapping[str, Any]) -> bool:
        """With an encoder of type multi."""
        return sees_parts(model_config.get("encoder"))

    def setup(self) -> None:
        """Build the network and a target with the same numbers."""
        config = self.config = read_fields(DQNConfig, self.model_config, where="model_config")
        if not isinstance(self.action_space, Discrete):
            found = self.action_space.describe()
            fix = "take another module (module=ppo or module=sac), or an environment with a Discrete action space"
            raise SpecError("DQN chooses among actions", expected="a Discrete action space", found=found, fix=fix)
        self.encoder = config.encoder.build(input_shape(self.observation_space))
        act = config.head_activation or config.encoder.activation
        for name, width in self._heads(self.action_space.n).items():
            head = value_head(self.encoder.out_features, width, hidden=config.head_hidden, act=act)
            self.add_module(name, head)
        for name in ("encoder", *self._heads(self.action_space.n)):
            self.add_module(f"target_{name}", copy.deepcopy(getattr(self, name)).requires_grad_(requires_grad=False))
        if config.atoms is not None:
            values = torch.linspace(config.atoms.low, config.atoms.high, config.atoms.count)
            self.register_buffer("support", values, persistent=False)

    def _heads(self, n: int) -> dict[str, int]:
        atoms = self.config.atoms.count if self.config.atoms is not None else 1
        return {"af": n * atoms, "vf": atoms} if self.config.dueling else {"q": n * atoms}

    def get_non_inference_attributes(self) -> list[str]:
        """The target network."""
        return ["target_encoder", "target_q", "target_af", "target_vf"]

    def output_kind(self) -> str:
        """Q values."""
        return "q"

    def get_initial_state(self) -> dict[str, Any]:
        """What the encoder remembers, `encoder/h` and so on."""
        return initial_state(encoder=self.encoder)

    def forward_inference(self, batch: Batch) -> Outputs:
        """`q` (B, n)."""
        steps = Step(batch)
        return steps.outputs({"q": self._values(batch["obs"], "", steps)})

    def forward_train(self, batch: Batch) -> Outputs:
        """`q` (B, n), and where the batch has `next_obs` also `next_q` and `next_target_q` of them.

        With a recurrent encoder over sequences, see `Sequence`: `q` and `target_q` (B, T, n) of the same observations.
        A loss shifts them by one step, since the next observation needs the memory of those before it.
        """
        if isinstance(self.config.encoder, LSTM):
            return self._over_sequences(batch)
        outputs = self.forward_inference(batch)
        if "next_obs" not in batch:
            return outputs
        with torch.no_grad():
            target = self._values(batch["next_obs"], "target_", Step(batch))
        online = self._values(batch["next_obs"], "", Step(batch)) if self.config.double else target
        return {**outputs, "next_q": online, "next_target_q": target}

    def _over_sequences(self, batch: Batch) -> Outputs:
        steps = Sequence(batch)
        with torch.no_grad():
            target = self._values(batch["obs"], "target_", Sequence(batch))
        return steps.outputs({"q": self._values(batch["obs"], "", steps), "target_q": target})

    def _values(self, obs: Any, prefix: str, steps: Step) -> torch.Tensor:
        latent = steps.through("encoder", self._part(prefix, "encoder"), obs)
        if self.config.atoms is not None:
            return self._means(latent, prefix)
        if not self.config.dueling:
            q: torch.Tensor = self._part(prefix, "q")(latent)
            return q
        return dueling(self._part(prefix, "af")(latent), self._part(prefix, "vf")(latent))

    def _means(self, latent: torch.Tensor, prefix: str) -> torch.Tensor:
        """Means of distributions over atoms; with dueling as Hessel et al. 2018 have it, atom by atom."""
        scores = self._part(prefix, "af" if self.config.dueling else "q")(latent)
        logits = scores.unflatten(-1, (-1, len(self.support)))
        if self.config.dueling:
            values = self._part(prefix, "vf")(latent).unsqueeze(-2)
            logits = values + logits - logits.mean(dim=-2, keepdim=True)
        return (torch.softmax(logits, dim=-1) * self.support).sum(dim=-1)

    def _part(self, prefix: str, name: str) -> nn.Module:
        part: nn.Module = getattr(self, prefix + name)
        return part
