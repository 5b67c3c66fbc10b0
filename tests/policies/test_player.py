from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpipe.policies.player import Player
from rlpipe.policies.step import Step


class Counting:
    """Remembers how many steps it took."""

    def step(self, observations: Any, state: Mapping[str, Any] | None) -> Step:
        before = np.zeros(len(observations)) if state is None else state["state.0"]
        return Step(before, {"state.0": before + 1})


def test_what_a_step_leaves_is_given_to_the_next_until_an_episode_begins() -> None:
    act = Player(Counting())
    observations = np.zeros((2, 3))
    assert [act(observations)[0] for _ in range(3)] == [0, 1, 2]
    act.begin()
    assert [act(observations)[0] for _ in range(2)] == [0, 1]
