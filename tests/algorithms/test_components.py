"""Every component of an algorithm against what all components have to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.policy_learner import PolicyLearner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.errors import SpecError
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy
from tests.algorithms import training
from tests.algorithms.training import TRUST, batch, learner, policy, step
from tests.algorithms.whole import cartpole_policy, go, whole
from tests.conformance.component_suite import Case, ComponentSuite


def _nudge(made: Any) -> None:
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5)


class TestModules(ComponentSuite):
    @staticmethod
    def cases() -> list[Case]:
        return [
            Case("module", lambda seed: policy(seed).module, _nudge),
            Case("policy", policy, lambda made: _nudge(made.module)),
            Case("container", lambda seed: MultiRLModule({"p0": policy(seed), "p1": policy(seed + 1)}), _nudge),
        ]


class TestLearners(ComponentSuite):
    trust = TRUST

    @staticmethod
    def cases() -> list[Case]:
        momentum = TrainingSpec(
            loss=training.loss,
            optimizer=torch.optim.SGD,
            optimizer_kwargs={"lr": 0.1, "momentum": 0.9},
            scheduler=torch.optim.lr_scheduler.StepLR,
            scheduler_kwargs={"step_size": 1},
        )
        return [
            Case("learner", lambda _: learner(None, "p0", "p1"), lambda made: step(made, 0, 2)),
            Case("momentum", lambda _: learner(momentum, "p0"), lambda made: step(made, 0, 2)),
            Case("part", lambda seed: PolicyLearner(policy(seed), momentum), lambda made: made.update(batch(1))),
        ]


class TestRunners(ComponentSuite):
    @staticmethod
    def cases() -> list[Case]:
        def make(seed: int) -> EnvRunner:
            return EnvRunner({"p0": cartpole_policy(normalised=True, seed=seed)}, env="CartPole-v1", num_envs=2)

        return [Case("runner", make, lambda made: made.sample(10))]


class TestAlgorithms(ComponentSuite):
    trust = TRUST

    @staticmethod
    def cases() -> list[Case]:
        def learn(made: Any) -> None:
            go(made, 1, n=10)

        runners = ("env_runner", "evaluation_runner")
        return [
            Case(
                "whole", lambda seed: whole("p0", "p1", seed=seed, runners=2), lambda made: go(made, 1, n=10), runners
            ),
            Case(
                "lone", lambda seed: whole("p0", seed=seed, evaluation=False), lambda made: go(made, 1, n=10), runners
            ),
        ]


@pytest.mark.parametrize("text", ["losses.*", "*", "zzz.*"])
def test_a_text_as_trust_is_refused_by_all_that_load(tmp_path: Path, text: Any) -> None:
    path = Path(whole("p0").save_to_path(tmp_path / "run"))
    places: list[tuple[Any, Path]] = [
        (Algorithm, path),
        (Learner, path / "learner"),
        (EnvRunner, path / "env_runner"),
        (MultiRLModule, path / "policies"),
        (Policy, path / "policies" / "p0"),
        (RLModule, path / "policies" / "p0"),
    ]
    for kind, place in places:
        with pytest.raises(SpecError, match="trust is no list"):
            kind.from_checkpoint(place, trust=text)
    with pytest.raises(SpecError, match="trust is no list"):
        Algorithm.from_checkpoint(path, ["p0"], {"*": "p0"}, trust=text)
