"""Spaces of gymnasium, pickled by Python and read by the restricted reader, are rlpipe's spaces of the same values."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import loads
from rlpipe.importers.restricted.values import Record
from rlpipe.snapshot.spaces import Discrete, Space, from_gymnasium
from tests.importers.pickles import pickled_as

SPACES: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "bounds per element": spaces.Box(np.array([-1.0, -np.inf]), np.array([0.1, np.inf]), dtype=np.float64),
    "bytes": spaces.Box(0, 255, (3, 4, 5), np.uint8),
    "no axis": spaces.Box(-1, 1, (), np.float32),
    "discrete": spaces.Discrete(3),
    "discrete from -2": spaces.Discrete(3, start=-2),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-discrete from": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "multi-binary": spaces.MultiBinary(4),
    "multi-binary rows": spaces.MultiBinary([2, 3]),
    "dict": spaces.Dict(b=spaces.Discrete(2), a=spaces.Box(0, 1, (2,), np.float32)),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Dict(x=spaces.MultiBinary(2)))),
}


def read(data: bytes) -> Space:
    return space_of(loads(data, subject="it", known=KNOWN), subject="the space")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", SPACES)
def test_spaces_come_back(name: str, protocol: int) -> None:
    assert read(pickle.dumps(SPACES[name], protocol)) == from_gymnasium(SPACES[name])


@pytest.mark.parametrize("name", SPACES)
def test_a_random_generator_in_a_space_does_not_matter(name: str) -> None:
    space = SPACES[name]
    space.seed(1)
    assert read(pickle.dumps(space)) == from_gymnasium(space)


def test_spaces_of_gym_without_newer_attributes_come_back() -> None:
    assert read(pickled_as("gym.spaces.discrete.Discrete", {"n": 4})) == Discrete(4)


BROKEN = {
    "another class": pickled_as("mine.Space", {"n": 3}),
    "another library's": pickled_as("mine.spaces.Discrete", {"n": 3}),
    "another kind": pickled_as("gymnasium.spaces.graph.Graph", {"n": 3}),
    "no bounds": pickled_as("gymnasium.spaces.box.Box", {"low": None}),
    "no count": pickled_as("gymnasium.spaces.discrete.Discrete", {}),
    "a count of 0": pickled_as("gymnasium.spaces.discrete.Discrete", {"n": 0}),
    "bounds the wrong way": pickled_as("gym.spaces.box.Box", {"low": np.ones(2, "f4"), "high": np.zeros(2, "f4")}),
    "no spaces": pickled_as("gymnasium.spaces.dict.Dict", {"spaces": None}),
    "a number": pickle.dumps(3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_space_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ForeignFormatError) as caught:
        read(BROKEN[name])
    assert "the space" in caught.value.subject
    assert caught.value.found


def test_a_few_parts_do_not_stand_for_endlessly_many() -> None:
    part = Record("gymnasium.spaces.discrete.Discrete", state={"n": 2})
    for _ in range(60):
        part = Record("gymnasium.spaces.tuple.Tuple", state={"spaces": (part, part)})
    with pytest.raises(ForeignFormatError, match="parts"):
        space_of(part, subject="it")
