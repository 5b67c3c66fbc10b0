from __future__ import annotations

from typing import Any

import pytest

from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.config.findings import Findings
from rlpipe.config.policies import configured_classes, read_algorithm

LOSS = "algorithm.learner.loss=mine.losses.clone"


@pytest.mark.parametrize("option", ["default", "sample"])
def test_the_default_is_policies_alone(composed: Any, option: str) -> None:
    found = read_algorithm(composed(f"algorithm={option}"), Findings())
    assert (found.learner, found.env_runner, found.policy_mapping_fn, found.policies_to_train) == (None,) * 4
    assert (found.num_env_runners, found.evaluation_runner) == (1, None)


@pytest.mark.parametrize("option", ["default", "sample"])
def test_every_key_arrives(composed: Any, option: str) -> None:
    findings = Findings()
    config = composed(
        f"algorithm={option}",
        LOSS,
        "algorithm.learner.optimizer.class=torch.optim.AdamW",
        "algorithm.learner.optimizer.kwargs.lr=1e-3",
        "algorithm.learner.optimizer.groups={encoder/*: {lr: 1e-4, betas: [0.5, 0.9]}, */bias: {weight_decay: 0}}",
        "algorithm.learner.scheduler={class: mine.Slower, kwargs: {gamma: 0.5}}",
        "algorithm.env_runner.env=CartPole-v1",
        "algorithm.env_runner.num_envs=4",
        "algorithm.num_env_runners=3",
        "algorithm.evaluation_runner.env=CartPole-v0",
        "algorithm.policy_mapping_fn={car_1: p1, car_*: p0}",
        "algorithm.policies_to_train=[p0]",
        "algorithm.seed=3",
    )
    found = read_algorithm(config, findings)
    findings.raise_if_any()
    assert found.learner is not None
    assert found.learner.to_json() == {
        "loss": "mine.losses.clone", "optimizer": "torch.optim.AdamW", "scheduler": "mine.Slower"
    }  # fmt: skip
    assert found.learner.optimizer_kwargs == {"lr": 1e-3}
    assert list(found.learner.groups.items()) == [
        ("encoder/*", {"lr": 1e-4, "betas": [0.5, 0.9]}),
        ("*/bias", {"weight_decay": 0}),
    ]
    assert found.learner.scheduler_kwargs == {"gamma": 0.5}
    assert found.env_runner == RunnerSpec(env="CartPole-v1", num_envs=4, seed=3)
    assert found.num_env_runners == 3
    assert found.evaluation_runner == RunnerSpec(env="CartPole-v0", seed=3)
    assert found.policy_mapping_fn == {"car_1": "p1", "car_*": "p0"}
    assert found.policies_to_train == ("p0",)
    assert configured_classes(config) == ("mine.Slower", "mine.losses.clone")


def test_a_function_that_maps_is_vouched_for_by_naming_it(composed: Any) -> None:
    config = composed("algorithm.policy_mapping_fn=mine.maps.who")
    assert read_algorithm(config, Findings()).policy_mapping_fn == "mine.maps.who"
    assert configured_classes(config) == ("mine.maps.who",)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["algorithm.learner.optimizer.kwargs.lr=1"], "algorithm.learner.loss"),
        (["algorithm.learner.scheduler.class=a.B"], "algorithm.learner.loss"),
        (["algorithm.learner.loss=clone"], "a dotted path"),
        ([LOSS, "algorithm.learner.scheduler.kwargs.gamma=1"], "algorithm.learner.scheduler.class"),
        ([LOSS, "algorithm.learner.optimizer.clas=a.B"], "class and kwargs"),
        ([LOSS, "algorithm.learner.optimizer.kwargs=3"], "a mapping"),
        ([LOSS, "algorithm.learner.optimizer.groups=3"], "globs over keys"),
        ([LOSS, "algorithm.learner.optimizer.groups={encoder/*: 3}"], "globs over keys"),
        (["algorithm.learner.optimizer.groups={encoder/*: {lr: 1}}"], "algorithm.learner.loss"),
        ([LOSS, "algorithm.policies_to_train=[p7]"], "p7"),
        (["algorithm.policies_to_train=[p0]"], "algorithm.learner.loss=null"),
        (["algorithm.env_runner.num_envs=4"], "algorithm.env_runner.env"),
        (["algorithm.num_env_runners=4"], "algorithm.env_runner.env"),
        (["algorithm.env_runner.env=X", "algorithm.num_env_runners=0"], "algorithm.num_env_runners"),
        (["algorithm.env_runner.env=X", "algorithm.env_runner.num_envs=0"], "at least 1"),
        (["algorithm.policy_mapping_fn={a: p9}"], "algorithm.policy_mapping_fn.a"),
        (["algorithm.policy_mapping_fn=[p0]"], "agents or globs"),
    ],
)
def test_what_is_wrong_is_told(composed: Any, overrides: list[str], words: str) -> None:
    findings = Findings()
    read_algorithm(composed(*overrides), findings)
    lines = [finding.line() for finding in findings.found]
    assert any(words in line for line in lines), lines
