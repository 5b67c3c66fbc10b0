"""Small checkpoints, written by the program itself and read back by others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlpipe
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.runner import run
from rlpipe.pipeline.settings import PolicySettings, RunSettings
from tests.pipeline.checkpoints import DQN, PPO, Runner, algorithm, write

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p0, p1: PPO; p2: DQN. Only to be read."""
    return write(tmp_path_factory.mktemp("checkpoint") / "a", algorithm())


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same policies with other weights. Only to be read."""
    return write(tmp_path_factory.mktemp("other") / "b", algorithm(seed=1))


@pytest.fixture(scope="session")
def sb3_zip() -> Path:
    """PPO of Stable-Baselines3 with a Box of actions; ppo_box.npz has observations and its actions."""
    return GOLDEN / "ppo_box.zip"


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of CartPole-v1: p0, PPO, as ONNX, and p2, DQN, as ONNX and torch.export. Only to be read."""
    folder = tmp_path_factory.mktemp("artifacts")
    p0, p2 = (PolicySettings(module=module, env="CartPole-v1") for module in (PPO, DQN))
    write(folder / "source", algorithm(p0=p0, p2=p2))
    assert rlpipe.export(folder / "source", folder / "made", targets=["onnx"]).ok
    assert rlpipe.export(folder / "source", folder / "made", targets=["torch_export"], policy_ids=["p2"]).ok
    return folder / "made"


@pytest.fixture
def run_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Runs a task in an empty working directory; keyword arguments are those of RunSettings."""
    monkeypatch.chdir(tmp_path)

    def runner(task: str, **settings: Any) -> Report:
        return run(replace(RunSettings(task=task, algorithm=algorithm()), **settings))

    return runner
