"""From what a module decides to actions, leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import torch
from torch import nn

from rlpipe.policies.action_modules import Mask
from rlpipe.policies.interface import ActionPart
from rlpipe.policies.stage import build_chain


@dataclass(frozen=True)
class Given:
    """What actions are made of beside the decision.

    Attributes:
        mask: (B, n) bool, what is allowed, if the policy takes a mask.
        noise: (B, k), if actions are drawn.
        log_std: (B, k), if they are drawn from a Gaussian.
    """

    mask: torch.Tensor | None = None
    noise: torch.Tensor | None = None
    log_std: torch.Tensor | None = None


NOTHING = Given()


class Acting(nn.Module):
    """The stages behind the module, of one leaf of the action."""

    def __init__(self, part: ActionPart) -> None:
        super().__init__()
        self.stages = build_chain(part.stages, part.decision, {})
        self.width = prod(part.decision.shape)
        self.deciding = next((index for index, stage in enumerate(part.stages) if stage.decides), None)

    def forward(self, decision: torch.Tensor, given: Given = NOTHING) -> torch.Tensor:
        """(B, k) decisions to (B, ...) actions."""
        if given.noise is not None and given.log_std is not None and self.deciding is None:
            decision = decision + (torch.exp(given.log_std) * given.noise).reshape(decision.shape)
        x = self._before(decision, given)
        for index, stage in enumerate(list(self.stages)[self._first :]):
            if index == 0 and given.noise is not None and self.deciding is not None:
                x = stage.sample(x, given.noise)  # type: ignore[operator]
            else:
                x = stage(x)
        return x

    @property
    def _first(self) -> int:
        return len(self.stages) if self.deciding is None else self.deciding

    def _before(self, decision: torch.Tensor, given: Given) -> torch.Tensor:
        """What comes to the stage that chooses; without one, out of the last."""
        x = decision
        for stage in list(self.stages)[: self._first]:
            x = stage(x, given.mask) if isinstance(stage, Mask) else stage(x)
        return x

    def scores(self, decision: torch.Tensor, given: Given = NOTHING) -> torch.Tensor:
        """What the stage that chooses is given; without one, what the module puts out."""
        return decision if self.deciding is None else self._before(decision, given)

    def margin(self, decision: torch.Tensor, given: Given = NOTHING) -> torch.Tensor:
        """(B,): by how much the least sure choice is ahead of the next; infinite where nothing is chosen."""
        if self.deciding is None:
            return torch.full((decision.shape[0],), inf, device=decision.device)
        margin: torch.Tensor = self.stages[self.deciding].margin(self.scores(decision, given))  # type: ignore[operator]
        return margin


class ActingParts(nn.Module):
    """The stages of all leaves, each with its block of the row."""

    def __init__(self, parts: Sequence[ActionPart]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(Acting(part) for part in parts)
        self.widths = [prod(part.decision.shape) for part in parts]
        self.drawn = [0 if part.decides else width for part, width in zip(parts, self.widths, strict=True)]

    def forward(self, decision: torch.Tensor, given: Given = NOTHING) -> tuple[torch.Tensor, ...]:
        """(B, sum of widths) to the actions of each leaf, (B, ...)."""
        return tuple(
            part(block, Given(noise=noise, log_std=log_std))
            for part, block, noise, log_std in zip(
                self.parts,
                torch.split(decision, self.widths, dim=1),
                self._cut(given.noise, self.widths),
                self._cut(given.log_std, self.drawn),
                strict=True,
            )
        )

    def _cut(self, row: torch.Tensor | None, widths: list[int]) -> Sequence[torch.Tensor | None]:
        return [None] * len(self.widths) if row is None else torch.split(row, widths, dim=1)

    def scores(self, decision: torch.Tensor, given: Given = NOTHING) -> torch.Tensor:
        """The whole row."""
        del given
        return decision

    def margin(self, decision: torch.Tensor, given: Given = NOTHING) -> torch.Tensor:
        """(B,): the least of the leaves' margins."""
        del given
        blocks = zip(self.parts, torch.split(decision, self.widths, dim=1), strict=True)
        return torch.stack([part.margin(block) for part, block in blocks]).amin(dim=0)  # type: ignore[operator]
