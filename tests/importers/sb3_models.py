"""Small models of Stable-Baselines3 for tests, and observations to compare them on; needs the library."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

COUNT = 1000
Array = np.ndarray[Any, np.dtype[Any]]


class SpacesOnly(gymnasium.Env[Any, Any]):
    """An environment that is nothing but two spaces; observations are drawn from a wide normal where nothing bounds."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        del action
        return self.observation_space.sample(), 0.0, False, False, {}


@dataclass(frozen=True)
class Case:
    """One model: its class, spaces and arguments, and the size of its weights."""

    algorithm: Callable[..., BaseAlgorithm]
    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    scale: float = 0.5

    def model(self) -> BaseAlgorithm:
        """The untrained model with weights that show in the actions."""
        # Algorithms write into their policy_kwargs, so they get copies.
        env = SpacesOnly(self.observation, self.action)
        model = self.algorithm("MlpPolicy", env, device="cpu", seed=1, **deepcopy(self.settings))
        enlarge(model, self.scale)
        return model


def enlarge(model: BaseAlgorithm, scale: float = 0.5) -> None:
    """Gives every parameter a random value large enough to show in the actions."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def observations(space: spaces.Space[Any], count: int = COUNT) -> Array:
    """Mixed scales 1e-3 to 1e3 in a float Box, samples elsewhere."""
    rng = np.random.default_rng(5)
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        scales = 10.0 ** rng.uniform(-3, 3, size=(count, *[1] * len(space.shape)))
        return (rng.standard_normal((count, *space.shape)) * scales).astype(space.dtype)
    space.seed(5)
    return np.stack([np.asarray(space.sample()) for _ in range(count)])


def saved(model: BaseAlgorithm, folder: Path) -> Path:
    """The model's zip in a folder."""
    path = folder / "model.zip"
    model.save(path)
    return path


def normalised(algorithm: Callable[..., BaseAlgorithm], **settings: Any) -> tuple[BaseAlgorithm, VecNormalize]:
    """A model trained for a few steps under VecNormalize, and the wrapper; nothing is saved yet."""
    callback = settings.pop("callback", None)
    settings = deepcopy(settings)
    norm = settings.pop("norm", {})
    observation = spaces.Box(np.array([-1.0, 900.0, -np.inf], np.float32), np.array([1.0, 1100.0, np.inf], np.float32))
    action = settings.pop("action", spaces.Box(-1, 1, (2,), np.float32))
    env = VecNormalize(DummyVecEnv([lambda: SpacesOnly(observation, action)]), **norm)
    model = algorithm("MlpPolicy", env, device="cpu", seed=1, **settings)
    model.learn(48, callback=callback)
    enlarge(model)
    return model, env
