"""What only a GPU can show; left out where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.modules.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from rlpipe.modules.rl_module import RLModuleSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.spaces import Box, Discrete
from rlpipe.snapshot.state import equal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

ROW = Box.uniform(-1, 1, (3,))


def test_a_policy_moves_between_devices(tmp_path: Path) -> None:
    made = PolicySpec.default(PPOModule, ROW, Discrete(2)).build(device="cuda:0")
    path = made.save_to_path(tmp_path / "policy")
    here: Any = Policy.from_checkpoint(path)
    there: Any = Policy.from_checkpoint(path, device="cuda:0")
    assert equal(here.get_state(), made.get_state())
    assert all(parameter.is_cuda for parameter in there.module.parameters())
    observations = ROW.sample(50, np.random.default_rng(0))
    np.testing.assert_allclose(there.scores(observations), here.scores(observations), atol=1e-5)


def test_ties_between_modules_survive_a_save_from_the_device(tmp_path: Path) -> None:
    spec = RLModuleSpec(PPOModule, ROW, Discrete(2))
    made: Any = MultiRLModuleSpec(rl_module_specs={"a": spec, "b": spec}).build(device="cuda:0")
    made["b"].pi = made["a"].pi
    path = made.save_to_path(tmp_path / "tied")
    for device in ("cpu", "cuda:0"):
        restored: Any = MultiRLModule.from_checkpoint(path, device=device)
        assert restored["b"].pi.logits.weight is restored["a"].pi.logits.weight


def test_a_policy_that_remembers_acts_and_trains_there_as_here() -> None:
    config = {"actor": {"type": "lstm", "hidden_size": 4, "num_layers": 2}, "critic": {"type": "gru", "hidden_size": 4}}
    here = PolicySpec.default(PPOModule, ROW, Discrete(2), model_config=config).build()
    there = Policy.from_state(here.get_state(), here.spec, device="cuda:0")
    x = ROW.sample(30, np.random.default_rng(0)).reshape(6, 5, 3)
    ours = theirs = None
    for step in x:
        one, two = here.step(step, ours), there.step(step, theirs)
        ours, theirs = one.state, two.state
        for name in one.state:
            np.testing.assert_allclose(two.state[name], one.state[name], atol=1e-5)
    batch = {"obs": torch.from_numpy(x.swapaxes(0, 1).copy()).cuda()}
    there.module.train().forward_train(batch)["value"].sum().backward()
    assert there.module.get_parameter("encoder.critic_encoder.rnn.weight_hh_l0").grad is not None
