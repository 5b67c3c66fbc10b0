"""Small policies by formula that keep a memory, take masks or noise, or answer with several things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import Observations, observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.signature import (
    ACTION_MASK,
    EPISODE_START,
    NEXT,
    NOISE,
    STATE,
    Signature,
    TensorSpec,
    signature_of,
)
from rlpipe.snapshot.spaces import Box, Discrete, MultiDiscrete, Space
from tests.exporters.graphs import unbounded

Array = np.ndarray[Any, Any]
HIDDEN = 8


def put_back(state: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Zeros in the rows that begin an episode."""
    return torch.where(start.reshape(-1, *(1 for _ in state.shape[1:])), torch.zeros_like(state), state)


class Lstm(nn.Module):
    """(B, 5), h and c (B, 1, 8), start (B,) -> action (B, 3) within 1, next h, next c.

    Hochreiter and Schmidhuber 1997 in torch's order of gates: input, forget, cell, output.
    """

    def __init__(self) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(5, 4 * HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.head = nn.Linear(HIDDEN, 3)
        with torch.no_grad():
            self.back.weight *= 3  # so that what was before counts
            self.head.weight *= 8  # so that actions reach their bounds

    def forward(
        self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden, cell = put_back(hidden, start)[:, 0], put_back(cell, start)[:, 0]
        gates = (self.into(obs) + self.back(hidden)).reshape(-1, 4, HIDDEN)
        entry, keep, leave = (torch.sigmoid(gates[:, index]) for index in (0, 1, 3))
        cell = keep * cell + entry * torch.tanh(gates[:, 2])
        hidden = leave * torch.tanh(cell)
        return torch.clamp(self.head(hidden), -1, 1), hidden.unsqueeze(1), cell.unsqueeze(1)


class Counter(nn.Module):
    """(B, 4), steps so far (B,) int64, the last choice (B,) int64, start (B,) -> one of 3, both states anew."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4 + 1 + 3, 3)

    def forward(
        self, obs: torch.Tensor, steps: torch.Tensor, last: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        steps, last = put_back(steps, start), put_back(last, start)
        before = torch.nn.functional.one_hot(torch.clamp(last, 0, 2), 3).to(torch.float32)
        seen = torch.cat([obs, torch.remainder(steps, 7).to(torch.float32).unsqueeze(1), before], dim=1)
        choice = self.net(seen).argmax(dim=1)
        return choice, steps + 1, choice


class Stack(nn.Module):
    """(B, 4), the last 3 observations (B, 3, 4) from old to new, start (B,) -> (B, 2) within 1, the stack anew."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(12, 2)

    def forward(
        self, obs: torch.Tensor, frames: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        frames = torch.cat([put_back(frames, start)[:, 1:], obs.unsqueeze(1)], dim=1)
        return torch.tanh(self.net(frames.flatten(1))), frames


def masked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The best choice among those that are allowed; among all if none is."""
    none = ~mask.any(dim=1, keepdim=True)
    return torch.where(mask | none, scores, torch.full_like(scores, -torch.inf)).argmax(dim=1)


class Masked(nn.Module):
    """(B, 4), mask (B, 2 + 3), uniform noise (B, 2 + 3) -> MultiDiscrete([2, 3]) by the Gumbel-max trick, scores."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 5)

    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.net(obs)
        moved = scores - torch.log(-torch.log(noise))
        parts = [masked(moved[:, part], mask[:, part]) for part in (slice(2), slice(2, 5))]
        return torch.stack(parts, dim=1), scores


class Sampled(nn.Module):
    """(B, 4), normal noise (B, 2) -> actions within 2."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, obs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, log_std = self.net(obs).chunk(2, dim=1)
        return torch.clamp(mean + torch.exp(torch.clamp(log_std, -5, 0)) * noise, -2, 2)


@dataclass(frozen=True)
class Stepping:
    """A graph with more than observations and actions."""

    module: nn.Module
    observation_space: Space
    action_space: Space
    more_inputs: tuple[TensorSpec, ...]
    more_outputs: tuple[TensorSpec, ...] = ()

    @property
    def signature(self) -> Signature:
        plain = signature_of(self.observation_space, self.action_space)
        return Signature(inputs=(*plain.inputs, *self.more_inputs), outputs=(*plain.outputs, *self.more_outputs))

    def compute(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The graph itself, in eager torch."""
        signature = self.signature
        with torch.inference_mode():
            outputs = self.module(*(torch.tensor(arrays[spec.name]) for spec in signature.inputs))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        return {spec.name: tensor.numpy() for spec, tensor in zip(signature.outputs, outputs, strict=True)}

    def chosen(self) -> Observations:
        return observations(self.observation_space, self.signature)

    def reference(self) -> Reference:
        return reference(self.compute, self.chosen())

    def traced(self) -> ExportGraph:
        return export_graph(self.module, self.signature, self.chosen().arrays)


START = TensorSpec(name=EPISODE_START, dtype="bool", shape=())


def states(*shapes: tuple[int, ...], dtype: str = "float32") -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The specs of states, and of the next ones."""
    made = [TensorSpec(name=f"{STATE}.{index}", dtype=dtype, shape=shape) for index, shape in enumerate(shapes)]
    return tuple(made), tuple(TensorSpec(name=f"{spec.name}{NEXT}", dtype=dtype, shape=spec.shape) for spec in made)


def lstm() -> Stepping:
    torch.manual_seed(5)
    before, after = states((1, HIDDEN), (1, HIDDEN))
    return Stepping(Lstm().eval(), unbounded(5), Box.uniform(-1, 1, (3,)), (*before, START), after)


def counter() -> Stepping:
    torch.manual_seed(6)
    before, after = states((), (), dtype="int64")
    return Stepping(Counter().eval(), unbounded(4), Discrete(3), (*before, START), after)


def stack() -> Stepping:
    torch.manual_seed(9)
    before, after = states((3, 4))
    return Stepping(Stack().eval(), unbounded(4), Box.uniform(-1, 1, (2,)), (*before, START), after)


def masked_choices() -> Stepping:
    torch.manual_seed(7)
    inputs = (
        TensorSpec(name=ACTION_MASK, dtype="bool", shape=(5,)),
        TensorSpec(name=NOISE, dtype="float32", shape=(5,), distribution="uniform"),
    )
    logits = TensorSpec(name="logits", dtype="float32", shape=(5,))
    return Stepping(Masked().eval(), unbounded(4), MultiDiscrete(np.array([2, 3])), inputs, (logits,))


def sampled() -> Stepping:
    torch.manual_seed(8)
    noise = TensorSpec(name=NOISE, dtype="float32", shape=(2,), distribution="normal")
    return Stepping(Sampled().eval(), unbounded(4), Box.uniform(-2, 2, (2,)), (noise,))


STEPPING = {make.__name__: make for make in (lstm, counter, stack, masked_choices, sampled)}
