"""Actions of several parts: drawn, stepped, kept, trained on and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.exploration import explore
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.spaces import flat_batch
from rlpipe.snapshot.state import equal
from tests.algorithms.training import SMALL

TRUST = ("tests.algorithms.test_composite_actions.*",)
ARM = spaces.Tuple((spaces.Box(-0.5, 2.0, (2,), np.float64), spaces.MultiBinary(2)))
ACTIONS: dict[str, Any] = {
    "dict": spaces.Dict({"arm": ARM, "grip": spaces.Discrete(3, start=2)}),
    "tuple": spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2, 1)))),
    "choices": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}),
    "numbers": spaces.Tuple((spaces.Box(-1, 1, (1,)), spaces.Box(0, 3, (1, 2)))),
}
CELL = {"type": "gru", "hidden_size": 4}


class Checks(gymnasium.Env[Any, Any]):
    """Takes no action that is not of its space; episodes have five steps, and the observation tells which one."""

    observation_space = spaces.Box(0, 5, (2,), np.float32)

    def __init__(self, name: str) -> None:
        self.action_space = ACTIONS[name]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.count += 1
        return np.full(2, self.count, np.float32), 1.0, self.count >= 5, False, {}


for name in ACTIONS:
    gymnasium.register(f"tests/{name.capitalize()}Actions-v0", lambda name=name, **_: Checks(name))


def env_of(name: str) -> str:
    return f"tests/{name.capitalize()}Actions-v0"


def policy(name: str, *, seed: int = 0, **config: Any) -> Policy:
    torch.manual_seed(seed)
    config = {"model_config": {**SMALL, **config}}
    return PolicySpec.default(PPOModule, Checks.observation_space, ACTIONS[name], **config).build()


def imitation(module: Any, batch: Mapping[str, Any]) -> torch.Tensor:
    """Of the Dict: the choices as classes, the numbers by their distance, with nested actions as they were sampled."""
    actions, counts = batch["actions"], batch.get("loss_mask", ...)
    row = module.forward_train(batch)["logits"][counts]
    numbers, bits, grip = torch.split(row, [2, 2, 3], dim=-1)
    wanted, pressed = (part[counts] for part in actions["arm"])
    return (
        nn.functional.cross_entropy(grip, actions["grip"][counts] - 2)
        + nn.functional.binary_cross_entropy_with_logits(bits, pressed.float())
        + nn.functional.mse_loss(numbers, wanted.float())
    )


@pytest.mark.parametrize("name", ACTIONS)
def test_every_part_is_drawn_and_kept_as_the_environment_took_it(name: str) -> None:
    made = EnvRunner({"p0": policy(name)}, env=env_of(name), num_envs=3)
    found = made.sample(300)["p0"]
    space = made.policies["p0"].spec.action_space
    assert space.contains(found["actions"])
    flat = flat_batch(space, found["actions"], "actions")
    assert {len(part) for part in flat.values()} == {made.env_steps} == {len(found["rewards"])}
    assert all(len(np.unique(part)) > 1 for part in flat.values())
    assert found["decisions"].shape == (made.env_steps, made.policies["p0"].running_graph().width)
    assert [episode.length for episode in made.evaluate(2)] == [5, 5]
    made.close()


def test_parts_are_drawn_each_from_its_own_distribution() -> None:
    made, count = policy("dict"), 6000
    module: Any = made.module
    row, log_std = [0.5, 1.0, 0.5, -2.0, 0.0, 2.0, 0.0], [-3.0, 0.0]
    outputs = {"logits": torch.tensor([row] * count), "log_std": torch.tensor([log_std] * count)}
    module.forward_exploration = lambda _: outputs
    choices = explore(made, {"obs": torch.zeros(count, 2)}, np.random.default_rng(0))
    numbers = choices.decision[:, :2].numpy()
    assert np.allclose(numbers.mean(axis=0), row[:2], atol=0.05)
    assert np.allclose(numbers.std(axis=0), np.exp(log_std), rtol=0.05)
    (clipped, bits), grip = choices.actions["arm"], choices.actions["grip"]
    assert np.array_equal(clipped, np.clip(numbers.astype(np.float64), -0.5, 2.0))
    assert np.allclose(bits.mean(axis=0), torch.sigmoid(torch.tensor(row[2:4])), atol=0.03)
    assert np.allclose(np.bincount(grip - 2) / count, torch.softmax(torch.tensor(row[4:]), 0), atol=0.03)
    again = explore(made, {"obs": torch.zeros(count, 2)}, np.random.default_rng(0))
    assert torch.equal(again.decision, choices.decision)


@pytest.mark.parametrize("config", [{}, {"actor": CELL, "critic": CELL}])
@pytest.mark.parametrize("runners", [1, 2])
def test_a_learner_trains_on_them_and_goes_on_after_a_restore(tmp_path: Path, config: Any, runners: int) -> None:
    policies = {each: policy("dict", seed=seed, **config) for seed, each in enumerate(("p0", "p1"))}
    learner = Learner.for_policies(policies, TrainingSpec(loss=imitation), trust=TRUST)
    mapping = {"1": "p1", "*": "p0"}
    runner = EnvRunner(policies, env=env_of("dict"), num_envs=3, policy_mapping_fn=mapping)
    made = Algorithm(policies, learner=learner, env_runner=runner, num_env_runners=runners)
    before = made.get_weights()
    losses = made.update(made.sample(60))
    assert sorted(losses) == ["p0", "p1"]
    assert not any(equal(before[name], after) for name, after in made.get_weights().items())
    path = made.save_to_path(tmp_path / "a")
    assert made.runners is not None
    for each in made.runners.runners:
        each.reset()
    restored = Algorithm.from_checkpoint(path, trust=TRUST)
    assert restored.update(restored.sample(60)) == made.update(made.sample(60))
    assert len(restored.evaluate(2)) == 2
