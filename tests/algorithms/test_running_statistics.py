from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlpipe.algorithms.running_statistics import Moments, moments_in, moments_of, normalisation_of, set_moments
from rlpipe.snapshot.state import equal
from tests.algorithms.whole import cartpole_policy

ROWS = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float64, (n, 2), elements=st.floats(-1e3, 1e3, allow_nan=False, width=32))
)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_joined_moments_are_those_of_all_rows(parts: list[Any]) -> None:
    joined = Moments(0, np.zeros(2), np.ones(2))
    for part in parts:
        joined = joined.joined(moments_of(part))
    rows = np.concatenate(parts)
    assert joined.count == len(rows)
    assert np.allclose(joined.mean, rows.mean(axis=0), atol=1e-6)
    assert np.allclose(joined.variance, rows.var(axis=0), atol=1e-4)


@given(ROWS)
def test_nothing_seen_changes_nothing(rows: Any) -> None:
    found, nothing = moments_of(rows), Moments(0, np.zeros(2), np.ones(2))
    assert found.joined(nothing) is found
    assert nothing.joined(found) is found


def test_a_policy_gives_back_the_moments_that_it_was_given() -> None:
    policy = cartpole_policy(normalised=True)
    given_moments = moments_of(np.random.default_rng(0).normal(size=(9, 4)))
    set_moments(policy, given_moments)
    found = moments_in(policy, 9)
    assert equal(found.mean, given_moments.mean)
    assert equal(found.variance, given_moments.variance)
    assert normalisation_of(cartpole_policy()) is None
