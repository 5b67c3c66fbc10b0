"""Algorithms with everything, for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.modules.torch.dqn import DQNModule
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.modules.torch.sac import SACModule
from rlpipe.policies.observation_stages import Normalize
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.state import equal
from tests.algorithms.training import SMALL, TRUST, loss

__all__ = ["FAMILIES", "TRUST", "cartpole_policy", "go", "require_in_step", "training", "whole"]

FAMILIES: dict[str, tuple[Any, str]] = {
    "ppo": (PPOModule, "CartPole-v1"),
    "ppo_box": (PPOModule, "Pendulum-v1"),
    "dqn": (DQNModule, "CartPole-v1"),
    "sac": (SACModule, "Pendulum-v1"),
}


def cartpole_policy(name: str = "ppo", *, normalised: bool = False, seed: int = 0, **options: Any) -> Policy:
    kind, env_id = FAMILIES[name]
    env = gymnasium.make(env_id)
    torch.manual_seed(seed)
    if kind is PPOModule:
        options.setdefault("model_config", SMALL)
    spec = PolicySpec.default(kind, env.observation_space, env.action_space, **options)
    env.close()
    if normalised:
        stages = (*spec.observation, Normalize("var_eps", 1e-8, 10.0))
        module = replace(spec.module, observation_space=stages[-1].output_space(spec.module.observation_space))
        spec = replace(spec, module=module, observation=stages)
    return spec.build()


def training() -> TrainingSpec:
    return TrainingSpec(loss=loss, optimizer_kwargs={"lr": 1e-2})


def whole(*ids: str, normalised: bool = True, runners: int = 1, evaluation: bool = True, seed: int = 0) -> Algorithm:
    """PPO policies on CartPole with a learner, runners and evaluation copies."""
    names = ids or ("p0", "p1")
    policies = {name: cartpole_policy(normalised=normalised, seed=seed + index) for index, name in enumerate(names)}
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


def require_in_step(made: Algorithm) -> None:
    assert made.runners is not None
    assert made.evaluation is not None
    for name, policy in made.policies.items():
        acting = policy.get_state(inference_only=True)
        for runner in (*made.runners.runners, *made.evaluation.runners):
            assert equal(runner.policies[name].get_state(), acting)
    assert made.learner is not None
    for name, policy in made.learner.policies.items():
        assert policy is made.get_policy(name)
