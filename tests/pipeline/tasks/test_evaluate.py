from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rlpipe
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.errors import ConfigError, EnvironmentMismatchError, SpecError, UnsafePayloadError
from rlpipe.pipeline.settings import (
    AlgorithmSettings,
    CheckpointSettings,
    EvaluateSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box, write

TWO = EvaluateSettings(episodes=2, seed=5)


@pytest.fixture(scope="module")
def pole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained policy of CartPole-v1."""
    policies = algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1"))
    return write(tmp_path_factory.mktemp("pole") / "made", policies)


def returns_by_hand(policy: Any, seeds: range) -> list[float]:
    """The loop that everybody writes."""
    env = gymnasium.make("CartPole-v1")
    returns = []
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(int(policy.compute_actions(observation[None])[0]))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return returns


def test_returns_are_those_of_a_plain_loop(run_task: Runner, pole: Path) -> None:
    report = run_task("evaluate", source=SourceSettings(path=str(pole)), env="CartPole-v1", evaluate=TWO)
    (found,) = report.to_json()["evaluations"]
    expected = returns_by_hand(rlpipe.restore(pole).policies["p0"], range(5, 7))
    assert found["returns"] == expected
    assert found["seeds"] == [5, 6]
    assert found["lengths"] == [int(value) for value in expected]
    assert found["mean"] == np.mean(expected)
    assert found["std"] == np.std(expected)


def test_the_environment_is_known_where_it_is_recorded(run_task: Runner, pole: Path, checkpoint: Path) -> None:
    report = run_task("evaluate", source=SourceSettings(path=str(pole)), evaluate=TWO)
    assert report.to_json()["evaluations"][0]["env"] == "CartPole-v1"
    with pytest.raises(ConfigError) as caught:
        run_task("evaluate", source=SourceSettings(path=str(checkpoint)), evaluate=TWO)
    assert "env=" in caught.value.fix


def test_an_episode_can_be_stopped(run_task: Runner, pole: Path) -> None:
    settings = EvaluateSettings(episodes=1, max_steps=3)
    report = run_task("evaluate", source=SourceSettings(path=str(pole)), evaluate=settings)
    (found,) = report.to_json()["evaluations"]
    assert (found["lengths"], found["ended"], found["returns"]) == ([3], ["stopped"], [3.0])


def test_artifacts_act_like_each_other(run_task: Runner, tmp_path: Path, artifacts: Path) -> None:
    report = run_task("evaluate", source=SourceSettings(path=str(artifacts)), evaluate=TWO, trust=("torch_export",))
    found = {(one["policy_id"], one["form"]): one for one in report.to_json()["evaluations"]}
    assert sorted(found) == [("p0", "onnx"), ("p2", "onnx"), ("p2", "torch_export")]
    assert found["p2", "onnx"]["returns"] == found["p2", "torch_export"]["returns"]
    live = run_task("evaluate", source=SourceSettings(path=str(artifacts.parent / "source")), evaluate=TWO).to_json()
    assert [one["returns"] for one in live["evaluations"]] == [found[name, "onnx"]["returns"] for name in ("p0", "p2")]
    assert [one["fingerprint"] for one in live["evaluations"]] == [
        found[name, "onnx"]["fingerprint"] for name in ("p0", "p2")
    ]


def test_one_file_of_an_artifact(run_task: Runner, artifacts: Path) -> None:
    file = artifacts / "p2/onnx/policy.onnx"
    report = run_task(
        "evaluate", source=SourceSettings(path=str(file)), evaluate=TWO, select=SelectSettings(policy_ids=("p2",))
    )
    (found,) = report.to_json()["evaluations"]
    assert (found["policy_id"], found["form"]) == ("p2", "onnx")


def test_a_file_that_could_run_code_is_not_loaded(run_task: Runner, artifacts: Path) -> None:
    with pytest.raises(UnsafePayloadError):
        run_task("evaluate", source=SourceSettings(path=str(artifacts / "p2/torch_export")), evaluate=TWO)


def test_it_is_left_out_beside_one_that_cannot(run_task: Runner, artifacts: Path) -> None:
    report = run_task("evaluate", source=SourceSettings(path=str(artifacts)), evaluate=TWO)
    assert [(one["policy_id"], one["form"]) for one in report.to_json()["evaluations"]] == [
        ("p0", "onnx"),
        ("p2", "onnx"),
    ]
    (said,) = (text for text in report.warnings if "left out" in text)
    assert "p2/torch_export" in said
    assert "'trust=[torch_export]'" in said


def test_a_foreign_file(run_task: Runner, sb3_zip: Path) -> None:
    with pytest.raises(EnvironmentMismatchError):
        run_task("evaluate", source=SourceSettings(path=str(sb3_zip)), env="CartPole-v1", evaluate=TWO)


def test_another_environment_is_refused_with_both_sides(run_task: Runner, pole: Path) -> None:
    with pytest.raises(EnvironmentMismatchError) as caught:
        run_task("evaluate", source=SourceSettings(path=str(pole)), env="Pendulum-v1", evaluate=TWO)
    assert "p0" in caught.value.subject
    assert "Pendulum-v1" in caught.value.subject
    assert "(4,)" in caught.value.expected
    assert "(3,)" in caught.value.found


def test_an_environment_that_a_file_names_imports_no_module(run_task: Runner, tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text("open('mark', 'w').close()\n")
    policies = algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1"))
    write(tmp_path / "a", policies)
    shutil.move(tmp_path / "a", tmp_path / "moved")
    tree = rlpipe.restore(tmp_path / "moved").policies["p0"]
    tree.metadata = {**tree.metadata, "env": "stranger:Evil-v0"}
    tree.save_to_path(tmp_path / "evil")
    with pytest.raises(ConfigError):
        run_task("evaluate", source=SourceSettings(path="evil"), evaluate=TWO)
    assert not (tmp_path / "mark").exists()


def test_an_environment_for_all_that_not_all_fit_names_those_that_do(run_task: Runner, tmp_path: Path) -> None:
    pole = PolicySettings(module=PPO, env="CartPole-v1")
    source = write(tmp_path / "a", algorithm(p0=pole, p1=PolicySettings(module=PPO, env="Pendulum-v1"), p2=pole))
    with pytest.raises(EnvironmentMismatchError) as caught:
        run_task("evaluate", source=SourceSettings(path=str(source)), env="CartPole-v1", evaluate=TWO)
    assert "p1" in caught.value.subject
    assert caught.value.fix == "leave env away, or 'policy_ids=[p0,p2]', which fit it"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_blamed_by_name(
    value: float, run_task: Runner, pole: Path, tmp_path: Path
) -> None:
    """Before an episode begins, so that neither gymnasium nor the observation is blamed."""
    policies: Any = rlpipe.Policy.from_checkpoint(pole)
    with torch.no_grad():
        next(iter(policies["p0"].module.pi.parameters())).fill_(value)
    broken = rlpipe.Algorithm(policies).save_to_path(tmp_path / "broken")
    with pytest.raises(SpecError) as caught:
        run_task("evaluate", source=SourceSettings(path=str(broken)), env="CartPole-v1", evaluate=TWO)
    assert "p0" in caught.value.subject
    assert "pi/logits/weight" in caught.value.found


LSTM = {"type": "lstm", "hidden_size": 8}
REMEMBERS = replace(PPO, model_config={"actor": LSTM, "critic": LSTM})


def test_a_memory_is_forgotten_between_episodes(run_task: Runner, tmp_path: Path) -> None:
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=REMEMBERS, env="CartPole-v1")))
    report = run_task("evaluate", source=SourceSettings(path=str(path)), evaluate=TWO)
    (found,) = report.to_json()["evaluations"]
    policy = rlpipe.restore(path).policies["p0"]
    env = gymnasium.make("CartPole-v1")
    lengths = []
    for seed in range(5, 7):
        observation, _ = env.reset(seed=seed)
        state, length, over = None, 0, False
        while not over:
            actions, state = policy.step(observation[None], state)
            observation, _, terminated, truncated, _ = env.step(int(actions[0]))
            length, over = length + 1, terminated or truncated
        lengths.append(length)
    env.close()
    assert found["lengths"] == lengths


class Picky(gymnasium.Env[Any, Any]):
    """Allows one choice at a time, and takes no other."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self) -> None:
        self.now = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """See gymnasium."""
        super().reset(seed=seed, options=options)
        self.now = 0
        return np.zeros(2, np.float32), {}

    def action_masks(self) -> Any:
        """What sb3-contrib asks for."""
        return np.arange(3) == self.now % 3

    def step(self, action: Any) -> Any:
        """See gymnasium."""
        right = int(action) == self.now % 3
        self.now += 1
        return np.zeros(2, np.float32), float(right), self.now == 9, False, {}


@pytest.fixture(name="picky")
def _picky() -> Iterator[str]:
    gymnasium.register("Picky-v0", entry_point="tests.pipeline.tasks.test_evaluate:Picky", disable_env_checker=True)
    yield "Picky-v0"
    gymnasium.registry.pop("Picky-v0")


@pytest.mark.parametrize("remembers", [False, True])
def test_what_the_environment_forbids_is_not_done(
    run_task: Runner, tmp_path: Path, picky: str, *, remembers: bool
) -> None:
    module = replace(REMEMBERS if remembers else PPO, action_mask="")
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=module, env=picky)))
    report = run_task("evaluate", source=SourceSettings(path=str(path)), evaluate=TWO)
    assert report.to_json()["evaluations"][0]["returns"] == [9.0, 9.0]


@pytest.mark.parametrize(("runner", "fix"), [(True, "env=CartPole-v1, which its env_runner has"), (False, "name it: ")])
def test_a_runner_beside_the_policies_hints_at_the_environment(runner: bool, fix: str, run_task: Runner) -> None:
    policy = PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2))
    acting = {"env_runner": RunnerSpec(env="CartPole-v1"), "policy_mapping_fn": {"*": "p0"}} if runner else {}
    made = AlgorithmSettings(policies={"p0": policy}, **acting)  # type: ignore[arg-type]
    run_task("save", algorithm=made, checkpoint=CheckpointSettings(path="run"))
    with pytest.raises(ConfigError, match="it is not known in which environment p0 acts") as caught:
        run_task("evaluate", source=SourceSettings(path="run"))
    assert caught.value.fix.startswith(fix)
