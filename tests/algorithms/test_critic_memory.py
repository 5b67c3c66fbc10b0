"""Critics that remember for themselves: their memory is among the samples of an algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.state import equal
from tests.algorithms.training import SMALL, TRUST, sequence_loss
from tests.algorithms.whole import cartpole_policy

ENV = "CartPole-v1"
CELL = {"type": "lstm", "hidden_size": 4}
CONFIGS: dict[str, dict[str, Any]] = {
    "both": {"actor": CELL, "critic": {**CELL, "type": "gru"}},
    "critic alone": {**SMALL, "critic": CELL},
}


def whole(config: str, *, runners: int = 1) -> Algorithm:
    policies = {"p0": cartpole_policy(model_config=CONFIGS[config])}
    how = TrainingSpec(loss=sequence_loss, optimizer_kwargs={"lr": 1e-2})
    learner = Learner.for_policies(policies, how, trust=TRUST)
    runner = EnvRunner(policies, env=ENV, num_envs=2, seed=3)
    return Algorithm(policies, learner=learner, env_runner=runner, num_env_runners=runners)


def values(policy: Policy, found: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The values of a sequence, (B, T)."""
    batch = {name: torch.from_numpy(found[name]) for name in ("obs", "episode_start")}
    state = {name: torch.from_numpy(value) for name, value in found["state_in"].items()}
    with torch.no_grad():
        made: np.ndarray[Any, Any] = policy.module.forward_train({**batch, "state_in": state})["value"].numpy()
    return made


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("runners", [1, 2])
def test_values_are_those_of_one_long_sequence(config: str, runners: int) -> None:
    made = whole(config, runners=runners)
    parts = [made.sample(count * 2 * runners)["p0"] for count in (7, 1, 30)]
    rows = 2 * runners
    names = [name for name in parts[0]["state_in"] if name.startswith("critic/")]
    assert names
    assert not any(parts[0]["state_in"][name].any() for name in names)
    assert all(parts[1]["state_in"][name].shape == (rows, 1, 4) for name in names)
    assert all(parts[1]["state_in"][name].any() for name in names)
    long = {name: np.concatenate([part[name] for part in parts], axis=1) for name in ("obs", "episode_start")}
    policy = made.get_policy("p0")
    expected = values(policy, {**long, "state_in": parts[0]["state_in"]})
    found = np.concatenate([values(policy, part) for part in parts], axis=1)
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS)
def test_training_on_them_goes_on_bit_for_bit_after_a_restore(tmp_path: Path, config: str) -> None:
    made = whole(config)
    for _ in range(2):
        assert made.update(made.sample(30))["p0"] > 0
    path = made.save_to_path(tmp_path / "a")
    assert made.runners is not None
    made.runners.first.reset()
    restored = Algorithm.from_checkpoint(path, trust=TRUST)
    for _ in range(2):
        assert restored.update(restored.sample(30)) == made.update(made.sample(30))
    assert equal(restored.get_state(), made.get_state())
    assert len(made.evaluate(1, max_steps=5)) == 1


def test_a_runner_of_a_critic_that_remembers_gives_sequences_without_its_memory() -> None:
    made = EnvRunner({"p0": cartpole_policy(model_config=CONFIGS["critic alone"])}, env=ENV, num_envs=2)
    found = made.sample(60)["p0"]
    assert found["obs"].shape == (2, 30, 4)
    assert found["episode_start"][:, 0].all()
    assert "state_in" not in found
    assert np.array_equal(found["episode_start"][:, 1:], ~found["loss_mask"][:, :-1])
    made.close()


def test_critics_without_a_memory_and_slim_policies_have_none() -> None:
    slim = cartpole_policy(model_config=CONFIGS["critic alone"], inference_only=True)
    plain = Algorithm({"p0": cartpole_policy()}, env_runner=EnvRunner({"p0": cartpole_policy()}, env=ENV))
    acting = Algorithm({"p0": slim}, env_runner=EnvRunner({"p0": slim}, env=ENV))
    assert "state_in" not in plain.sample(3)["p0"]
    assert "state_in" not in acting.sample(3)["p0"]


def test_another_policy_of_an_id_begins_anew() -> None:
    made = whole("both")
    made.sample(20)
    wide = cartpole_policy(model_config={"actor": CELL, "critic": {**CELL, "hidden_size": 6}})
    made.add_policy("p1", wide.spec, policy_mapping_fn={"*": "p1"})
    made.remove_policy("p0")
    made.sample(4)
    made.add_policy("p0", wide.spec, policy_mapping_fn={"*": "p0"})
    found = made.sample(4)["p0"]
    assert found["episode_start"][:, 0].all()
    assert found["state_in"]["critic/h"].shape == (2, 1, 6)
