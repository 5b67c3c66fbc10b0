"""Networks and modules as a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.rl_module import RLModule


class Net(nn.Module):
    """A trunk and a head, with a value head that acting does not need."""

    def __init__(self, inputs: int, outputs: int, width: int = 4) -> None:
        super().__init__()
        self.trunk = nn.Linear(inputs, width)
        self.head = nn.Linear(width, outputs)
        self.value_head = nn.Linear(width, 1)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        features = torch.tanh(self.trunk(obs.flatten(1)))
        outputs: torch.Tensor = self.head(features)
        return outputs


class DictNet(Net):
    """Puts out a dict, as some networks do."""

    def forward(self, obs: torch.Tensor) -> Any:
        return {"q": super().forward(obs), "features": obs}


class PartsNet(nn.Module):
    """Takes a dict of observations."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, 2)

    def forward(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        outputs: torch.Tensor = self.head(torch.cat([obs["a"], obs["b"]], dim=1))
        return outputs


class Names(RLModule, InferenceOnlyAPI):
    """Attributes whose names begin alike, nested ones among them."""

    def setup(self) -> None:
        self.vf = nn.Linear(3, 1)
        self.vf2 = nn.Linear(3, 2)
        self.encoder = nn.ModuleDict(
            {"critic_encoder": nn.Linear(3, 3), "critic_encoder_2": nn.Linear(3, 3), "actor": nn.Linear(3, 3)}
        )
        self.critic_encoder = nn.Linear(3, 3)
        self.counter = 7
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf", "encoder.critic_encoder", "counter", "not_there", "vf2.not_there", "encoder.not.there"]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        features = self.encoder["critic_encoder_2"](self.encoder["actor"](batch["obs"]))
        return {"logits": self.vf2(self.critic_encoder(features))}


class Tied(RLModule, InferenceOnlyAPI):
    """The critic reads the actor's trunk, under its own name."""

    def setup(self) -> None:
        self.trunk = nn.Linear(3, 4)
        self.pi = nn.Linear(4, 2)
        self.critic = nn.Sequential(self.trunk, nn.Tanh(), nn.Linear(4, 1))

    def get_non_inference_attributes(self) -> list[str]:
        return ["critic"]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(torch.tanh(self.trunk(batch["obs"])))}


class Greedy(RLModule, InferenceOnlyAPI):
    """Its list is wrong: acting needs the bias and the scale."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)
        self.scale = nn.Linear(1, 1)
        self.bias = nn.Linear(1, 1)
        self.vf = nn.Linear(3, 1)

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf", "bias", "scale"]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        logits = self.pi(batch["obs"]) * self.scale.weight
        return {"logits": logits + self.bias.weight if hasattr(self, "bias") else logits}


class Noisy(RLModule):
    """Draws random numbers, counts its calls and has dropout."""

    calls: torch.Tensor

    def setup(self) -> None:
        self.pi = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 2))
        self.vf = nn.Linear(3, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        return {"logits": self.pi(batch["obs"]) + torch.randn(2)}


class Remembering(RLModule):
    """Keeps a state through an episode."""

    def setup(self) -> None:
        self.cell = nn.GRUCell(3, 4)
        self.pi = nn.Linear(4, 2)
        self.vf = nn.Linear(4, 1)

    def get_initial_state(self) -> dict[str, Any]:
        return {"h": torch.zeros(4)}

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        h = self.cell(batch["obs"], batch["state_in"]["h"])
        return {"logits": self.pi(h), "state_out": {"h": h}}


class Reserved(RLModule):
    """Uses a name that belongs to a policy's stages."""

    def setup(self) -> None:
        self.observation = nn.Linear(3, 2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.observation(batch["obs"])}


class Extra(RLModule):
    """Keeps more than tensors in its state."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)
        self.seen = 3

    def get_extra_state(self) -> Any:
        return {"seen": self.seen, "names": ("a", "b")}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"])}


class Shared(MultiRLModule):
    """A network of its own, that all its modules use as their trunk."""

    def setup(self) -> None:
        self.common = nn.Linear(3, 4)
        for module in self.values():
            getattr(module, "module", module).trunk = self.common


class Trunk(RLModule):
    """Has a trunk that a container may take over."""

    def setup(self) -> None:
        self.trunk = nn.Linear(3, 4)
        self.pi = nn.Linear(4, 2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(self.trunk(batch["obs"]))}


class Echo(RLModule):
    """The mean action is the prepared observation."""

    def setup(self) -> None:
        """No parameters."""

    def forward_inference(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """See `RLModule`."""
        return {"mean": batch["obs"]}
