from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpaceError
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, Tuple, compare, from_gymnasium
from tests.snapshot.spaces.strategies import gymnasium_spaces

NEST = Dict({"b": Tuple((Discrete(2), MultiBinary((2,)))), "a": Box.uniform(0, 1, (3,))})


@given(gymnasium_spaces, st.integers(0, 3), st.integers(0, 2**32))
def test_samples_and_corners_are_members(gym_space: Any, n: int, seed: int) -> None:
    ours = from_gymnasium(gym_space)
    for draw in (ours.sample, ours.corners):
        assert ours.contains(draw(n, np.random.default_rng(seed)))


def test_batches_have_the_form_of_the_space() -> None:
    batch = NEST.sample(4, np.random.default_rng(0))
    assert list(batch) == ["a", "b"]
    assert batch["a"].shape == (4, 3)
    assert isinstance(batch["b"], tuple)
    assert [part.shape for part in batch["b"]] == [(4,), (4, 2)]


def test_parts_of_unequal_length_are_no_batch() -> None:
    batch = NEST.sample(4, np.random.default_rng(0))
    assert not NEST.contains({**batch, "a": batch["a"][:2]})


def test_a_wrong_part_is_not_contained() -> None:
    batch = NEST.sample(4, np.random.default_rng(0))
    assert not NEST.contains({**batch, "a": batch["a"] + 5})


def test_describe() -> None:
    assert NEST.describe() == "Dict(a: Box(0..1, (3,), float32), b: Tuple(Discrete(2), MultiBinary(2)))"


def test_compare_names_the_part() -> None:
    found = Dict({"b": Tuple((Discrete(3),)), "c": Discrete(2)})
    assert [f"{finding.severity} {finding.text}" for finding in compare(NEST, found)] == [
        "error a: expected Box(0..1, (3,), float32), found nothing",
        "error b: 0: count: expected 2, found 3",
        "error b: 1: expected MultiBinary(2), found nothing",
        "error c: expected nothing, found Discrete(2)",
    ]


def test_the_order_of_keys_is_nothing() -> None:
    one, other = Dict({"a": Discrete(2), "b": Discrete(3)}), Dict({"b": Discrete(3), "a": Discrete(2)})
    assert one == other
    assert hash(one) == hash(other)
    assert compare(one, other) == []


def test_dict_and_tuple_differ() -> None:
    (finding,) = compare(Dict({"0": Discrete(2)}), Tuple((Discrete(2),)))
    assert finding.severity == "error"


@pytest.mark.parametrize(("kind", "parts"), [(Dict, {"a": 3}), (Dict, {1: Discrete(2)}), (Tuple, (3,))])
def test_wrong_parts_are_refused(kind: Any, parts: Any) -> None:
    with pytest.raises(SpaceError, match="cannot be in"):
        kind(parts)
