"""The stages that remember, as torch modules, and what they are handed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from rlpipe.policies.stage_modules import StageModule


class Past:
    """What stages remember, handed out in the order in which they run, and what they keep for the next step.

    Attributes:
        begins: (B,) bool, where an episode begins.
        kept: What was kept so far.
    """

    def __init__(self, given: Iterable[torch.Tensor], begins: torch.Tensor | None) -> None:
        self._given = iter(given)
        self._begins = begins
        self.kept: list[torch.Tensor] = []

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The next stage's memory (B, ...), and where it begins anew, with as many axes."""
        memory = next(self._given)
        begins = self._begins
        if begins is None:
            raise RuntimeError("a stage remembers, and nobody says where episodes begin")
        return memory, begins.reshape(-1, *[1] * (memory.dim() - 1))

    def keep(self, memory: torch.Tensor) -> None:
        """What the stage will be handed at the next step."""
        self.kept.append(memory)


NOTHING = Past((), None)
"""For stages that remember nothing."""


class Chain(nn.Sequential):
    """Stages in a row; those that remember are handed their past."""

    def forward(self, input: Any, past: Past = NOTHING) -> Any:  # noqa: A002 - the name of nn.Sequential
        """What comes out of the last stage."""
        for stage in self:
            input = stage(input, past) if isinstance(stage, Remembering) else stage(input)  # noqa: A001
        return input


class Remembering(StageModule):
    """A stage whose `forward` takes the past too."""


class FrameStack(Remembering):
    """Observations behind the ones before them."""

    def __init__(self, fill: str, axis: int | None) -> None:
        super().__init__()
        self.fill, self.axis = fill, axis

    def forward(self, x: torch.Tensor, past: Past) -> torch.Tensor:
        """(B, ...) to (B, ...) with the ones before along an axis."""
        frames, begins = past.take()
        now = x.unsqueeze(1)
        before = now.expand_as(frames) if self.fill == "first" else torch.zeros_like(frames)
        stack = torch.cat([torch.where(begins, before, frames), now], dim=1)
        past.keep(stack[:, 1:])
        if self.axis is None:
            return stack
        return torch.cat([stack[:, index] for index in range(stack.shape[1])], dim=self.axis + 1)


class PerKey(Remembering):
    """A chain of stages for each part."""

    def __init__(self, keys: Iterable[Any], chains: Iterable[nn.Module]) -> None:
        super().__init__()
        self.keys = tuple(keys)
        self.chains = nn.ModuleList(chains)

    def forward(self, parts: Any, past: Past) -> dict[str, Any]:
        """Parts by key or index to a dict of what their chains make of them."""
        return {str(key): chain(parts[key], past) for key, chain in zip(self.keys, self.chains, strict=True)}
