"""Algorithms with everything, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from tests.algorithms.test_runner import policy
from tests.algorithms.training import TRUST, batch, loss

__all__ = ["TRUST", "whole"]


def training() -> TrainingSpec:
    return TrainingSpec(loss=loss, optimizer_kwargs={"lr": 1e-2})


def whole(*ids: str, normalised: bool = True, runners: int = 1, evaluation: bool = True, seed: int = 0) -> Algorithm:
    """PPO policies on CartPole with a learner, runners and evaluation copies."""
    names = ids or ("p0", "p1")
    policies = {name: policy(normalised=normalised, seed=seed + index) for index, name in enumerate(names)}
    mapping = {str(index): name for index, name in enumerate(names)}
    learner = Learner.for_policies(policies, training(), trust=TRUST)
    env: Any = {"env": "CartPole-v1", "policy_mapping_fn": mapping}
    return Algorithm(
        policies,
        learner=learner,
        env_runner=EnvRunner(policies, num_envs=len(names), seed=3, **env),
        num_env_runners=runners,
        evaluation_runner=EnvRunner(policies, seed=9, **env) if evaluation else None,
        policy_mapping_fn=mapping,
    )


def go(made: Algorithm, rounds: int, *, n: int = 20) -> list[dict[str, float]]:
    """Sampling and training in turn."""
    losses = []
    for _ in range(rounds):
        samples = made.sample(n)
        batches: dict[str, Any] = {
            name: {"obs": each["obs"], "actions": each["actions"]} for name, each in samples.items()
        }
        losses.append(made.update(batches))
    return losses


__all__ += ["batch", "go", "training"]
