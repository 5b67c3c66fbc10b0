from __future__ import annotations

from typing import Any

import pytest

from rlpipe.config.findings import Findings
from rlpipe.config.policies import configured_classes, falls_back, read_algorithm
from rlpipe.pipeline.settings import PolicySettings
from rlpipe.snapshot.spaces import Box, Discrete

PPO = "rlpipe.modules.torch.ppo.PPOModule"
SAC = "rlpipe.modules.torch.sac.SACModule"


@pytest.fixture(name="read")
def _read(composed: Any) -> Any:
    def read(*overrides: str) -> dict[str, PolicySettings]:
        findings = Findings()
        settings = read_algorithm(composed(*overrides), findings)
        findings.raise_if_any()
        return dict(settings.policies)

    return read


@pytest.fixture(name="faults")
def _faults(composed: Any) -> Any:
    def faults(*overrides: str) -> list[str]:
        findings = Findings()
        read_algorithm(composed(*overrides), findings)
        return [finding.line() for finding in findings.found]

    return faults


def test_the_default_is_three_policies_of_the_module(read: Any) -> None:
    policies = read("module=sac")
    assert list(policies) == ["p0", "p1", "p2"]
    assert {(policy.module.class_path, policy.env) for policy in policies.values()} == {(SAC, "Pendulum-v1")}


def test_null_means_the_default_of_the_class(read: Any) -> None:
    module = read()["p0"].module
    assert (module.inference_only, module.learner_only, module.non_inference_attributes) == (False, False, None)


def test_a_key_of_the_policy_wins_over_the_module(read: Any) -> None:
    policies = read(
        "module.inference_only=true",
        "algorithm.policies.p1.module.inference_only=false",
        "module.non_inference_attributes=[vf]",
        "algorithm.policies.p2.module.non_inference_attributes=[vf,encoder.critic_encoder]",
    )
    assert [policy.module.inference_only for policy in policies.values()] == [True, False, True]
    attributes = [policy.module.non_inference_attributes for policy in policies.values()]
    assert attributes == [("vf",), ("vf",), ("vf", "encoder.critic_encoder")]


def test_an_empty_list_of_attributes_is_a_statement(read: Any) -> None:
    assert read("module.non_inference_attributes=[]")["p0"].module.non_inference_attributes == ()


def test_part_of_a_model_config_is_laid_over_the_modules(read: Any) -> None:
    policies = read("+algorithm.policies.p0.module.model_config.actor.hidden=[8]", "module.model_config.log_std=state")
    assert policies["p0"].module.model_config["actor"] == {"type": "mlp", "hidden": [8], "activation": "tanh"}
    assert policies["p0"].module.model_config["log_std"] == "state"
    assert policies["p1"].module.model_config["actor"]["hidden"] == [64, 64]


def test_another_type_of_encoder_takes_nothing_from_the_first(read: Any) -> None:
    policies = read("+algorithm.policies.p0.module.model_config.actor={type: cnn, filters: [[8, 4, 2]]}")
    assert policies["p0"].module.model_config["actor"] == {"type": "cnn", "filters": [[8, 4, 2]]}


def test_another_class_takes_no_model_config_from_the_module(read: Any) -> None:
    policies = read("+module@algorithm.policies.p1.module=sac", "module.inference_only=true")
    assert policies["p1"].module.class_path == SAC
    assert "n_critics" in policies["p1"].module.model_config
    assert "shared" not in policies["p1"].module.model_config
    assert policies["p1"].module.inference_only


def test_the_nearest_environment_counts(read: Any) -> None:
    overrides = ["+module@algorithm.policies.p1.module=sac", "algorithm.policies.p2.env=Own-v0"]
    assert [policy.env for policy in read(*overrides).values()] == ["CartPole-v1", "Pendulum-v1", "Own-v0"]
    assert [policy.env for policy in read(*overrides, "env=Root-v0").values()] == ["Root-v0", "Root-v0", "Own-v0"]


def test_spaces_are_read(read: Any) -> None:
    policy = read(
        "algorithm.policies.p0.observation_space={type: Box, shape: [3], low: -1, high: inf}",
        "algorithm.policies.p0.action_space={type: Discrete, n: 4}",
    )["p0"]
    assert isinstance(policy.observation_space, Box)
    assert policy.observation_space.shape == (3,)
    assert policy.action_space == Discrete(4)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["module.non_inference_attributes=vf"], "expected a list of attribute names; found the text 'vf'"),
        (
            ["module.inference_only=true", "algorithm.policies.p1.module.learner_only=true"],
            "algorithm.policies.p1.module: expected inference_only or learner_only, not both",
        ),
        (["module.model_config=7"], "p0.module.model_config: expected a mapping; found the number 7"),
        (["module.class_path=null"], "p0.module.class_path: expected the dotted path of a module class; found null"),
        (["module.class_path=Net"], "p0.module.class_path: expected the dotted path of a module class; found the text"),
        (["module.class_path='mine.*'"], "found the text 'mine.*'"),
        (["algorithm.policies.p0.action_space={type: Discreet}"], "did you mean Discrete"),
        (["algorithm.seed=-1"], "algorithm.seed: expected a whole number of at least 0; found the number -1"),
        (["+algorithm.policies={a/b: {}}"], "a/b"),
    ],
)
def test_faults(overrides: list[str], line: str, faults: Any) -> None:
    assert line in "\n".join(faults(*overrides))


def test_a_fault_of_the_module_is_told_once(faults: Any) -> None:
    assert len(faults("module.non_inference_attributes=vf")) == 1


def test_classes_that_the_config_names_are_known(composed: Any) -> None:
    config = composed(
        "+algorithm.policies={p9: {module: {class_path: mine.Net}}}", "+module.model_config.class=other.Part"
    )
    assert configured_classes(config) == ("mine.Net", "other.Part")


def test_a_glob_in_a_class_path_vouches_for_nothing(composed: Any) -> None:
    config = composed("module.class_path='*'", "module.model_config.class='mine.*'")
    assert configured_classes(config) == ()


def test_whether_the_module_is_used_at_all(composed: Any) -> None:
    assert falls_back(composed(), "env")
    assert not falls_back(composed("algorithm=sample"), "env")
    assert falls_back(composed("algorithm=sample"), "inference_only")
