from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.algorithms.exploration import explore
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from tests.algorithms.training import ROW
from tests.modules.networks import Trunk

OWN = ("tests.*",)
COUNT = 4000


def fixed(action: Space, outputs: dict[str, list[float]]) -> Policy:
    """A policy that puts out the same numbers for everything."""
    policy = PolicySpec.default(Trunk, ROW, Discrete(2), trust=OWN).build(trust=OWN)
    policy.spec = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", ROW, action)
    policy._use(*policy._graphs_of({}))
    rows = {name: torch.tensor([row] * COUNT) for name, row in outputs.items()}
    module: Any = policy.module
    module.forward_exploration = lambda _: rows
    return policy


def drawn(policy: Policy, **more: Any) -> Any:
    obs = {"obs": torch.zeros(COUNT, 3)}
    return explore(policy, obs, np.random.default_rng(0), **more).actions


def test_choices_are_drawn_from_the_softmax_of_their_logits() -> None:
    logits = [0.0, 1.0, -1.0]
    found = np.bincount(drawn(fixed(Discrete(3), {"logits": logits})), minlength=3) / COUNT
    assert np.allclose(found, torch.softmax(torch.tensor(logits), 0), atol=0.03)


def test_each_block_of_several_choices_is_drawn() -> None:
    found = drawn(fixed(MultiDiscrete(np.array([2, 3])), {"logits": [0.0, 2.0, 0.0, 0.0, 0.0]}))
    assert abs(found[:, 0].mean() - torch.sigmoid(torch.tensor(2.0))) < 0.03
    assert np.allclose(np.bincount(found[:, 1]) / COUNT, 1 / 3, atol=0.03)


def test_bits_are_drawn_with_the_sigmoid_as_chance() -> None:
    found = drawn(fixed(MultiBinary((2,)), {"logits": [0.5, -2.0]}))
    assert np.allclose(found.mean(axis=0), torch.sigmoid(torch.tensor([0.5, -2.0])), atol=0.03)


def test_means_get_noise_of_their_deviation() -> None:
    found = drawn(fixed(Box.uniform(-100, 100, (2,)), {"mean": [1.0, -3.0], "log_std": [0.0, 1.0]}))
    assert np.allclose(found.mean(axis=0), [1, -3], atol=0.15)
    assert np.allclose(found.std(axis=0), np.exp([0, 1]), atol=0.1)


@pytest.mark.parametrize(("epsilon", "share"), [(0.0, 0.0), (0.5, 0.25), (1.0, 0.5)])
def test_values_are_followed_but_for_a_share_at_random(epsilon: float, share: float) -> None:
    found = drawn(fixed(Discrete(2), {"q": [1.0, 0.0]}), epsilon=epsilon)
    assert abs(found.mean() - share) < 0.03


def test_equal_generators_draw_equal_actions() -> None:
    policy = fixed(Discrete(3), {"logits": [0.0, 0.0, 0.0]})
    assert np.array_equal(drawn(policy), drawn(policy))
