"""Makes small stable-baselines3 models and what they do, in a process of its own: python train_foreign.py FOLDER.

For every kind: FOLDER/<kind>/model.zip and FOLDER/<kind>/expected.npz with `observations` and the `actions` of
predict(deterministic=True). Weights are random but large, so that every stage of the policy matters.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

COUNT = 1000
VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
MATRIX = spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
SQUARE = spaces.Box(-2.0, 3.0, (2, 2), np.float32)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 1.0], np.float32))


class SpacesOnly(gymnasium.Env[Any, Any]):
    """An environment that is nothing but its two spaces."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


def models() -> Mapping[str, BaseAlgorithm]:
    """One model of every kind that the importer promises."""
    on_policy: dict[str, Any] = {"n_steps": 8, "device": "cpu", "seed": 1}
    ppo: dict[str, Any] = {**on_policy, "batch_size": 8}
    off_policy: dict[str, Any] = {"buffer_size": 100, "device": "cpu", "seed": 1}
    gsde: dict[str, Any] = {"net_arch": {"pi": [6, 5], "vf": [4]}, "activation_fn": torch.nn.ELU}
    squashed: dict[str, Any] = {"net_arch": [8], "squash_output": True}
    relu: dict[str, Any] = {"net_arch": [8, 4], "activation_fn": torch.nn.LeakyReLU}

    def env(observation: spaces.Space[Any], action: spaces.Space[Any]) -> SpacesOnly:
        return SpacesOnly(observation, action)

    return {
        "ppo": PPO("MlpPolicy", env(VECTOR, spaces.Discrete(3)), policy_kwargs={"net_arch": [8, 8]}, **ppo),
        "a2c": A2C("MlpPolicy", env(VECTOR, SKEWED), use_sde=True, policy_kwargs=gsde, **on_policy),
        "dqn": DQN("MlpPolicy", env(VECTOR, spaces.Discrete(4)), policy_kwargs=relu, **off_policy),
        "sac": SAC("MlpPolicy", env(VECTOR, SKEWED), policy_kwargs={"net_arch": [8, 8]}, **off_policy),
        "sac_gsde": SAC("MlpPolicy", env(VECTOR, SKEWED), use_sde=True, policy_kwargs={"net_arch": [8]}, **off_policy),
        "ppo_multi_discrete": PPO("MlpPolicy", env(spaces.MultiDiscrete([3, 2]), spaces.MultiDiscrete([2, 5])), **ppo),
        "a2c_multi_binary": A2C("MlpPolicy", env(spaces.MultiBinary(5), spaces.MultiBinary(3)), **on_policy),
        "ppo_discrete": PPO("MlpPolicy", env(spaces.Discrete(6), spaces.Discrete(3)), **ppo),
        "ppo_start": PPO("MlpPolicy", env(MATRIX, spaces.Discrete(3, start=2)), **ppo),
        "ppo_squashed": PPO("MlpPolicy", env(MATRIX, SQUARE), use_sde=True, policy_kwargs=squashed, **ppo),
        "ppo_linear": PPO("MlpPolicy", env(VECTOR, SKEWED), policy_kwargs={"net_arch": []}, **ppo),
    }


def enlarge(model: BaseAlgorithm) -> None:
    """Gives every parameter a value that shows in the actions."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.normal_(0.0, 0.5)


def observations(space: spaces.Space[Any]) -> np.ndarray[Any, Any]:
    """Mixed scales 1e-3 to 1e3 in a Box, samples elsewhere."""
    rng = np.random.default_rng(5)
    if isinstance(space, spaces.Box):
        scales = 10.0 ** rng.uniform(-3, 3, size=(COUNT, *[1] * len(space.shape)))
        return (rng.standard_normal((COUNT, *space.shape)) * scales).astype(space.dtype)
    space.seed(5)
    return np.stack([np.asarray(space.sample()) for _ in range(COUNT)])


def keep(folder: Path, model: BaseAlgorithm, seen: np.ndarray[Any, Any], prepared: np.ndarray[Any, Any]) -> None:
    """Writes the model, raw observations and the trainer's own actions on the prepared ones."""
    folder.mkdir(parents=True)
    model.save(folder / "model.zip")
    actions, _ = model.predict(prepared, deterministic=True)
    np.savez(folder / "expected.npz", observations=seen, actions=actions)


def normalised(folder: Path, algorithm: type[PPO] | type[SAC], **options: Any) -> None:
    """A model trained under VecNormalize; beside it its statistics, a stranger's and two that are no numbers."""
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    model = algorithm("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, device="cpu", seed=1, **options)
    model.learn(64)
    # The networks may be replaced: the proof is in the last observations, not in the weights.
    enlarge(model)
    seen = observations(spaces.Box(-1.0, 1.0, (3,), np.float32))
    keep(folder, model, seen, np.asarray(env.normalize_obs(seen), np.float32))
    statistics = folder.parent / f"{folder.name}_statistics"
    statistics.mkdir()
    env.save(str(statistics / "vecnormalize.pkl"))
    assert not isinstance(env.obs_rms, dict)
    for name, value in (("stranger", 0.7), ("nan", np.nan), ("infinite", np.inf)):
        env.obs_rms.mean[0] = value
        env.save(str(statistics / f"{name}.pkl"))


def main(folder: Path) -> None:
    """Makes everything under `folder`."""
    torch.set_num_threads(1)
    for kind, model in models().items():
        enlarge(model)
        seen = observations(model.observation_space)
        keep(folder / kind, model, seen, seen)
    normalised(folder / "ppo_normalised", PPO, n_steps=32, batch_size=32, n_epochs=1)
    normalised(folder / "sac_normalised", SAC, buffer_size=100)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
