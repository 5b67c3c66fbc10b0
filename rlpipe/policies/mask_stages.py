"""The stage that forbids choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlpipe.errors import SpecError
from rlpipe.modules.fields import wholes
from rlpipe.policies.stage import Stage, box
from rlpipe.snapshot.spaces import Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Mask(Stage):
    """Scores of choices that are not allowed become minus infinity, so that they are never chosen.

    Where nothing of a block is allowed, the block counts as if all of it were.

    Attributes:
        nvec: Length of each block of scores: one for Discrete, several for MultiDiscrete.
        key: Where the mask is: "" for the input `action_mask`, else the flat name of a part of the observation, below
            `obs`. True, or another number than 0, allows.
    """

    nvec: tuple[int, ...]
    key: str = ""

    type: ClassVar[str] = "mask"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "nvec", wholes(self.nvec, where="nvec of the stage mask", least=1))
        if not isinstance(self.key, str):
            raise SpecError("key of the stage mask is no name", expected="text", found=repr(self.key)[:80])

    def output_space(self, space: Space) -> Space:
        """The same scores."""
        found = box(space, where=self.type)
        if found.shape != (sum(self.nvec),):
            expected = f"{sum(self.nvec)} scores"
            raise SpecError("the stage mask is for other scores", expected=expected, found=space.describe())
        return found

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.Mask(self.nvec)
