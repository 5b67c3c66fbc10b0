"""What a stage is: one step between observation and module, or between module and action, as data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from math import inf, isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.snapshot.spaces import Box, Space
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn

    from rlpipe.policies.history_modules import Chain

_INFINITE = {"inf": inf, "-inf": -inf}


@dataclass(frozen=True, slots=True)
class Memory:
    """An array that is carried through an episode; zeros before one.

    Attributes:
        shape: Without the batch.
        dtype: A numpy dtype name.
        name: What the module calls it; "" for that of a stage.
    """

    shape: tuple[int, ...]
    dtype: str
    name: str = ""


class Stage(ABC):
    """One step. Stages are frozen dataclasses; their fields are their JSON.

    Attributes:
        type: Name of the stage in JSON, and of its statistics in the state of a policy.
        decides: Whether it makes choices out of scores, so that a tie in the scores is a tie of actions.
    """

    __slots__ = ()

    type: ClassVar[str]
    decides: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: `type` and the fields; infinite numbers as "inf" and "-inf"."""
        return {"type": self.type, **{field.name: plain(getattr(self, field.name)) for field in fields(self)}}  # type: ignore[arg-type]

    @abstractmethod
    def output_space(self, space: Space) -> Space:
        """The space of what comes out when values of `space` go in.

        Raises:
            SpecError: The stage cannot take such values.
        """

    def initial_state(self, space: Space) -> State:
        """Statistics of a stage that has seen nothing; {} where it keeps none. float64 arrays."""
        del space
        return {}

    def memory(self, space: Space) -> tuple[Memory, ...]:
        """What is carried through an episode, in the order in which it is used; () for most stages."""
        del space
        return ()

    @abstractmethod
    def build(self, space: Space, state: State) -> nn.Module:
        """The torch module of the stage: (B, ...) values of `space` in, (B, ...) values of `output_space` out.

        Raises:
            NormalizerError: Statistics that cannot normalise.
        """


def plain(value: Any) -> Any:
    """A field as JSON."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and value in (inf, -inf):
        return "inf" if value > 0 else "-inf"
    return value


def real(value: Any, *, where: str) -> float:
    """The number as a float; "inf" and "-inf" are numbers too.

    Raises:
        SpecError: It is none.
    """
    if isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or isnan(value):
        raise SpecError(f"{where} is no number", expected='a number, "inf" or "-inf"', found=repr(value)[:80])
    return float(value)


def reals(value: Any, *, where: str) -> float | tuple[float, ...]:
    """One number for all elements, or a tuple with one for each in C order; equal ones become one.

    Raises:
        SpecError: Neither a number nor a list of numbers.
    """
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if not isinstance(value, (list, tuple)):
        return real(value, where=where)
    numbers = tuple(real(item, where=f"{where}[{index}]") for index, item in enumerate(value))
    if not numbers:
        raise SpecError(f"{where} is empty", expected="a number, or one for each element", found="[]")
    return numbers[0] if len(set(numbers)) == 1 else numbers


@cache
def row_of(width: int) -> Box:
    """A row of any numbers, float32: what a module decides. One for all who ask."""
    return Box.uniform(-inf, inf, (width,))


def box(space: Space, *, where: str) -> Box:
    """The space if its values are arrays of numbers between bounds.

    Raises:
        SpecError: They are not.
    """
    if isinstance(space, Box):
        return space
    raise SpecError(f"the stage {where} cannot take this space", expected="a Box", found=space.describe())


def narrow(bound: Any, dtype: np.dtype[Any]) -> Any:
    """A bound in another dtype; what the dtype cannot hold becomes its limit."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bound.astype(dtype)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    inside = (bound > least) & (bound < most)
    limits = np.where(bound <= least, least, most).astype(dtype)
    return np.where(inside, np.where(inside, bound, 0).astype(dtype), limits)


def through(stages: Iterable[Stage], space: Space) -> Space:
    """The space of what comes out of the last stage when values of `space` go into the first.

    Raises:
        SpecError: A stage cannot take what comes to it.
    """
    for stage in stages:
        space = stage.output_space(space)
    return space


def initial_states(stages: Iterable[Stage], space: Space) -> State:
    """Statistics of stages that have seen nothing: stage type -> its state, for the stages that keep some.

    Raises:
        SpecError: Two stages of one type keep statistics, so that the state could not tell them apart.
    """
    states: State = {}
    for stage in stages:
        state = stage.initial_state(space)
        if state and stage.type in states:
            raise SpecError(f"two stages {stage.type} in one list keep statistics", expected="one", found="two")
        states.update({stage.type: state} if state else {})
        space = stage.output_space(space)
    return states


def memories(stages: Iterable[Stage], space: Space) -> tuple[Memory, ...]:
    """What the stages carry through an episode, in the order in which they run."""
    found: list[Memory] = []
    for stage in stages:
        found.extend(stage.memory(space))
        space = stage.output_space(space)
    return tuple(found)


def build_chain(stages: Iterable[Stage], space: Space, state: State) -> Chain:
    """The torch modules of the stages in a row; see `Stage.build`."""
    from rlpipe.policies.history_modules import Chain

    modules = []
    for stage in stages:
        modules.append(stage.build(space, state.get(stage.type, {})))
        space = stage.output_space(space)
    return Chain(*modules)
