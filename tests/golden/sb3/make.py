"""Makes the golden files of Stable-Baselines3 in this folder: python -m tests.golden.sb3.make (needs the library).

Each model is a zip, with `<name>.npz` beside it: `observations`, and the `actions` of predict(deterministic=True). They
are committed, so that the importer is tested where the library is not installed. `old_shared` is made by hand in the
layout of version 1.6 (shared layers, spaces of gym, torch's format before 1.6), its actions by numpy alone.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC

from tests.importers.pickles import pickled_as
from tests.importers.sb3_models import Case, normalised, observations

HERE = Path(__file__).parent
COUNT = 64
VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 1.0], np.float32))
TINY: dict[str, Any] = {"policy_kwargs": {"net_arch": [4]}}
ON: dict[str, Any] = {"n_steps": 8, **TINY}
OFF: dict[str, Any] = {"buffer_size": 10, **TINY}
ELU: dict[str, Any] = {"policy_kwargs": {"net_arch": {"pi": [4, 3], "vf": [2]}, "activation_fn": torch.nn.ELU}}

CASES = {
    "ppo_discrete": Case(PPO, VECTOR, spaces.Discrete(3), {**ON, "batch_size": 8}),
    "ppo_box": Case(PPO, spaces.MultiBinary(4), SKEWED, {**ON, "batch_size": 8}),
    "a2c_gsde": Case(A2C, VECTOR, SKEWED, {"n_steps": 8, "use_sde": True, **ELU}),
    "a2c_choices": Case(A2C, spaces.MultiDiscrete([3, 2]), spaces.MultiDiscrete([2, 4]), ON),
    "a2c_switches": Case(A2C, spaces.Discrete(5), spaces.MultiBinary(3), ON),
    "dqn": Case(DQN, VECTOR, spaces.Discrete(3), OFF),
    "sac": Case(SAC, VECTOR, SKEWED, OFF),
    "sac_gsde": Case(SAC, VECTOR, SKEWED, {"use_sde": True, **OFF}),
}


def keep(name: str, model: Any, observed: Any, seen: Any) -> None:
    """Save a model and what it does; without facts about this machine, and compressed."""
    stream = io.BytesIO()
    model.save(stream)
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(HERE / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, b"- Made for tests\n" if member == "system_info.txt" else old.read(member))
    actions = model.predict(seen, deterministic=True)[0]
    np.savez_compressed(HERE / f"{name}.npz", observations=observed, actions=actions)


def keep_normalised(name: str, algorithm: Any, **settings: Any) -> None:
    """A model that was trained under VecNormalize, and its statistics in a folder of its name."""
    model, env = normalised(algorithm, **settings)
    observed = observations(spaces.Box(-1, 1, (3,), np.float32), COUNT)
    observed[:, 1] += 1000
    keep(name, model, observed, env.normalize_obs(observed))
    (HERE / name).mkdir(exist_ok=True)
    env.save(str(HERE / name / "vecnormalize.pkl"))


def gym_pickle(state: dict[str, Any]) -> dict[str, Any]:
    """A space as an old zip holds it: pickled as gym.spaces.box.Box, with a text beside it."""
    raw = pickled_as("gym.spaces.box.Box", state)
    return {":type:": "<class 'gym.spaces.box.Box'>", ":serialized:": base64.b64encode(raw).decode()}


def old_shared() -> None:
    """A PPO zip of version 1.6 with net_arch=[5, dict(pi=[4], vf=[3])], and what it does to observations."""
    rng = np.random.default_rng(0)
    sizes = {
        "mlp_extractor.shared_net.0": (5, 3),
        "mlp_extractor.policy_net.0": (4, 5),
        "mlp_extractor.value_net.0": (3, 5),
        "action_net": (2, 4),
        "value_net": (1, 3),
    }
    weights = {"log_std": rng.standard_normal(2, np.float32)}
    for name, shape in sizes.items():
        weights[f"{name}.weight"] = rng.standard_normal(shape, np.float32)
        weights[f"{name}.bias"] = rng.standard_normal(shape[:1], np.float32)
    policy = io.BytesIO()
    state = {name: torch.from_numpy(array) for name, array in weights.items()}
    torch.save(state, policy, _use_new_zipfile_serialization=False)
    low, high = np.full(2, -1, np.float32), np.array([0.5, 1.0], np.float32)
    wide = np.full(3, np.inf, np.float32)
    data = {
        "policy_kwargs": {"net_arch": [5, {"pi": [4], "vf": [3]}]},
        "observation_space": gym_pickle({"low": -wide, "high": wide, "shape": (3,), "dtype": np.dtype("f4")}),
        "action_space": gym_pickle({"low": low, "high": high, "shape": (2,), "dtype": np.dtype("f4")}),
        "lr_schedule": {":type:": "<class 'function'>", ":serialized:": base64.b64encode(rng.bytes(40)).decode()},
        "clip_range": {":type:": "<class 'function'>", ":serialized:": base64.b64encode(rng.bytes(40)).decode()},
        "num_timesteps": 1000,
        "n_envs": 1,
        "_last_original_obs": None,
    }
    with zipfile.ZipFile(HERE / "old_shared.zip", "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("data", json.dumps(data, indent=4))
        new.writestr("policy.pth", policy.getvalue())
        new.writestr("_stable_baselines3_version", "1.6.2")
    observed = observations(spaces.Box(-1, 1, (3,), np.float32), COUNT)
    hidden = observed
    for name in ("mlp_extractor.shared_net.0", "mlp_extractor.policy_net.0"):
        hidden = np.tanh(hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])
    actions = np.clip(hidden @ weights["action_net.weight"].T + weights["action_net.bias"], low, high)
    np.savez_compressed(HERE / "old_shared.npz", observations=observed, actions=actions)


def main() -> None:
    """Make all of them."""
    torch.set_num_threads(1)
    for name, case in CASES.items():
        model = case.model()
        observed = observations(case.observation, COUNT)
        keep(name, model, observed, observed)
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, **TINY}
    keep_normalised("ppo_normalised", PPO, **settings)
    keep_normalised("sac_normalised", SAC, buffer_size=100, learning_starts=40, **TINY)
    old_shared()


if __name__ == "__main__":
    main()
