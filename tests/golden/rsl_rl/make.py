"""Makes the golden files of rsl_rl in this folder: python -m tests.golden.rsl_rl.make (needs rsl-rl-lib).

Run it once with each of rsl-rl-lib 2.3.3, 3.1.2, 4.0.1 and 5.5.1 on the path: it makes the files of the installed
version. Each is a checkpoint that the library's own runner trained a little and saved, in a folder as Isaac Lab leaves
it, with `<name>.npz` beside it: what the runner's inference policy did. `v1_mlp` is version 2 told to normalise
nothing, which writes the same dict as version 1, and that in the file format of a torch of its time.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from tests.importers.rsl_rl_runs import ACTIONS, Case, config, major, played, save, trained

HERE = Path(__file__).parent
ROWS = 64
CLIP = 0.25
JOINTS = ["LF_HAA", "LF_HFE", "LF_KFE"]
REST = [0.0, 0.4000000059604645, -0.800000011920929]
WIDE = ("policy", "privileged")
CASES = {
    2: {
        "v1_mlp": Case(normalised=False),
        "v2_mlp": Case(),
        "v2_lstm": Case(memory="lstm", critic=WIDE),
        "v2_student": Case(distilled=True, critic=WIDE),
    },
    3: {
        "v3_mlp": Case(actor=("policy", "extra"), critic=WIDE, std="log"),
        "v3_gru": Case(memory="gru"),
        "v3_state": Case(spread="state", std="log"),
    },
    4: {"v4_mlp": Case(activation="tanh"), "v4_lstm": Case(memory="lstm", layers=2)},
    5: {
        "v5_mlp": Case(actor=("policy", "extra"), critic=("policy", "extra")),
        "v5_state": Case(spread="state"),
        "v5_beta": Case(spread="beta"),
        "v5_lstm": Case(memory="lstm", layers=2, normalised=False),
        "v5_gru": Case(memory="gru", critic=WIDE),
        "v5_student": Case(distilled=True, critic=WIDE),
    },
}


def agent(case: Case) -> dict[str, Any]:
    """The settings of the runner, as Isaac Lab dumps them: tuples where its classes have tuples."""
    told = config(case)
    told["obs_groups"] = {name: tuple(groups) for name, groups in told["obs_groups"].items()}
    told["clip_actions"] = CLIP if case.std == "log" else None
    for section in ("actor", "critic", "student", "teacher"):
        if "hidden_dims" in told.get(section, {}):
            told[section]["hidden_dims"] = tuple(told[section]["hidden_dims"])
    told.pop("multi_gpu")
    return {"seed": 42, "device": "cuda:0", **told, "experiment_name": "walk", "load_checkpoint": "model_.*.pt"}


def environment() -> dict[str, Any]:
    """Some of what Isaac Lab dumps about an environment, with the objects of Python that are among it."""
    robot = {
        "prim_path": "{ENV_REGEX_NS}/Robot",
        "init_state": {"joint_pos": {".*HAA": 0.0, ".*HFE": REST[1], ".*KFE": REST[2]}, "joint_vel": {".*": 0.0}},
    }
    term = {
        "class_type": "isaaclab.envs.mdp.actions.joint_actions:JointPositionAction",
        "asset_name": "robot",
        "clip": None,
        "joint_names": [".*"],
        "scale": {".*HAA": 0.25, ".*(HFE|KFE)": 0.5},
        "offset": 0.0,
        "preserve_order": False,
        "use_default_offset": True,
    }
    seen = {"func": "isaaclab.envs.mdp.observations:joint_pos_rel", "params": {"joint_ids": slice(None)}}
    return {
        "sim": {"dt": 0.005, "gravity": (0.0, 0.0, -9.81)},
        "decimation": 4,
        "scene": {"num_envs": 4096, "robot": robot},
        "observations": {"policy": {"joint_pos": seen}},
        "actions": {"joint_pos": term},
    }


def descriptors(case: Case) -> dict[str, Any]:
    """What Isaac Lab exports about observations and actions, for the groups of these tests."""
    term = {"dtype": "torch.float32", "mdp_type": "Observation", "overloads": {"history_length": 0, "scale": None}}
    velocity = {**term, "name": "base_lin_vel", "shape": [3], "extras": {"axes": ["X", "Y", "Z"], "units": "m/s"}}
    joints = {**term, "name": "joint_pos_rel", "shape": [3], "joint_names": JOINTS, "extras": {"units": "rad"}}
    past = {**term, "name": "contact", "shape": [1], "extras": {}, "overloads": {"history_length": 2, "scale": 2.0}}
    action = {
        "name": "joint_position_action",
        "full_path": "isaaclab.envs.mdp.actions.joint_actions.JointPositionAction",
        "joint_names": JOINTS,
        "shape": [ACTIONS],
        "scale": 0.5,
        "offset": REST,
        "clip": [[-1.0, 1.0]] * ACTIONS if case.memory else None,
    }
    robot = {"joint_names": JOINTS, "default_joint_pos": REST, "default_joint_stiffness": [80.0, 80.0, 60.0]}
    return {
        "actions": [action],
        "articulations": {"robot": robot},
        "observations": {"policy": [velocity, joints], "extra": [past]},
        "scene": {"decimation": 4, "dt": 0.02, "physics_dt": 0.005},
    }


def keep(name: str, case: Case) -> None:
    """Train, save, play, and write down the settings."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        runner = trained(case)
        path = folder / f"model_{runner.current_learning_iteration}.pt"
        save(runner, path)
        rows: dict[str, Any] = played(runner, case)
    if name == "v1_mlp":
        torch.save(torch.load(path, weights_only=True), path, _use_new_zipfile_serialization=False)
    if case.std == "log":
        rows["actions"] = rows["actions"].clip(-CLIP, CLIP)  # as the wrappers of Isaac Lab and mjlab do
    if not case.memory:
        del rows["starts"]
        rows = {key: values.reshape(-1, values.shape[-1])[:ROWS] for key, values in rows.items()}
    np.savez_compressed(path.with_suffix(".npz"), **rows)
    for file, content in settings(name, case):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(yaml.dump(content, default_flow_style=False, sort_keys=False))


def settings(name: str, case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file, content) of what lies beside a checkpoint; the oldest version leaves nothing."""
    if name == "v1_mlp":
        return
    yield "params/agent.yaml", agent(case)
    if name in ("v2_mlp", "v4_lstm", "v5_mlp"):
        yield "params/env.yaml", environment()
    if name in ("v3_gru", "v5_mlp", "v5_lstm"):
        yield "io_descriptors/IO_descriptors.yaml", descriptors(case)


if __name__ == "__main__":
    for name, case in CASES[major()].items():
        keep(name, case)
