"""The stage of composite actions: one row of decisions, and for each part of the action its own stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlpipe.errors import SpecError, listed
from rlpipe.modules.fields import wholes
from rlpipe.policies.stage import Stage, box, row_of, through
from rlpipe.snapshot.spaces import Box, Dict, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Parts(Stage):
    """A row cut into blocks, one for each leaf of a Dict or Tuple of actions; the only stage of its list.

    Attributes:
        keys: Flat names of the leaves below `action`, in the order of the row.
        widths: Length of each block.
        stages: For each key, from its block to its action.
    """

    keys: tuple[str, ...]
    widths: tuple[int, ...]
    stages: Mapping[str, tuple[Stage, ...]]

    type: ClassVar[str] = "parts"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "widths", wholes(self.widths, where="widths of the stage parts", least=0))
        if len(self.widths) != len(self.keys) or sorted(self.keys) != sorted(self.stages):
            expected = "a width and a list of stages for each key"
            raise SpecError("the stage parts is uneven", expected=expected, found=f"keys {listed(self.keys)}")
        object.__setattr__(self, "stages", {key: tuple(self.stages[key]) for key in sorted(self.keys)})

    def __hash__(self) -> int:
        """Of what is equal where the stages are."""
        return hash((self.keys, self.widths))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, an object with a list of stages for each key."""
        stages = {key: [stage.to_json() for stage in stages] for key, stages in self.stages.items()}
        return {"type": self.type, "keys": list(self.keys), "widths": list(self.widths), "stages": stages}

    @property
    def decides(self) -> bool:  # type: ignore[override]
        """Whether a part makes choices."""
        return any(stage.decides for stages in self.stages.values() for stage in stages)

    def blocks(self) -> list[tuple[str, Box, tuple[Stage, ...]]]:
        """Key, what its stages are given, and the stages, in the order of the row."""
        pairs = zip(self.keys, self.widths, strict=True)
        return [(key, row_of(width), self.stages[key]) for key, width in pairs]

    def output_space(self, space: Space) -> Space:
        """A Dict of the parts by flat name."""
        if box(space, where=self.type).shape != (sum(self.widths),):
            expected = f"{sum(self.widths)} numbers"
            raise SpecError("the stage parts is for another row", expected=expected, found=space.describe())
        return Dict({key: through(stages, block) for key, block, stages in self.blocks()})

    def build(self, space: Space, state: State) -> nn.Module:
        """Nothing of its own; `rlpipe.policies.acting` runs the parts."""
        from torch import nn

        del space, state
        return nn.Identity()
