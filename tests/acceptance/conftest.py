"""What several acceptance tests start from: checkpoints made by the program, models made by stable-baselines3."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.program import SAMPLE, Run, run_program


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`task=save` as it comes, in an empty folder: p0, p1, p2 in HDF5 under outputs/checkpoints."""
    return run_program("task=save", folder=tmp_path_factory.mktemp("saved")).succeeded()


@pytest.fixture(scope="session")
def checkpoint(saved: Run) -> Path:
    """The checkpoint that `saved` wrote."""
    (found,) = saved.folder.glob("outputs/checkpoints/*")
    return found


@pytest.fixture(scope="session")
def sample() -> Path:
    """The packaged, trained checkpoint: p0 PPO CartPole, p1 SAC Pendulum, p2 DQN CartPole."""
    return SAMPLE


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of stable-baselines3 and what they do, see train_foreign.py."""
    pytest.importorskip("stable_baselines3")
    folder = tmp_path_factory.mktemp("foreign")
    script = Path(__file__).with_name("train_foreign.py")
    made = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder
