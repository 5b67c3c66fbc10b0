"""Whatever is wrong with the configured policies is wrong with the config: exit code 2, told once, all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlpipe.errors import ConfigError, RlpipeError
from rlpipe.pipeline.built import BuiltSource
from rlpipe.pipeline.settings import AlgorithmSettings, ModuleSettings, PolicySettings, SelectSettings, SourceSettings
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import DQN, ENCODER, PPO, Runner, algorithm, box


def policy(module: ModuleSettings = PPO) -> PolicySettings:
    return PolicySettings(module=module, observation_space=box(4), action_space=Discrete(2))


def with_config(**config: object) -> PolicySettings:
    return policy(replace(PPO, model_config={**PPO.model_config, **config}))


def refusal(**policies: PolicySettings) -> ConfigError:
    source = BuiltSource(algorithm=AlgorithmSettings(policies=policies), env=None, trust=("mynet.*",))
    with pytest.raises(ConfigError) as caught:
        source.read(SelectSettings())
    error = caught.value
    assert error.exit_code == 2
    assert all((error.subject, error.expected, error.found, error.fix))
    assert isinstance(error.__cause__, RlpipeError)
    return error


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (with_config(actor={**ENCODER, "hiden": [8]}), ("hiden", "did you mean hidden?")),
        (with_config(actor={**ENCODER, "activation": "rleu"}), ("rleu", "did you mean relu")),
        (with_config(foo=1), ("foo",)),
        (policy(replace(PPO, class_path="mynet.Net")), ("mynet.Net", "import path")),
        (policy(replace(PPO, class_path="rlpipe.modules.torch.ppo.PPOModul")), ("PPOModul",)),
        (policy(replace(PPO, class_path="rlpipe.errors.RlpipeError")), ("RlpipeError", "rlpipe --cfg job")),
        (policy(replace(PPO, class_path="others.Net")), ("others.Net", "trust")),
        (policy(replace(PPO, non_inference_attributes=("pi",))), ("non_inference_attributes",)),
        (replace(policy(DQN), action_space=box(2)), ("Discrete",)),
        (replace(policy(), observation_space=None), ("the spaces are not known", "env=CartPole-v1")),
        (replace(policy(), observation_space=None, env="CartPol-v1"), ("CartPol-v1", "CartPole-v1")),
    ],
)
def test_a_policy_that_cannot_be_built_is_a_config_error(wrong: PolicySettings, words: tuple[str, ...]) -> None:
    error = refusal(p0=wrong)
    assert error.subject.startswith("cannot build p0: ")
    assert [word for word in words if word not in str(error)] == []


def test_the_same_fault_is_told_once() -> None:
    error = refusal(p0=with_config(foo=1), p1=policy(), p2=with_config(foo=1))
    assert error.subject.startswith("cannot build p0, p2: ")


def test_different_faults_are_all_told() -> None:
    error = refusal(p0=with_config(foo=1), p1=with_config(bar=1))
    assert [name for name in ("p0", "'foo'", "p1", "'bar'") if name not in error.subject] == []


@pytest.mark.parametrize("task", ["save", "subset_restore"])
def test_every_task_that_builds_says_so(task: str, run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings() if task == "save" else SourceSettings(path=str(checkpoint))
    with pytest.raises(ConfigError, match="cannot build p0"):
        run_task(task, source=source, algorithm=algorithm(p0=with_config(foo=1)))
