"""Modules whose state does not say all, or whose attributes are reached by other ways than their names."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import nn

from rlpipe.modules.inference_only_api import InferenceOnlyAPI
from rlpipe.modules.torch.rl_module import RLModule


class Hidden(RLModule, InferenceOnlyAPI):
    """Acts with `extra`, and calls it needless."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)
        self.extra = nn.Linear(2, 2)
        self.vf = nn.Linear(3, 1)

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf", "extra"]

    def last(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.extra(x)
        return found

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.last(self.pi(batch["obs"]))}


class ByList(Hidden):
    """Through a list."""

    def setup(self) -> None:
        super().setup()
        self.kept = [self.extra]

    def last(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.kept[0](x)
        return found


class ByClosure(Hidden):
    """Through a function that remembers the layer."""

    def setup(self) -> None:
        super().setup()
        self.call: Any = self.extra.forward

    def last(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.call(x)
        return found


class ByHook(Hidden):
    """Through a hook of another layer."""

    def setup(self) -> None:
        super().setup()
        self.pi.register_forward_hook(lambda _module, _inputs, output: self.extra(output))

    def last(self, x: torch.Tensor) -> torch.Tensor:
        return x


class ForLargeOnly(Hidden):
    """Just for observations far from zero."""

    def last(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.abs() > 50, self.extra(x), x) if hasattr(self, "extra") else x


class PlainTensor(RLModule):
    """Learns a mean that is no buffer."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)
        self.mean = torch.zeros(3)
        self.unused = torch.zeros(1)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"] - self.mean)}


class PlainList(PlainTensor):
    """Keeps it in a list."""

    def setup(self) -> None:
        super().setup()
        self.means = [self.mean]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"] - self.means[0])}


class PlainBuffer(PlainTensor):
    """Keeps it in a buffer that no state dict has."""

    def setup(self) -> None:
        super().setup()
        del self.mean
        self.register_buffer("mean", torch.zeros(3), persistent=False)


class PlainNumber(PlainTensor):
    """Learns a number that is no tensor."""

    def setup(self) -> None:
        super().setup()
        self.factor = 1.0

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"]) * self.factor}


class Moody(RLModule):
    """Answers differently every time, by random numbers that torch knows nothing of."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"]) + random.random()}


class Parametrized(RLModule, InferenceOnlyAPI):
    """Layers whose weights are computed."""

    def setup(self) -> None:
        self.hidden = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
        self.pi = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
        self.vf = nn.utils.parametrizations.weight_norm(nn.Linear(4, 1))

    def get_non_inference_attributes(self) -> list[str]:
        return ["vf"]

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(self.hidden(batch["obs"]))}


class Bare(RLModule):
    """Has a buffer that setup left without numbers."""

    def setup(self) -> None:
        self.pi = nn.Linear(3, 2)
        self.register_buffer("offset", torch.zeros(2, device="meta"))

    def forward_inference(self, batch: Any) -> Any:
        return {"logits": self.pi(batch["obs"])}


class Lazy(RLModule):
    """A layer that waits for its first input."""

    def setup(self) -> None:
        self.pi = nn.LazyLinear(2)

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"logits": self.pi(batch["obs"])}


class InDtype(RLModule):
    """Computes in the dtype of its config, and puts out what the config says."""

    def setup(self) -> None:
        self.dtype: torch.dtype = getattr(torch, self.model_config["dtype"])
        self.pi = nn.Linear(math.prod(self.observation_space.shape), 2, dtype=self.dtype)  # type: ignore[attr-defined]
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward_inference(self, batch: Any) -> dict[str, torch.Tensor]:
        return {self.model_config.get("output", "logits"): self.pi(batch["obs"].to(self.dtype))}
