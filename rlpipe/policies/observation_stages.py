"""Stages before the module that know what the numbers mean: choices, scales, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, wholes
from rlpipe.policies.stage import Stage, box, narrow, real
from rlpipe.snapshot.spaces import Box, Discrete, MultiDiscrete, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn

FORMULAS = ("var_eps", "std_eps")


@dataclass(frozen=True, slots=True)
class OneHot(Stage):
    """Each choice as a block of `nvec[i]` numbers, 1 at the chosen one; blocks behind each other. float32."""

    nvec: tuple[int, ...]
    start: tuple[int, ...]

    type: ClassVar[str] = "one_hot"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "nvec", wholes(self.nvec, where="nvec of the stage one_hot", least=1))
        object.__setattr__(self, "start", wholes(self.start, where="start of the stage one_hot"))
        require_pairs(self.nvec, self.start, where=self.type)

    def output_space(self, space: Space) -> Space:
        """(sum(nvec),) numbers of 0 and 1."""
        if not isinstance(space, (Discrete, MultiDiscrete)):
            found = space.describe()
            raise SpecError("the stage one_hot cannot take this space", expected="Discrete, MultiDiscrete", found=found)
        if choices(space) != (self.nvec, self.start):
            raise SpecError("the stage one_hot is for other choices", expected=space.describe(), found=str(self))
        return Box.uniform(0, 1, (sum(self.nvec),))

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import observation_modules

        del space, state
        return observation_modules.OneHot(self.nvec, self.start)


def choices(space: Discrete | MultiDiscrete) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Count and first number of each choice of a space, in C order."""
    if isinstance(space, Discrete):
        return (space.n,), (space.start,)
    return tuple(space.nvec.reshape(-1).tolist()), tuple(space.start.reshape(-1).tolist())


def require_pairs(nvec: tuple[int, ...], start: tuple[int, ...], *, where: str) -> None:
    """Check that counts and first numbers pair up.

    Raises:
        SpecError: They do not.
    """
    if not nvec or len(nvec) != len(start):
        expected = "as many numbers in start as in nvec, at least one"
        raise SpecError(f"the stage {where} is uneven", expected=expected, found=f"nvec {nvec}, start {start}")


@dataclass(frozen=True, slots=True)
class Scale(Stage):
    """(x - offset) / divisor, as float32."""

    divisor: float
    offset: float = 0.0

    type: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("divisor", "offset"):
            object.__setattr__(self, name, real(getattr(self, name), where=f"{name} of the stage scale"))
        if self.divisor in (0, inf, -inf) or self.offset in (inf, -inf):
            raise SpecError("the stage scale cannot divide", expected="finite numbers, divisor not 0", found=str(self))

    def output_space(self, space: Space) -> Space:
        """The scaled bounds, float32."""
        found = box(space, where=self.type)
        ends = [(bound.astype(np.float64) - self.offset) / self.divisor for bound in (found.low, found.high)]
        low, high = ends if self.divisor > 0 else reversed(ends)
        return Box(narrow(low, np.dtype(np.float32)), narrow(high, np.dtype(np.float32)), np.dtype(np.float32))

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import observation_modules

        del state
        return observation_modules.Scale(self.divisor, self.offset, box(space, where=self.type).dtype)


@dataclass(frozen=True, slots=True)
class Normalize(Stage):
    """(x - mean) over a deviation, optionally clipped, as float32. Statistics are float64 arrays in the state.

    Attributes:
        formula: "var_eps": (x - mean) / sqrt(var + eps). "std_eps": (x - mean) / (std + eps).
        eps: What keeps the division finite.
        clip: Bound on the size of the result, or None.
    """

    formula: str
    eps: float
    clip: float | None

    type: ClassVar[str] = "normalize"

    def __post_init__(self) -> None:
        """Check the fields."""
        choice(self.formula, FORMULAS, where="formula of the stage normalize")
        object.__setattr__(self, "eps", real(self.eps, where="eps of the stage normalize"))
        if self.clip is not None:
            object.__setattr__(self, "clip", real(self.clip, where="clip of the stage normalize"))
        if not 0 <= self.eps < inf or (self.clip is not None and not 0 < self.clip < inf):
            expected = "eps of at least 0, clip above 0 or null"
            raise SpecError("numbers of the stage normalize are out of range", expected=expected, found=str(self))

    @property
    def spread(self) -> str:
        """Name of the second statistic: var or std."""
        return self.formula.removesuffix("_eps")

    def output_space(self, space: Space) -> Space:
        """Same shape, float32, within the clip."""
        bound = inf if self.clip is None else self.clip
        return Box.uniform(-bound, bound, box(space, where=self.type).shape)

    def initial_state(self, space: Space) -> State:
        """Mean 0, variance (or deviation) 1: `{"mean": (shape), "var" | "std": (shape)}`."""
        shape = box(space, where=self.type).shape
        return {"mean": np.zeros(shape), self.spread: np.ones(shape)}

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import observation_modules

        return observation_modules.normalize(
            self.formula, self.eps, self.clip, box(space, where=self.type).dtype, state
        )
