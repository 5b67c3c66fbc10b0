"""Acting step after step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.policies.player import Player
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete

PPO = "rlpipe.modules.torch.ppo.PPOModule"
ROW = Box.uniform(-1, 1, (3,))
LSTM = {"actor": {"type": "lstm", "hidden_size": 4}}


@pytest.mark.parametrize("config", [{}, LSTM], ids=["plain", "lstm"])
def test_it_acts_as_the_policy_and_forgets_where_an_episode_begins(config: Any) -> None:
    policy = PolicySpec.default(PPO, ROW, Box.uniform(-1, 1, (2,)), model_config=config).build()
    player, x = Player(policy), np.random.default_rng(0).uniform(-1, 1, (6, 1, 3)).astype(np.float32)
    for _ in range(2):
        player.begin()
        state = None
        for step in range(6):
            actions, state = policy.step(x[step], state)
            np.testing.assert_array_equal(player(x[step]), actions)


def test_it_asks_what_is_allowed_before_each_step() -> None:
    policy = PolicySpec.default(PPO, ROW, Discrete(3), action_mask="").build()
    player, x = Player(policy), np.zeros((1, 3), np.float32)
    now = iter(range(3))
    player.begin(lambda: np.arange(3) == next(now))
    assert [int(player(x)[0]) for _ in range(3)] == [0, 1, 2]
    player.begin()
    assert player(x)[0] == policy.compute_actions(x)[0]


def test_a_policy_that_takes_no_mask_is_given_none() -> None:
    player = Player(PolicySpec.default(PPO, ROW, Discrete(3)).build())
    player.begin(lambda: pytest.fail("nobody needs to know"))
    player(np.zeros((1, 3), np.float32))
