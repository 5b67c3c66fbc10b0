"""The verifier on policies with memory, masks and noise: every seeded bug is caught, and no right file refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.graph import export_graph
from rlpipe.exporters.target import resolve
from rlpipe.exporters.verify import Verification, verify
from tests.exporters import memory_graphs
from tests.exporters.memory_graphs import HIDDEN, STEPPING, Counter, Lstm, Masked, Sampled, Stack, Stepping

TOLERANCE = Tolerance(atol=1e-5, rtol=1e-5)
States = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class NeverPutsBack(Lstm):
    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        return super().forward(obs, hidden, cell, torch.zeros_like(start))


class PutsBackHalf(Lstm):
    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        return super().forward(obs, memory_graphs.put_back(hidden, start), cell, torch.zeros_like(start))


class PutsBackAllRows(Lstm):
    """Takes one row's start for that of all, as code for a batch of 1 does."""

    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        return super().forward(obs, hidden, cell, start.any().expand(start.shape))


class PutsBackTheOthers(Lstm):
    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        return super().forward(obs, hidden, cell, ~start)


class SwapsStates(Lstm):
    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        action, hidden, cell = super().forward(obs, cell, hidden, start)
        return action, cell, hidden


class SwapsNextStates(Lstm):
    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        action, hidden, cell = super().forward(obs, hidden, cell, start)
        return action, cell, hidden


class IsFresh(Lstm):
    """Zeros at each step."""

    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        return super().forward(obs, hidden * 0, cell * 0, start)


class Stays(Lstm):
    """Gives back the memory that it was given."""

    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        action, _, _ = super().forward(obs, hidden, cell, start)
        return action, hidden, cell


class PermutesGates(Lstm):
    """Keras' order: input, forget, output, cell."""

    def __init__(self) -> None:
        super().__init__()
        order = torch.arange(4 * HIDDEN).reshape(4, HIDDEN)[[0, 1, 3, 2]].reshape(-1)
        with torch.no_grad():
            for parameter in (self.into.weight, self.into.bias, self.back.weight):
                parameter.copy_(parameter[order])


class ForgetsSlowly(Lstm):
    """Loses a little of its memory at each step."""

    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, start: torch.Tensor) -> States:
        action, hidden, cell = super().forward(obs, hidden, cell, start)
        return action, hidden, cell * 0.9999


class TurnsTime(Stack):
    """From new to old."""

    def forward(
        self, obs: torch.Tensor, frames: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        frames = torch.cat([obs.unsqueeze(1), memory_graphs.put_back(frames, start)[:, :-1]], dim=1)
        return torch.tanh(self.net(frames.flatten(1))), frames


class ReadsTimeTheOtherWay(Stack):
    """The stack is right, what is made of it is not."""

    def forward(
        self, obs: torch.Tensor, frames: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        _, frames = super().forward(obs, frames, start)
        return torch.tanh(self.net(frames.flip(1).flatten(1))), frames


class FillsUp(Stack):
    """Begins with the first observation everywhere, not with zeros."""

    def forward(
        self, obs: torch.Tensor, frames: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        frames = torch.where(start[:, None, None], obs[:, None].expand_as(frames), frames)
        return super().forward(obs, frames, torch.zeros_like(start))


class CountsFromOne(Counter):
    def forward(
        self, obs: torch.Tensor, steps: torch.Tensor, last: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return super().forward(obs, steps + start, last, torch.zeros_like(start))


class IgnoresMask(Masked):
    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(obs, torch.ones_like(mask), noise)


class TurnsMask(Masked):
    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(obs, ~mask, noise)


class MasksWithAFiniteNumber(Masked):
    """-10 is less than most scores, not than all."""

    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.net(obs)
        moved = scores - torch.log(-torch.log(noise)) + torch.where(mask, 0.0, -10.0)
        return torch.stack([moved[:, :2].argmax(dim=1), moved[:, 2:].argmax(dim=1)], dim=1), scores


class StopsWithoutChoice(Masked):
    """Takes the first where nothing is allowed."""

    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        action, scores = super().forward(obs, mask, noise)
        return torch.where(mask.any(dim=1, keepdim=True), action, torch.zeros_like(action)), scores


class IgnoresUniformNoise(Masked):
    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(obs, mask, torch.full_like(noise, 0.5))


class TakesNoiseForGumbels(Masked):
    def forward(self, obs: torch.Tensor, mask: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(obs, mask, torch.exp(-torch.exp(-noise)))


class IgnoresNoise(Sampled):
    def forward(self, obs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return super().forward(obs, torch.zeros_like(noise))


class TakesVariance(Sampled):
    def forward(self, obs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, log_std = self.net(obs).chunk(2, dim=1)
        return torch.clamp(mean + torch.exp(0.5 * torch.clamp(log_std, -5, 0)) * noise, -2, 2)


BUGS: dict[str, tuple[type[nn.Module], ...]] = {
    "lstm": (
        NeverPutsBack, PutsBackHalf, PutsBackAllRows, PutsBackTheOthers, SwapsStates, SwapsNextStates, IsFresh, Stays,
        PermutesGates, ForgetsSlowly,
    ),
    "stack": (TurnsTime, ReadsTimeTheOtherWay, FillsUp),
    "counter": (CountsFromOne,),
    "masked_choices": (
        IgnoresMask, TurnsMask, MasksWithAFiniteNumber, StopsWithoutChoice, IgnoresUniformNoise, TakesNoiseForGumbels,
    ),
    "sampled": (IgnoresNoise, TakesVariance),
}  # fmt: skip
SEEDS = {"lstm": 5, "counter": 6, "masked_choices": 7, "sampled": 8, "stack": 9}


def check(example: Stepping, module: nn.Module, folder: Path) -> Verification:
    """A module's file against the example's own answers."""
    # numpy refuses what mixes rows.
    target = resolve("onnx" if isinstance(module, PutsBackAllRows) else "numpy")
    file = folder / target.FILE_NAME
    sample = {name: rows[:64] for name, rows in example.chosen().arrays.items()}
    with captured():
        target.export(export_graph(module, example.signature, sample), file, target.Options(), {})
    return verify(target, file, example.signature, example.reference(), TOLERANCE)


@pytest.mark.parametrize("name", STEPPING)
def test_the_right_file_passes(name: str, tmp_path: Path) -> None:
    example = STEPPING[name]()
    found = check(example, example.module, tmp_path)
    assert (found.status, found.message) == ("ok", "")
    assert found.max_error < 1e-5
    assert bool(found.episodes) == bool(example.signature.memory)
    if found.episodes:
        assert (found.episodes["steps"], found.episodes["rows"]) == (200, 8)
        assert max(found.episodes["drift"]) < 1e-5
        assert "200 steps of 8 rows with 51 further episode starts" in found.levels[0].detail


@pytest.mark.parametrize(("name", "bug"), [(name, bug) for name, bugs in BUGS.items() for bug in bugs])
def test_every_seeded_bug_is_caught(name: str, bug: type[nn.Module], tmp_path: Path) -> None:
    example = STEPPING[name]()
    torch.manual_seed(SEEDS[name])
    found = check(example, bug().eval(), tmp_path)
    assert found.status == "mismatch"
    assert found.message
    assert found.max_error > 1e-5
    if example.signature.memory:
        assert "carrying its memory it acts differently" in found.message
