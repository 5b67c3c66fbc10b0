"""Actions are brought to their bounds as RLlib does it, told by its formulas in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.acting import Bounds, action_stages, require_actions
from rlpipe.policies.policy_spec import decision_space
from rlpipe.policies.stage import build_chain, through
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete

LOW, HIGH = np.array([-0.1, -3.0], np.float32), np.array([0.2, 100.0], np.float32)
SKEWED = Box(LOW, HIGH, np.dtype(np.float32))
OPEN = Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32), np.dtype(np.float32))
MEANS = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) * 3


def acted(space: Box, bounds: Bounds) -> Any:
    stages = action_stages(space, "mean", bounds)
    start = decision_space(space, stages)
    assert through(stages, start).dtype == space.dtype  # type: ignore[attr-defined]
    with torch.no_grad():
        return build_chain(stages, start, {})(torch.from_numpy(MEANS)).numpy()


def test_normalised_actions_are_spread_over_the_bounds_and_cut() -> None:
    expected = np.clip(LOW + (MEANS + 1) * (HIGH - LOW) / 2, LOW, HIGH)
    np.testing.assert_allclose(acted(SKEWED, "normalize"), expected, rtol=1e-6, atol=1e-6)


def test_clipped_actions_are_cut_only() -> None:
    np.testing.assert_array_equal(acted(SKEWED, "clip"), np.clip(MEANS, LOW, HIGH))


@pytest.mark.parametrize(("space", "bounds"), [(SKEWED, "none"), (OPEN, "normalize"), (OPEN, "none")])
def test_others_are_left_alone(space: Box, bounds: Bounds) -> None:
    np.testing.assert_array_equal(acted(space, bounds), MEANS)


def test_choices_are_counted_from_zero() -> None:
    assert require_actions(Discrete(3, 2), subject="it") == Discrete(3)
    nvec, start = np.array([2, 3]), np.array([1, 1])
    assert require_actions(MultiDiscrete(nvec, start), subject="it") == MultiDiscrete(nvec)


@pytest.mark.parametrize("space", [MultiBinary((3,)), Box.uniform(-1, 1, (2, 2)), Box.uniform(-5, 5, (2,), np.int64)])
def test_spaces_that_rllib_s_networks_do_not_act_in_are_refused(space: Any) -> None:
    with pytest.raises(ForeignFormatError, match="acts in a space"):
        require_actions(space, subject="it")
