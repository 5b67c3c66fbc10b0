from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpaceError
from rlpipe.snapshot.spaces import Box, compare, from_gymnasium
from tests.snapshot.spaces.strategies import boxes

INF = np.inf
FLOAT32_MAX = float(np.finfo(np.float32).max)


def box(low: Any, high: Any, dtype: str = "float32") -> Box:
    return Box(np.array(low, dtype), np.array(high, dtype), np.dtype(dtype))


@given(boxes(), st.integers(0, 5), st.integers(0, 2**32))
def test_samples_and_corners_are_gymnasium_members(gym_box: gym_spaces.Box[Any], n: int, seed: int) -> None:
    ours = from_gymnasium(gym_box)
    for draw in (ours.sample, ours.corners):
        batch = draw(n, np.random.default_rng(seed))
        assert batch.shape == (n, *gym_box.shape)
        assert batch.dtype == gym_box.dtype
        assert np.isfinite(batch).all()
        assert all(gym_box.contains(np.asarray(row)) for row in batch)
        assert ours.contains(batch)


@pytest.mark.parametrize(
    ("low", "high", "mean", "deviation"),
    [(-2.0, 4.0, 1.0, 6 / 12**0.5), (3.0, INF, 4.0, 1.0), (-INF, 3.0, 2.0, 1.0), (-INF, INF, 0.0, 1.0)],
)
def test_reals_are_drawn_as_gymnasium_draws_them(low: float, high: float, mean: float, deviation: float) -> None:
    values = Box.uniform(low, high, (2,), "float64").sample(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(values.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(values.std(0), deviation, atol=0.05)


def test_whole_numbers_are_drawn_from_the_whole_range() -> None:
    rng = np.random.default_rng(0)
    assert set(box([0], [3], "uint8").sample(200, rng).ravel().tolist()) == {0, 1, 2, 3}
    limits = np.iinfo(np.int64)
    far = box([5, limits.min, limits.min], [limits.max, 7, limits.max], "int64").sample(500, rng)
    assert far[:, 0].min() == 5
    assert far[:, 0].max() < 30
    assert far[:, 1].max() == 7
    assert -10 < far[:, 2].min() < 0 < far[:, 2].max() < 10


def test_the_same_seed_draws_the_same() -> None:
    space = box([0, -INF], [1, INF])
    first, second = (space.sample(5, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_corners_begin_with_all_low_and_all_high() -> None:
    rows = box([-1, -INF, 0, 5e3], [2, INF, FLOAT32_MAX, INF]).corners(50, np.random.default_rng(0))
    np.testing.assert_array_equal(rows[0], [-1, -1000, 0, 5000])
    np.testing.assert_array_equal(rows[1], [2, 1000, 1000, 5000])
    assert [len(set(column)) for column in rows.T.tolist()] == [2, 2, 2, 1]


def test_corners_of_small_types_are_their_limits() -> None:
    rows = box([0], [255], "uint8").corners(2, np.random.default_rng(0))
    assert rows.ravel().tolist() == [0, 255]


@pytest.mark.parametrize(
    ("batch", "inside"),
    [
        (np.zeros((3, 2), np.float32), True),
        (np.zeros((0, 2), np.float32), True),
        (np.ones((1, 2), np.float16), True),
        (np.zeros((3, 2), np.float64), False),
        (np.zeros(2, np.float32), False),
        (np.zeros((3, 3), np.float32), False),
        (np.full((1, 2), 1.5, np.float32), False),
        (np.full((1, 2), np.nan, np.float32), False),
    ],
)
def test_contains(batch: Any, inside: bool) -> None:
    assert Box.uniform(-1, 1, (2,)).contains(batch) is inside


def test_bounds_are_read_only_copies() -> None:
    low = np.zeros(2, np.float32)
    space = Box(low, np.ones(2, np.float32), np.dtype("float32"))
    low[:] = 9
    assert space.low.tolist() == [0, 0]
    for bound in (space.low, space.high):
        with pytest.raises(ValueError, match="read-only"):
            bound[0] = 5


def test_bits_of_bounds_decide_equality() -> None:
    assert box([0.0], [1]) != box([-0.0], [1])
    assert box([0.0], [1]) != box([0.0], [1], "float64")
    assert box([0.0], [1]) != box([0.0], [np.nextafter(np.float32(1), np.float32(2))])
    assert box([0.0, 0.0], [1, 1]) == Box.uniform(0, 1, (2,))


def test_big_endian_bounds_become_native() -> None:
    assert Box(np.array([0], ">f4"), np.array([1], ">f4"), np.dtype(">f4")) == box([0], [1])


def test_boxes_copy_and_pickle() -> None:
    space = box([-INF, 0], [1, 1])
    assert copy.deepcopy(space) == space
    assert pickle.loads(pickle.dumps(space)) == space


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Box.uniform(-4.8, 4.8, (4,)), "Box(-4.8..4.8, (4,), float32)"),
        (Box.uniform(-INF, FLOAT32_MAX, (4,)), "Box(-inf..inf, (4,), float32)"),
        (box([-1, 0], [1, 5]), "Box([-1, 0]..[1, 5], (2,), float32)"),
        (Box.uniform(0, 255, (84, 84, 4), "uint8"), "Box(0..255, (84, 84, 4), uint8)"),
        (Box.uniform(0, 1, (), "bool"), "Box(0..1, (), bool)"),
        (Box.uniform(0, 1, (0,)), "Box(0..0, (0,), float32)"),
    ],
)
def test_describe(space: Box, text: str) -> None:
    assert space.describe() == text


def findings(expected: Box, found: Box, use: Any) -> list[tuple[str, str]]:
    return [
        (finding.severity, finding.text.split(":")[0].split(" of ")[0]) for finding in compare(expected, found, use=use)
    ]


@pytest.mark.parametrize(
    ("found", "as_observation", "as_action"),
    [
        (box([-1, -1], [1, 1]), [], []),
        (box([-1, -1, -1], [1, 1, 1]), [("error", "shape")], [("error", "shape")]),
        (box([-1, -2], [1, 1]), [("warning", "bounds")], [("error", "bounds")]),
        (box([-1, -1], [1, 1], "float64"), [("warning", "dtype")], [("warning", "dtype")]),
        (box([-1, -1], [1, 1], "int8"), [("warning", "dtype")], [("error", "dtype")]),
    ],
)
def test_compare(found: Box, as_observation: Any, as_action: Any) -> None:
    expected = box([-1, -1], [1, 1])
    assert findings(expected, found, "observation") == as_observation
    assert findings(expected, found, "action") == as_action


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (box([-INF], [INF]), box([-FLOAT32_MAX], [FLOAT32_MAX])),
        (box([-INF], [INF], "float64"), box([-FLOAT32_MAX], [FLOAT32_MAX], "float64")),
        (box([-(2**63)], [2**63 - 1], "int64"), box([-(2**63) + 2], [2**63 - 3], "int64")),
    ],
)
def test_an_infinite_bound_is_the_largest_number(expected: Box, found: Box) -> None:
    assert compare(expected, found, use="action") == []


def test_a_bound_rounded_to_another_precision_is_the_same() -> None:
    assert findings(box([0.1], [0.3]), box([0.1], [0.3], "float64"), "action") == [("warning", "dtype")]


def test_the_first_element_that_differs_is_named() -> None:
    (finding,) = compare(box([[0, 0], [0, 0]], [[1, 1], [1, 1]]), box([[0, 0], [0, 0]], [[1, 1], [2, 3]]))
    assert finding.text == "bounds of 2 of 4 elements, first at [1, 0]: expected 0..1, found 0..2"


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        ([0.0], [[1.0]], "float32"),
        ([0.5], [1], "int8"),
        ([np.nan], [1], "float32"),
        ([0], [1], "float128"),
        ([0], [1], "U3"),
    ],
)
def test_wrong_boxes_are_refused(low: Any, high: Any, dtype: str) -> None:
    with pytest.raises(SpaceError):
        Box(np.array(low), np.array(high), np.dtype(dtype))
