from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpaceError
from rlpipe.snapshot.spaces import Discrete, MultiBinary, MultiDiscrete, Space, compare, from_gymnasium
from tests.snapshot.spaces.strategies import discretes, multi_binaries, multi_discretes


@given(st.one_of(discretes(), multi_discretes(), multi_binaries), st.integers(0, 5), st.integers(0, 2**32))
def test_samples_and_corners_are_gymnasium_members(gym_space: Any, n: int, seed: int) -> None:
    ours = from_gymnasium(gym_space)
    for draw in (ours.sample, ours.corners):
        batch = draw(n, np.random.default_rng(seed))
        assert batch.shape == (n, *gym_space.shape)
        assert batch.dtype == gym_space.dtype
        assert all(gym_space.contains(row) for row in batch)
        assert ours.contains(batch)


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (Discrete(3, start=-1), {-1, 0, 1}),
        (MultiDiscrete(np.array([3]), np.array([5])), {5, 6, 7}),
        (MultiBinary((1,)), {0, 1}),
    ],
)
def test_every_value_is_drawn(space: Space, values: set[int]) -> None:
    rng = np.random.default_rng(0)
    assert set(space.sample(100, rng).ravel().tolist()) == values
    assert set(space.corners(100, rng).ravel().tolist()) == {min(values), max(values)}


@pytest.mark.parametrize(
    ("space", "batch", "inside"),
    [
        (Discrete(2), np.array([0, 1]), True),
        (Discrete(2), np.array([0, 1], np.int8), True),
        (Discrete(2), np.array([0.0]), False),
        (Discrete(2), np.array([2]), False),
        (Discrete(2, start=1), np.array([0]), False),
        (Discrete(2), np.array(1), False),
        (Discrete(2), np.array([[1]]), False),
        (MultiDiscrete(np.array([2, 3])), np.array([[1, 2]]), True),
        (MultiDiscrete(np.array([2, 3])), np.array([[2, 2]]), False),
        (MultiBinary((2,)), np.array([[1, 0]]), True),
        (MultiBinary((2,)), np.array([[1, 2]]), False),
        (MultiBinary((2,)), np.array([1, 0]), False),
    ],
)
def test_contains(space: Space, batch: Any, inside: bool) -> None:
    assert space.contains(batch) is inside


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Discrete(2), "Discrete(2)"),
        (Discrete(3, start=-1), "Discrete(3, start=-1)"),
        (Discrete(3, dtype=np.dtype("int32")), "Discrete(3, int32)"),
        (MultiDiscrete(np.array([2, 3])), "MultiDiscrete([2, 3])"),
        (MultiDiscrete(np.array([2, 3]), np.array([0, 1])), "MultiDiscrete([2, 3], start=[0, 1])"),
        (MultiBinary((4,)), "MultiBinary(4)"),
        (MultiBinary((2, 2)), "MultiBinary((2, 2))"),
    ],
)
def test_describe(space: Space, text: str) -> None:
    assert space.describe() == text


@pytest.mark.parametrize("use", ["observation", "action"])
@pytest.mark.parametrize(
    ("expected", "found", "findings"),
    [
        (Discrete(2), Discrete(2), []),
        (Discrete(2), Discrete(3), ["error count: expected 2, found 3"]),
        (Discrete(2), Discrete(2, start=1), ["error start: expected 0, found 1"]),
        (Discrete(2), Discrete(2, dtype=np.dtype("int32")), ["warning dtype: expected int64, found int32"]),
        (Discrete(2), MultiBinary((1,)), ["error expected Discrete(2), found MultiBinary(1)"]),
        (
            MultiDiscrete(np.array([2, 3])),
            MultiDiscrete(np.array([2, 4]), np.array([0, 1])),
            ["error counts: expected [2, 3], found [2, 4]", "error start: expected [0, 0], found [0, 1]"],
        ),
        (MultiDiscrete(np.array([2])), MultiDiscrete(np.array([2, 2])), ["error counts: expected [2], found [2, 2]"]),
        (MultiBinary((2,)), MultiBinary((3,)), ["error shape: expected (2,), found (3,)"]),
    ],
)
def test_compare(expected: Space, found: Space, use: Any, findings: list[str]) -> None:
    assert [f"{finding.severity} {finding.text}" for finding in compare(expected, found, use=use)] == findings


def test_counts_are_read_only_copies() -> None:
    nvec = np.array([2, 3])
    space = MultiDiscrete(nvec)
    nvec[:] = 9
    assert space.nvec.tolist() == [2, 3]
    with pytest.raises(ValueError, match="read-only"):
        space.nvec[0] = 5


def test_counts_of_numpy_are_whole_numbers() -> None:
    assert Discrete(np.int64(3), start=np.int32(1)) == Discrete(3, start=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Discrete, (2.5,)),
        (Discrete, ("2",)),
        (Discrete, (2**63, 1)),
        (MultiBinary, ("ab",)),
        (MultiDiscrete, ([[2], [3.5]],)),
    ],
)
def test_wrong_spaces_are_refused(kind: Any, fields: Any) -> None:
    with pytest.raises(SpaceError):
        kind(*fields)
