"""The training loop of the README does what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlpipe
from rlpipe.errors import CheckpointExistsError
from rlpipe.pipeline.settings import PolicySettings
from rlpipe.snapshot.state import equal
from tests.checkpoint.components import Net, net
from tests.pipeline.checkpoints import PPO, algorithm, write

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
(LOOP,) = [block for block in BLOCKS if "AsyncSaver" in block]
(TRAINING,) = [block for block in BLOCKS if "rlpipe.Learner" in block]
(TASKS,) = [block for block in BLOCKS if "rlpipe.verify" in block]
LOSS = """
from torch import nn
def clone(module, batch):
    return nn.functional.cross_entropy(module.forward_train(batch)["logits"], batch["actions"])
"""


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


def test_the_loop_trains_keeps_and_restores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = net(1)

    def train(trained: Any) -> float:
        trained.steps += 1
        return -abs(trained.steps - 20.0)

    policy.steps = 0
    exec(LOOP, {"train": train, "policy": policy})
    kept = [0, 10_000, 19_000, 20_000, 30_000, 40_000, 47_000, 48_000, 49_000]
    assert steps(tmp_path / "runs" / "walker") == kept
    assert policy.steps == 20
    assert rlpipe.latest("runs/walker").checkpoint.step == 49_000
    assert rlpipe.at_step("runs/walker", 10_000).checkpoint.score == -9


def test_the_tasks_answer_with_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("ckpt"), algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1")))
    told: dict[str, Any] = {}
    exec(TASKS, told)
    assert list(told["restored"]) == ["p0"]
    assert rlpipe.verify("artifacts").ok


def test_saving_a_step_again_replaces_its_checkpoint_unless_that_is_refused(tmp_path: Path) -> None:
    for seed in (1, 2):
        rlpipe.Series(folder=tmp_path).write(net(seed), step=3)
    assert steps(tmp_path) == [3]
    assert equal(Net.from_checkpoint(tmp_path / "step-3").get_state(), net(2).get_state())
    with pytest.raises(CheckpointExistsError):
        rlpipe.Series(folder=tmp_path, if_exists="error").write(net(1), step=3)
    store = rlpipe.Series(folder=f"memory://{tmp_path.name}")
    store.write(net(1), step=3)
    with pytest.raises(CheckpointExistsError):
        store.write(net(2), step=3)


def test_a_signal_ends_the_loop_after_its_save(tmp_path: Path) -> None:
    code = f"""
import os, signal
from tests.checkpoint.components import net
policy = net(1)
def train(trained):
    trained.steps += 1
    if trained.steps == 4:
        os.kill(os.getpid(), signal.SIGTERM)
    return 0.0
{LOOP}
"""
    command = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert steps(tmp_path / "runs" / "walker") == [0, 1_000, 2_000]


def test_what_trains_and_acts_goes_back_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.py").write_text(LOSS)
    monkeypatch.syspath_prepend(tmp_path)
    found: dict[str, Any] = {}
    exec(TRAINING, found)
    saved = rlpipe.Algorithm.from_checkpoint("run", trust=("losses.*",))
    assert found["algorithm"].counters == saved.counters
    assert saved.counters["updates"] == 1
    state = saved.get_state()
    for one in (found["algorithm"], found["again"]):
        state["learner"]["random_states"] = one.get_state()["learner"]["random_states"]
        assert equal(one.get_state(), state)
    assert list(found["one"].policies) == ["p1"]
    assert sorted(found["losses"]) == ["p0", "p1"]
