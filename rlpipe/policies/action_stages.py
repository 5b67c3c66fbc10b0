"""The stages between the module and the action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.modules.fields import whole, wholes
from rlpipe.policies.stage import Stage, box, real, reals
from rlpipe.snapshot.spaces import Box, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn

Reals: TypeAlias = float | tuple[float, ...]
"""One number for all elements, or one for each in C order."""

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class Argmax(Stage):
    """The choice with the highest score, counted from `start`, as int64."""

    start: int = 0

    type: ClassVar[str] = "argmax"
    decides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the fields."""
        whole(self.start, where="start of the stage argmax")

    def output_space(self, space: Space) -> Space:
        """() integers."""
        (count,) = _row(space, where=self.type)
        return Box.uniform(self.start, self.start + count - 1, (), _INT64)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.Argmax(self.start)


@dataclass(frozen=True, slots=True)
class MultiArgmax(Stage):
    """For each block of `nvec[i]` scores the highest one, counted from `start[i]`, as int64."""

    nvec: tuple[int, ...]
    start: tuple[int, ...]

    type: ClassVar[str] = "multi_argmax"
    decides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "nvec", wholes(self.nvec, where="nvec of the stage multi_argmax", least=1))
        object.__setattr__(self, "start", wholes(self.start, where="start of the stage multi_argmax"))
        if not self.nvec or len(self.nvec) != len(self.start):
            expected = "as many numbers in start as in nvec, at least one"
            raise SpecError("the stage multi_argmax is uneven", expected=expected, found=str(self))

    def output_space(self, space: Space) -> Space:
        """(len(nvec),) integers."""
        (count,) = _row(space, where=self.type)
        if count != sum(self.nvec):
            expected = f"{sum(self.nvec)} scores"
            raise SpecError("the stage multi_argmax is for other scores", expected=expected, found=space.describe())
        low = np.array(self.start)
        return Box(low, low + np.array(self.nvec) - 1, _INT64)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.MultiArgmax(self.nvec, self.start)


def _row(space: Space, *, where: str) -> tuple[int]:
    shape = box(space, where=where).shape
    if len(shape) != 1 or shape[0] < 1:
        raise SpecError(f"the stage {where} takes one row of scores", expected="shape (n,)", found=str(shape))
    return (shape[0],)


@dataclass(frozen=True, slots=True)
class Threshold(Stage):
    """1 where the score is above `value`, else 0, as int8."""

    value: float = 0.0

    type: ClassVar[str] = "threshold"
    decides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "value", real(self.value, where="value of the stage threshold"))

    def output_space(self, space: Space) -> Space:
        """0 and 1 at the same shape."""
        return Box.uniform(0, 1, box(space, where=self.type).shape, np.int8)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.Threshold(self.value)


@dataclass(frozen=True, slots=True)
class Clip(Stage):
    """Into the bounds, both included; an infinite bound is none."""

    low: Reals
    high: Reals

    type: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        """Check the fields."""
        _set_reals(self, "low", "high")
        if np.any(np.greater(self.low, self.high)):
            raise SpecError("the stage clip has low above high", expected="low <= high", found=str(self))

    def output_space(self, space: Space) -> Space:
        """The bounds, cut to what comes in."""
        found = box(space, where=self.type)
        low, high = (spread(bound, found, where=self.type) for bound in (self.low, self.high))
        return Box(np.clip(found.low, low, high), np.clip(found.high, low, high), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del state
        found = box(space, where=self.type)
        return action_modules.Clip(*(spread(bound, found, where=self.type) for bound in (self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Tanh(Stage):
    """Hyperbolic tangent."""

    type: ClassVar[str] = "tanh"

    def output_space(self, space: Space) -> Space:
        """-1 to 1."""
        found = box(space, where=self.type)
        return Box.uniform(-1, 1, found.shape, found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.Tanh()


@dataclass(frozen=True, slots=True)
class Unscale(Stage):
    """From -1..1 to low..high: low + 0.5 * (x + 1) * (high - low), never outside the bounds."""

    low: Reals
    high: Reals

    type: ClassVar[str] = "unscale"

    def __post_init__(self) -> None:
        """Check the fields."""
        _set_reals(self, "low", "high")
        if not np.all(np.isfinite(self.low)) or not np.all(np.isfinite(self.high)):
            raise SpecError(
                "the stage unscale needs two bounds",
                expected="finite low and high",
                found=str(self),
                fix="give the action space finite bounds, or use a module whose actions are not squashed",
            )
        if np.any(np.greater(self.low, self.high)):
            raise SpecError("the stage unscale has low above high", expected="low <= high", found=str(self))

    def output_space(self, space: Space) -> Space:
        """The bounds."""
        found = box(space, where=self.type)
        low, high = (spread(bound, found, where=self.type) for bound in (self.low, self.high))
        return Box(low, high, found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del state
        found = box(space, where=self.type)
        return action_modules.Unscale(*(spread(bound, found, where=self.type) for bound in (self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Affine(Stage):
    """x * scale + offset."""

    scale: Reals
    offset: Reals

    type: ClassVar[str] = "affine"

    def __post_init__(self) -> None:
        """Check the fields."""
        _set_reals(self, "scale", "offset")
        if not np.all(np.isfinite(self.scale)) or not np.all(np.isfinite(self.offset)):
            raise SpecError("the stage affine is not finite", expected="finite scale and offset", found=str(self))

    def output_space(self, space: Space) -> Space:
        """The moved bounds."""
        found = box(space, where=self.type)
        scale, offset = (spread(value, found, where=self.type) for value in (self.scale, self.offset))
        with np.errstate(invalid="ignore", over="ignore"):
            ends = [np.where(scale == 0, 0, bound * scale) + offset for bound in (found.low, found.high)]
        return Box(np.minimum(*ends), np.maximum(*ends), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del state
        found = box(space, where=self.type)
        return action_modules.Affine(*(spread(value, found, where=self.type) for value in (self.scale, self.offset)))


@dataclass(frozen=True, slots=True)
class Round(Stage):
    """To the nearest whole number, halves to the even one; the dtype stays."""

    type: ClassVar[str] = "round"

    def output_space(self, space: Space) -> Space:
        """The rounded bounds."""
        found = box(space, where=self.type)
        return Box(np.rint(found.low), np.rint(found.high), found.dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import action_modules

        del space, state
        return action_modules.Round()


def _set_reals(stage: Stage, *names: str) -> None:
    for name in names:
        value = reals(getattr(stage, name), where=f"{name} of the stage {stage.type}")
        object.__setattr__(stage, name, value)


def spread(value: Reals, space: Box, *, where: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The numbers at the shape and in the dtype of a space; one number stays one, of shape ().

    Raises:
        SpecError: Another count of numbers than the space has elements.
    """
    array = np.asarray(value, space.dtype if space.dtype.kind == "f" else np.float64)
    if array.ndim == 0 or array.size == space.low.size:
        return np.broadcast_to(array if array.ndim == 0 else array.reshape(space.shape), space.shape)
    expected = f"one number, or {space.low.size} for {space.describe()}"
    raise SpecError(f"the stage {where} has another count of numbers", expected=expected, found=str(array.size))
