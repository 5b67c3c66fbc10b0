from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.snapshot.spaces import Text, compare, from_gymnasium
from tests.snapshot.spaces.strategies import texts


@given(texts(), st.integers(0, 5), st.integers(0, 2**32))
def test_samples_and_corners_are_gymnasium_members(gym_space: Any, n: int, seed: int) -> None:
    ours = from_gymnasium(gym_space)
    for draw in (ours.sample, ours.corners):
        batch = draw(n, np.random.default_rng(seed))
        assert batch.shape == (n,)
        assert all(gym_space.contains(text) for text in batch.tolist())
        assert ours.contains(batch)


def test_all_lengths_and_characters_are_drawn() -> None:
    rows = Text(0, 2, "ab").sample(200, np.random.default_rng(0)).tolist()
    assert set(rows) == {"", "a", "b", "aa", "ab", "ba", "bb"}


@pytest.mark.parametrize(
    ("batch", "inside"),
    [(["a", "ab"], True), ([""], False), (["abb"], False), (["c"], False), ([1], False), ("a", False)],
)
def test_contains(batch: Any, inside: bool) -> None:
    assert Text(1, 2, "ab").contains(np.array(batch)) is inside


def test_describe() -> None:
    assert Text(1, 8, "abc").describe() == "Text(1..8, 3 characters)"


def test_compare() -> None:
    found = compare(Text(1, 2, "ab"), Text(0, 3, "abc"))
    assert [finding.severity for finding in found] == ["error"] * 3
    assert [finding.text.split(":")[0] for finding in found] == ["min_length", "max_length", "charset"]
