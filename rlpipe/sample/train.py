"""Trains the packaged sample: `python -m rlpipe.sample.train OUT_DIR` (needs the extra sb3; minutes on one core).

Three policies are trained with Stable-Baselines3, saved as its zips, imported by rlpipe, and judged as rlpipe runs
them. One that does not reach its return is trained again with another seed. What is written is a checkpoint of all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from rlpipe.algorithms.env_runner import make_env, rollout, spaces_of
from rlpipe.checkpoint.restore import build
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import MissingDependencyError, RlpipeError
from rlpipe.importers import recognise, resolve
from rlpipe.pipeline.lift import algorithm_of, container_of
from rlpipe.pipeline.provenance import versions
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.snapshot import Snapshot

EPISODES = 20
EVALUATION_SEEDS = range(1000, 1000 + EPISODES)
TRAINING_SEEDS = range(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one policy is trained.

    Attributes:
        algorithm: Name of the algorithm in stable_baselines3.
        env: Id of the environment.
        threshold: Mean return over 20 episodes that is good enough.
        environments: Copies of the environment that are stepped together.
        chunk: Steps of training between two looks at the return.
        chunks: How often at most.
        settings: Arguments of the algorithm.
    """

    algorithm: str
    env: str
    threshold: float
    environments: int
    chunk: int
    chunks: int
    settings: Mapping[str, Any]


_NETS = {"net_arch": [64, 64]}

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "p0": Recipe(
            algorithm="PPO",
            env="CartPole-v1",
            threshold=475.0,
            environments=8,
            chunk=30_000,
            chunks=4,
            settings={"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98}
            | {"learning_rate": 1e-3, "policy_kwargs": _NETS},
        ),
        "p1": Recipe(
            algorithm="SAC",
            env="Pendulum-v1",
            threshold=-250.0,
            environments=1,
            chunk=8_000,
            chunks=3,
            settings={"learning_rate": 1e-3, "policy_kwargs": _NETS},
        ),
        "p2": Recipe(
            algorithm="DQN",
            env="CartPole-v1",
            threshold=400.0,
            environments=1,
            chunk=5_000,
            chunks=16,
            settings={"learning_rate": 1e-3, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 1_000}
            | {"target_update_interval": 500, "train_freq": 16, "gradient_steps": 16, "exploration_fraction": 0.2}
            | {"exploration_final_eps": 0.05, "policy_kwargs": _NETS},
        ),
    }
)
"""Policy id -> recipe."""


def train(recipe: Recipe, path: Path) -> Snapshot:
    """Train until the imported policy is good enough, and leave the zip at `path`. One that is good enough is kept.

    Returns:
        The imported policy, with its environment and returns among the metadata.

    Raises:
        RlpipeError: No seed reached the threshold.
    """
    best = -np.inf
    if path.is_file():
        snapshot, best = judged(recipe, path)
        if best >= recipe.threshold:
            return snapshot
    for seed in TRAINING_SEEDS:
        model = _model(recipe, seed)
        for _ in range(recipe.chunks):
            model.learn(recipe.chunk, reset_num_timesteps=False)
            model.save(path)
            snapshot, mean = judged(recipe, path)
            best = max(best, mean)
            print(f"{path.stem}: seed {seed}, {model.num_timesteps} steps, mean return {mean:.1f}", flush=True)  # noqa: T201
            if mean >= recipe.threshold:
                return snapshot
    raise RlpipeError(
        f"{recipe.algorithm} did not learn {recipe.env}",
        expected=f"a mean return of at least {recipe.threshold}",
        found=f"{best:.1f} at best, with {len(TRAINING_SEEDS)} seeds",
        fix="train longer: raise `chunks` of its recipe",
    )


def _model(recipe: Recipe, seed: int) -> Any:
    try:
        import stable_baselines3
        from stable_baselines3.common.env_util import make_vec_env
    except ImportError:
        raise MissingDependencyError("stable-baselines3", extra="sb3", purpose="training the sample") from None
    algorithm: Callable[..., Any] = getattr(stable_baselines3, recipe.algorithm)
    env = make_vec_env(recipe.env, recipe.environments, seed=seed)
    settings = deepcopy(dict(recipe.settings))  # algorithms write into their policy_kwargs
    return algorithm("MlpPolicy", env, seed=seed, device="cpu", **settings)


def judged(recipe: Recipe, path: Path) -> tuple[Snapshot, float]:
    """The policy in a zip with its environment and returns among the metadata, and its mean return."""
    importer = resolve(recognise(path))
    snapshot = importer.read(path, importer.Options(normalizer="none")).snapshot
    policy = build(snapshot)
    assert isinstance(policy, Policy)  # noqa: S101
    returns = returns_of(policy, recipe.env)
    facts = {
        "mean": round(float(np.mean(returns)), 3),
        "std": round(float(np.std(returns)), 3),
        "episodes": EPISODES,
        "seeds": list(EVALUATION_SEEDS),
    }
    metadata = {**snapshot.metadata, "env": recipe.env, "returns": facts}
    return replace(snapshot, metadata=metadata), float(np.mean(returns))


def returns_of(policy: Policy, env_id: str) -> list[float]:
    """Returns of the evaluation episodes, acting without noise."""
    env = make_env(env_id)
    spaces = spaces_of(env)
    episodes = [rollout(env, spaces, policy.compute_actions, seed=seed, max_steps=None) for seed in EVALUATION_SEEDS]
    env.close()
    return [episode.episode_return for episode in episodes]


def main(out_dir: Path) -> Path:
    """Train all policies, leave their zips in `out_dir`, and write `out_dir`/checkpoint.

    Returns:
        Path of the checkpoint.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    policies = {
        policy_id: train(recipe, out_dir / f"{recipe.algorithm}_{recipe.env}.zip".lower())
        for policy_id, recipe in RECIPES.items()
    }
    tree = algorithm_of(container_of(policies))
    provenance = {"task": "sample", "versions": versions()}
    path = out_dir / "checkpoint"
    write_checkpoint(tree, path, if_exists="replace", provenance=provenance)
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
