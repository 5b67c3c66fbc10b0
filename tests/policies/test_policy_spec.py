"""What a policy is, as data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlpipe.errors import SpecError
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.stages import Affine
from rlpipe.snapshot.spaces import Box, Discrete

PPO = "rlpipe.modules.torch.ppo.PPOModule"
ROW = Box.uniform(-np.inf, np.inf, (3,))
ACTUATOR = Affine(scale=(0.5, 0.25), offset=(0.1, -0.2))


def spec(**config: object) -> PolicySpec:
    return PolicySpec.default(PPO, ROW, Box.uniform(-1, 1, (2,)), model_config=config)


def test_target_stages_come_back_and_are_left_out_where_there_are_none() -> None:
    plain, aimed = spec(), replace(spec(), target=(ACTUATOR,))
    assert "target" not in plain.to_json()
    assert aimed.to_json()["target"] == [{"type": "affine", "scale": [0.5, 0.25], "offset": [0.1, -0.2]}]
    for one in (plain, aimed):
        assert PolicySpec.from_spec(one.to_spec()) == one


def test_target_stages_have_to_fit_the_action() -> None:
    with pytest.raises(SpecError, match="another count"):
        replace(spec(), target=(Affine(scale=(1.0, 2.0, 3.0), offset=0.0),))


def test_choices_have_no_target() -> None:
    with pytest.raises(SpecError, match="cannot take this space"):
        replace(PolicySpec.default(PPO, ROW, Discrete(2)), target=(ACTUATOR,))


def test_a_default_policy_knows_what_its_module_remembers() -> None:
    memory = {"shape": [1, 4], "dtype": "float32"}
    found = spec(actor={"type": "lstm", "hidden_size": 4})
    assert found.module.state == {"actor/c": memory, "actor/h": memory}
    assert PolicySpec.from_spec(found.to_spec()) == found
