from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from rlpipe.errors import EnvironmentMismatchError
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.settings import (
    AlgorithmSettings,
    BaseSettings,
    CheckpointSettings,
    EvaluateSettings,
    ExportSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.snapshot.spaces import Discrete, from_gymnasium
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box, write

POLE = PolicySettings(module=PPO, env="CartPole-v1")
OTHER = PolicySettings(module=PPO, observation_space=box(3), action_space=Discrete(2))
ENV = "Switches-v0"
INTO_C = CheckpointSettings(path="c")


class Switches(gymnasium.Env[Any, Any]):
    """What the policy of sb3_zip acts in."""

    observation_space = gymnasium.spaces.MultiBinary(4)
    action_space = gymnasium.spaces.Box(np.array([-0.1, -3], np.float32), np.array([0.2, 1], np.float32))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        del options
        super().reset(seed=seed)
        return np.zeros(4, np.int8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        del action
        return np.ones(4, np.int8), 1.0, True, False, {}


@pytest.fixture
def switches() -> Iterator[None]:
    gymnasium.register(ENV, entry_point=cast("Any", Switches))
    yield
    del gymnasium.registry[ENV]


def without_env(algorithm: AlgorithmSettings) -> AlgorithmSettings:
    """The same policies, their spaces given instead of an environment."""
    env = gymnasium.make("CartPole-v1")
    seen, acted = from_gymnasium(env.observation_space), from_gymnasium(env.action_space)
    env.close()
    policies = {
        name: replace(one, env=None, observation_space=seen, action_space=acted) if one.env else one
        for name, one in algorithm.policies.items()
    }
    return AlgorithmSettings(policies=policies)


def recorded(component: Path) -> object:
    return json.loads((component / "manifest.json").read_text())["metadata"].get("env")


def test_the_environment_of_a_foreign_file_is_recorded_and_used(
    run_task: Runner, tmp_path: Path, sb3_zip: Path, switches: None
) -> None:
    source = SourceSettings(path=str(sb3_zip))
    run_task("save", source=source, env=ENV, checkpoint=INTO_C)
    assert recorded(tmp_path / "c/policies/p0") == ENV
    rolled = run_task("evaluate", source=SourceSettings(path="c"), evaluate=EvaluateSettings(episodes=1))
    assert rolled.to_json()["evaluations"][0]["env"] == ENV
    targets = ExportSettings(targets={"onnx": onnx.Options()})
    run_task("export", source=source, env=ENV, export=targets, artifact_path="made")
    assert json.loads((tmp_path / "made/p0/artifact.json").read_text())["provenance"]["policy"]["env"] == ENV


def test_an_environment_that_does_not_fit_is_not_recorded(run_task: Runner, tmp_path: Path, sb3_zip: Path) -> None:
    with pytest.raises(EnvironmentMismatchError):
        run_task("save", source=SourceSettings(path=str(sb3_zip)), env="CartPole-v1", checkpoint=INTO_C)
    source = write(tmp_path / "a", without_env(algorithm(p0=POLE, p1=OTHER)))
    with pytest.raises(EnvironmentMismatchError) as caught:
        run_task("save", source=SourceSettings(path=str(source)), env="CartPole-v1", checkpoint=INTO_C)
    assert "policy_ids=[p0]" in caught.value.fix
    assert not (tmp_path / "c").exists()


def test_a_recorded_environment_stays(run_task: Runner, tmp_path: Path) -> None:
    source = write(tmp_path / "a", algorithm(p0=POLE))
    report = run_task("save", source=SourceSettings(path=str(source)), env="CartPole-v0", checkpoint=INTO_C)
    assert recorded(tmp_path / "c/policies/p0") == "CartPole-v1"
    assert any("p0 keeps" in text for text in report.warnings)


def test_one_that_cannot_be_made_here_is_recorded_with_a_word(run_task: Runner, tmp_path: Path, sb3_zip: Path) -> None:
    report = run_task("save", source=SourceSettings(path=str(sb3_zip)), env="Elsewhere-v0", checkpoint=INTO_C)
    assert recorded(tmp_path / "c/policies/p0") == "Elsewhere-v0"
    assert any("unchecked" in text for text in report.warnings)


def test_a_policy_that_knows_none_keeps_that_of_its_place(run_task: Runner, tmp_path: Path) -> None:
    both = algorithm(p0=POLE, p1=POLE)
    base, source = write(tmp_path / "a", both), write(tmp_path / "b", without_env(both))
    run_task(
        "subset_restore",
        source=SourceSettings(path=str(source)),
        base=BaseSettings(path=str(base)),
        select=SelectSettings(policy_ids=("p1",)),
        checkpoint=INTO_C,
    )
    assert recorded(source / "policies/p1") is None
    assert recorded(tmp_path / "c/policies/p1") == "CartPole-v1"
