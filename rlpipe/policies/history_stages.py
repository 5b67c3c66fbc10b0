"""Stages before the module that remember: the last frames of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, whole
from rlpipe.policies.stage import Memory, Stage, box
from rlpipe.snapshot.spaces import Box, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn

FILLS = ("first", "zeros")


@dataclass(frozen=True, slots=True)
class FrameStack(Stage):
    """This observation behind the ones before it, the oldest first.

    Attributes:
        count: How many there are in all.
        fill: What stands for those before an episode: its first observation, or zeros.
        axis: They are joined along this axis of an observation; None puts a new axis ahead.
    """

    count: int
    fill: str = "first"
    axis: int | None = 0

    type: ClassVar[str] = "frame_stack"

    def __post_init__(self) -> None:
        """Check the fields."""
        whole(self.count, where="count of the stage frame_stack", least=2)
        choice(self.fill, FILLS, where="fill of the stage frame_stack")
        if self.axis is not None:
            whole(self.axis, where="axis of the stage frame_stack", least=0)

    def memory(self, space: Space) -> tuple[Memory, ...]:
        """The observations before this one, (count - 1, *shape)."""
        found = box(space, where=self.type)
        return (Memory((self.count - 1, *found.shape), found.dtype.name),)

    def output_space(self, space: Space) -> Space:
        """All of them joined; zeros among them where they are filled in."""
        found = box(space, where=self.type)
        if self.axis is not None and self.axis >= len(found.shape):
            expected = f"an axis below {len(found.shape)}, or null"
            raise SpecError("the stage frame_stack has no such axis", expected=expected, found=str(self.axis))
        low, high = (
            (np.minimum(found.low, 0), np.maximum(found.high, 0)) if self.fill == "zeros" else (found.low, found.high)
        )
        ends = [self._joined([bound] * self.count).astype(found.dtype) for bound in (low, high)]
        return Box(ends[0], ends[1], found.dtype)

    def _joined(self, parts: list[np.ndarray]) -> np.ndarray:
        return np.stack(parts) if self.axis is None else np.concatenate(parts, axis=self.axis)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import history_modules

        del space, state
        return history_modules.FrameStack(self.fill, self.axis)
