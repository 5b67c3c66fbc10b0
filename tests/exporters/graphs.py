"""Small hand-written policy graphs: one tensor per input, one per output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.signature import Signature, signature_of
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Array = np.ndarray[Any, Any]


class Normalised(nn.Module):
    """(B, 24) -> normalise, clip to 10, tanh MLP, clip to the bounds of 1 -> (B, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.std: torch.Tensor
        rng = np.random.default_rng(3)
        self.register_buffer("mean", torch.tensor(rng.normal(0, 3, 24), dtype=torch.float32))
        self.register_buffer("std", torch.tensor(rng.uniform(0.01, 2, 24) + 1e-8, dtype=torch.float32).sqrt())
        last = nn.Linear(64, 6)
        self.net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), last)
        with torch.no_grad():
            last.weight *= 8  # large enough to reach the bounds

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        normal = torch.clamp((obs - self.mean) / self.std, -10.0, 10.0)
        return torch.clamp(self.net(normal), -1.0, 1.0)


class Greedy(nn.Module):
    """(B, 4) -> Q values -> argmax, counted from `start`."""

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
        self.start = start

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.q(obs).argmax(dim=1) + self.start


class ManyInputs(nn.Module):
    """image (B, 8, 8, 3) uint8, mode (B,) int64, vector (B, 5) float32 -> a choice, and switches of shape (2,)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(4 * 3 * 3 + 3 + 5, 4 + 2)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image, mode, vector = inputs
        pixels = self.conv(image.permute(0, 3, 1, 2).to(torch.float32) / 255)
        which = torch.nn.functional.one_hot(mode - 1, 3).to(torch.float32)
        scores = self.head(torch.cat([pixels, which, vector], dim=1))
        return scores[:, :4].argmax(dim=1), (scores[:, 4:] > 0).to(torch.int8)


class Several(nn.Module):
    """(B, 4) float64 -> MultiDiscrete([2, 3]) int64."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 5)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        scores = self.net(obs.to(torch.float32))
        return torch.stack([scores[:, :2].argmax(dim=1), scores[:, 2:].argmax(dim=1)], dim=1)


class Ignores(nn.Module):
    """left (B, 2) float32, right (B, 3) float32 -> (B, 2) float32, in which right has no say."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 2)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        del right
        return torch.tanh(self.net(left))


@dataclass(frozen=True)
class Example:
    """A graph between two spaces."""

    module: nn.Module
    observation_space: Space
    action_space: Space

    @property
    def signature(self) -> Signature:
        return signature_of(self.observation_space, self.action_space)

    def compute(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The graph itself, in eager torch."""
        signature = self.signature
        with torch.inference_mode():
            outputs = self.module(*(torch.tensor(arrays[spec.name]) for spec in signature.inputs))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        return {spec.name: tensor.numpy() for spec, tensor in zip(signature.outputs, outputs, strict=True)}

    def reference(self, **kwargs: Any) -> Reference:
        chosen = observations(self.observation_space, self.signature, **kwargs)
        return reference(self.compute, chosen)

    def traced(self) -> ExportGraph:
        sample = observations(self.observation_space, self.signature).arrays
        return export_graph(self.module, self.signature, sample)


def unbounded(*shape: int, dtype: str = "float32") -> Box:
    return Box.uniform(-np.inf, np.inf, shape, dtype)


def normalised() -> Example:
    torch.manual_seed(0)
    return Example(Normalised().eval(), unbounded(24), Box.uniform(-1, 1, (6,)))


def greedy() -> Example:
    torch.manual_seed(1)
    return Example(Greedy(start=2).eval(), unbounded(4), Discrete(3, start=2))


def many_inputs() -> Example:
    torch.manual_seed(2)
    inside = {"vector": unbounded(5), "mode": Discrete(3, start=1), "image": Box.uniform(0, 255, (8, 8, 3), np.uint8)}
    return Example(ManyInputs().eval(), Dict(inside), Tuple((Discrete(4), MultiBinary((2,)))))


def several() -> Example:
    torch.manual_seed(3)
    space = MultiDiscrete(np.array([2, 3]))
    return Example(Several().eval(), unbounded(4, dtype="float64"), space)


def ignores() -> Example:
    torch.manual_seed(4)
    return Example(Ignores().eval(), Dict({"left": unbounded(2), "right": unbounded(3)}), Box.uniform(-1, 1, (2,)))


EXAMPLES = {make.__name__: make for make in (normalised, greedy, many_inputs, several, ignores)}
