"""Stages for observations of several parts: each part on its own, then all in one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from rlpipe.errors import SpecError, listed
from rlpipe.policies.stage import Memory, Stage, box, build_chain, initial_states, memories, through
from rlpipe.snapshot.spaces import Box, Dict, Space, Tuple
from rlpipe.snapshot.state import State

if TYPE_CHECKING:
    from torch import nn


Parts: TypeAlias = tuple[tuple[str, tuple[Stage, ...]], ...]


@dataclass(frozen=True, slots=True)
class PerKey(Stage):
    """Stages for every key of a Dict, or for every index ("0", "1", ...) of a Tuple; the result is a dict.

    Attributes:
        stages: Pairs of key and stages, sorted by key; a mapping is taken too.
    """

    stages: Parts | Mapping[str, tuple[Stage, ...]]

    type: ClassVar[str] = "per_key"

    def __post_init__(self) -> None:
        """Check the stages and sort by key."""
        given = self.stages
        pairs = tuple(given.items() if isinstance(given, Mapping) else given if isinstance(given, tuple) else ())
        good = all(isinstance(key, str) and all(isinstance(stage, Stage) for stage in stages) for key, stages in pairs)
        if not good or not isinstance(given, (Mapping, tuple)):
            expected = "a mapping of keys to lists of stages"
            raise SpecError("stages of the stage per_key are none", expected=expected, found=repr(given)[:80])
        object.__setattr__(self, "stages", tuple(sorted((key, tuple(stages)) for key, stages in pairs)))

    @property
    def parts(self) -> Parts:
        """The pairs, whatever they were given as."""
        return tuple(self.stages.items()) if isinstance(self.stages, Mapping) else self.stages

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, an object with a list of stages for each key."""
        parts = {key: [stage.to_json() for stage in stages] for key, stages in self.parts}
        return {"type": self.type, "stages": parts}

    def output_space(self, space: Space) -> Space:
        """A Dict of what comes out for each key."""
        return Dict({key: through(stages, part) for key, stages, part in self._parts(space)})

    def initial_state(self, space: Space) -> State:
        """The statistics of each key that has some."""
        states = {key: initial_states(stages, part) for key, stages, part in self._parts(space)}
        return {key: state for key, state in states.items() if state}

    def memory(self, space: Space) -> tuple[Memory, ...]:
        """What the stages of each key remember, by key."""
        return tuple(memory for _, stages, part in self._parts(space) for memory in memories(stages, part))

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import history_modules

        names: tuple[Any, ...] = tuple(key for key, _ in self.parts)
        if isinstance(space, Tuple):
            names = tuple(map(int, names))
        chains = [build_chain(stages, part, state.get(key, {})) for key, stages, part in self._parts(space)]
        return history_modules.PerKey(names, chains)

    def _parts(self, space: Space) -> list[tuple[str, tuple[Stage, ...], Space]]:
        parts = keyed(space)
        keys = {key for key, _ in self.parts}
        if keys != parts.keys():
            raise SpecError(
                "the stage per_key does not name the keys of its space", expected=listed(parts), found=listed(keys)
            )
        return [(key, stages, parts[key]) for key, stages in self.parts]


def keyed(space: Space) -> dict[str, Space]:
    """The spaces inside a Dict or a Tuple by key or index.

    Raises:
        SpecError: The space is neither.
    """
    if isinstance(space, Dict):
        return dict(space.spaces)
    if isinstance(space, Tuple):
        return {str(index): part for index, part in enumerate(space.spaces)}
    raise SpecError("the stage per_key cannot take this space", expected="Dict, Tuple", found=space.describe())


@dataclass(frozen=True, slots=True)
class Concat(Stage):
    """The parts of a dict behind each other on one axis, each flattened in C order; all of one dtype.

    Attributes:
        keys: Every key once, in the order of the row.
    """

    keys: tuple[str, ...]

    type: ClassVar[str] = "concat"

    def __post_init__(self) -> None:
        """Check the fields."""
        keys = self.keys
        if not isinstance(keys, (list, tuple)) or not keys or not all(isinstance(key, str) for key in keys):
            raise SpecError("keys of the stage concat are no keys", expected="a list of names", found=repr(keys)[:80])
        object.__setattr__(self, "keys", tuple(keys))

    def output_space(self, space: Space) -> Space:
        """(sum of the parts' sizes,)."""
        if not isinstance(space, Dict) or sorted(self.keys) != list(space.spaces):
            raise SpecError(
                "the stage concat does not name the keys of its space, each once",
                expected=space.describe(),
                found=listed(self.keys),
                fix="put a stage per_key before it, and name its keys",
            )
        parts = [box(space.spaces[key], where=f"concat at {key}") for key in self.keys]
        if len(dtypes := {part.dtype for part in parts}) > 1:
            raise SpecError("the stage concat joins one dtype", expected="equal dtypes", found=listed(map(str, dtypes)))
        low, high = (np.concatenate([bound.reshape(-1) for bound in bounds]) for bounds in _bounds(parts))
        return Box(low, high, parts[0].dtype)

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Concat(self.keys)


def _bounds(parts: list[Box]) -> tuple[list[Any], list[Any]]:
    return [part.low for part in parts], [part.high for part in parts]


@dataclass(frozen=True, slots=True)
class Pick(Stage):
    """Some parts of a Dict; the others are for something else, such as a mask.

    Attributes:
        keys: The keys that are kept, each once.
    """

    keys: tuple[str, ...]

    type: ClassVar[str] = "pick"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.keys, (list, tuple)) or not self.keys or len(set(self.keys)) != len(self.keys):
            expected = "a list of names, each once"
            raise SpecError("keys of the stage pick are no keys", expected=expected, found=repr(self.keys)[:80])
        object.__setattr__(self, "keys", tuple(sorted(self.keys)))

    def output_space(self, space: Space) -> Space:
        """A Dict of the keys that are kept."""
        if not isinstance(space, Dict) or not set(self.keys) <= space.spaces.keys():
            expected = f"a Dict with {listed(self.keys)}"
            raise SpecError("the stage pick names keys that are not there", expected=expected, found=space.describe())
        return Dict({key: space.spaces[key] for key in self.keys})

    def build(self, space: Space, state: State) -> nn.Module:
        """See `Stage.build`."""
        from rlpipe.policies import stage_modules

        del space, state
        return stage_modules.Pick(self.keys)
