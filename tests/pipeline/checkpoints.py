"""Settings and checkpoints that the tests of tasks share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.runner import run
from rlpipe.pipeline.settings import (
    AlgorithmSettings,
    CheckpointSettings,
    ModuleSettings,
    PolicySettings,
    RunSettings,
)
from rlpipe.snapshot.spaces import Box, Discrete

Runner = Callable[..., Report]

ENCODER = {"type": "mlp", "hidden": [8], "activation": "tanh"}
PPO = ModuleSettings(
    class_path="rlpipe.modules.torch.ppo.PPOModule",
    model_config={"shared": None, "actor": ENCODER, "critic": ENCODER, "log_std": "free", "squash": False},
)
DQN = ModuleSettings(class_path="rlpipe.modules.torch.dqn.DQNModule", model_config={"encoder": ENCODER})
SAC = ModuleSettings(
    class_path="rlpipe.modules.torch.sac.SACModule", model_config={"actor": ENCODER, "critic": ENCODER}
)


def box(width: int) -> Box:
    return Box(np.full(width, -1.0), np.full(width, 1.0), np.dtype(np.float32))


def algorithm(*, seed: int = 0, **policies: PolicySettings) -> AlgorithmSettings:
    chosen = policies or {
        "p0": PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2)),
        "p1": PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2)),
        "p2": PolicySettings(module=DQN, observation_space=box(3), action_space=Discrete(4)),
    }
    return AlgorithmSettings(policies=chosen, seed=seed)


def write(path: Path, settings: AlgorithmSettings, backend: str = "hdf5") -> Path:
    made = RunSettings(task="save", algorithm=settings, checkpoint=CheckpointSettings(path=str(path), backend=backend))
    run(made)
    return path


def files(folder: Path) -> Mapping[str, bytes]:
    """Relative path -> bytes, of every file in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def roles(component: Path) -> dict[str, str]:
    """Array key -> role, as the manifest says."""
    file = json.loads((component / "manifest.json").read_text())["file"]
    return {key: role for key, _, _, role, _ in file["arrays"]}
