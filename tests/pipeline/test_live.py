"""What a restored policy is tried on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import SpecError
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.pipeline.live import probe, spaces_of
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

ROW = Box.uniform(-np.inf, np.inf, (3,))
ACTIONS = [
    Discrete(2),
    MultiDiscrete(np.array([2, 3])),
    MultiBinary((2,)),
    Box.uniform(-1, 1, (2,)),
    Box.uniform(-1, 1, (2,), np.int64),
    Box.uniform(-np.inf, np.inf, (2,)),
]


def _probed(made: Policy) -> str:
    return probe(made, spaces_of(snapshot_of(made)), policy_id="p0")


@pytest.mark.parametrize("space", ACTIONS, ids=str)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_policy_that_decides_by_no_numbers_is_named_with_the_first_guilty_key(space: Space, number: float) -> None:
    made: Any = PolicySpec.default(PPOModule, ROW, space).build()
    head = made.module.pi.mean if isinstance(space, Box) else made.module.pi.logits
    with torch.no_grad():
        head.bias[0] = number
        made.module.vf.bias.fill_(np.nan)
    with pytest.raises(SpecError, match="p0 decides by numbers that are not finite") as caught:
        _probed(made)
    assert "first in pi/" in caught.value.found
    assert caught.value.found.endswith("/bias")


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_a_sound_policy_passes_even_where_its_observations_may_be_huge(space: Space) -> None:
    huge = Box.uniform(-3e38, 3e38, (3,))
    for observations in (ROW, huge, Box.uniform(0, 255, (3,), np.uint8)):
        assert "actions in" in _probed(PolicySpec.default(PPOModule, observations, space).build())


def test_a_masked_choice_is_a_choice() -> None:
    made: Any = PolicySpec.default(PPOModule, ROW, Discrete(2)).build()
    with torch.no_grad():
        made.module.pi.logits.bias[0] = -np.inf
    assert "actions in" in _probed(made)
