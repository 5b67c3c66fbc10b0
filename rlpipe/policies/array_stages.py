"""Stages that only rearrange or retype arrays, on either side of the module."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, wholes
from rlpipe.policies.stage import Stage, box, narrow
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.spaces import Box, MultiBinary, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn

_NUMBERS = tuple(name for name, dtype in DTYPES.items() if dtype.kind in "biuf")


@dataclass(frozen=True, slots=True)
class Cast(Stage):
    """Other dtype, same numbers. A float becomes an integer by dropping its fraction; see the stage `round`."""

    dtype: str

    type: ClassVar[str] = "cast"

    def __post_init__(self) -> None:
        """Check the fields."""
        choice(self.dtype, _NUMBERS, where="dtype of the stage cast")

    def output_space(self, space: Space) -> Space:
        """Same bounds in the new dtype."""
        if isinstance(space, MultiBinary):
            return Box.uniform(0, 1, space.shape, self.dtype)
        found = box(space, where=self.type)
        made = np.dtype(self.dtype)
        low, high = (narrow(bound, made) for bound in (found.low, found.high))
        return Box(low, high, made)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Cast(self.dtype)


@dataclass(frozen=True, slots=True)
class Flatten(Stage):
    """All of an observation on one axis, in C order."""

    type: ClassVar[str] = "flatten"

    def output_space(self, space: Space) -> Space:
        """Shape (product of the shape,)."""
        found = box(space, where=self.type)
        return Box(found.low.reshape(-1), found.high.reshape(-1), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Flatten()


@dataclass(frozen=True, slots=True)
class Layout(Stage):
    """Axes in another order: axis i of what comes out is axis `axes[i]` of what goes in; the batch axis stays."""

    axes: tuple[int, ...]

    type: ClassVar[str] = "layout"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "axes", wholes(self.axes, where="axes of the stage layout", least=0))
        if sorted(self.axes) != list(range(len(self.axes))):
            raise SpecError("axes of the stage layout are no order", expected="each axis once", found=str(self.axes))

    def output_space(self, space: Space) -> Space:
        """The shape in the new order."""
        found = box(space, where=self.type)
        if len(found.shape) != len(self.axes):
            expected = f"{len(self.axes)} axes"
            raise SpecError("the stage layout is for other shapes", expected=expected, found=found.describe())
        return Box(found.low.transpose(self.axes), found.high.transpose(self.axes), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Layout(self.axes)


@dataclass(frozen=True, slots=True)
class Reshape(Stage):
    """Another shape behind the batch axis, same elements in C order."""

    shape: tuple[int, ...]

    type: ClassVar[str] = "reshape"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "shape", wholes(self.shape, where="shape of the stage reshape", least=0))

    def output_space(self, space: Space) -> Space:
        """The bounds in the new shape."""
        found = box(space, where=self.type)
        if prod(found.shape) != prod(self.shape):
            expected = f"{prod(self.shape)} elements for {self.shape}"
            raise SpecError("the stage reshape is for another size", expected=expected, found=found.describe())
        return Box(found.low.reshape(self.shape), found.high.reshape(self.shape), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Reshape(self.shape)
