"""Environments that are stepped together, from seeds that are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.algorithms.env_runner import EnvSpaces, make_vector_env, require_fit, spaces_of
from rlpipe.algorithms.masks import allowed_now, info_of, require_width
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step of all environments; arrays (num_envs,).

    Attributes:
        rewards: float64.
        terminated: The environment ended its episode.
        truncated: The environment cut its episode off.
        is_step: False where an environment only began its next episode.
    """

    rewards: Array
    terminated: Array
    truncated: Array
    is_step: Array


class Episodes:
    """Running episodes of some environments.

    Args:
        env_id: A gymnasium id.
        count: How many environments.
        policies: Policy id -> its spaces, of those that shall act in them.

    Raises:
        ConfigError: There is no such environment, or it lacks a package.
        EnvironmentMismatchError: A policy cannot act in it.
    """

    def __init__(self, env_id: str, count: int, policies: Mapping[str, EnvSpaces]) -> None:
        self._env_id, self._count = env_id, count
        self._vector: Any = make_vector_env(env_id, count)
        try:
            found = spaces_of(self._vector.envs[0])  # type: ignore[attr-defined]
            for name, own in policies.items():
                require_fit(own, found, policy_id=name, env_id=env_id)
        except Exception:
            self._vector.close()
            raise
        self.rng, self.step_count = np.random.default_rng(0), 0
        self._seen: Any = None
        self._infos: Mapping[str, Any] = {}
        self._ended = np.zeros(count, bool)
        self._begins = np.ones(count, bool)

    def begin(self, seeds: tuple[int, ...]) -> None:
        """Begin all episodes, and the generator `rng`, from seeds that follow from these numbers."""
        *env_seeds, own = map(int, np.random.SeedSequence(seeds).generate_state(self._count + 1))
        self.rng = np.random.default_rng(own)
        self._seen, self._infos = self._vector.reset(seed=env_seeds)
        self._ended, self._begins = np.zeros(self._count, bool), np.ones(self._count, bool)

    def seen(self, rows: list[int]) -> Any:
        """The newest observations of some environments, a batch as their space nests it."""
        return _rows(self._seen, rows)

    @property
    def is_step(self) -> Array:
        """Where the next step goes on with an episode, and does not only begin the next one."""
        return ~self._ended

    @property
    def begins(self) -> Array:
        """Where the next step is the first one of an episode."""
        return self._begins

    def allowed(self, rows: list[int], width: int) -> Array:
        """What some environments allow now, (B, width) bool; all of it where they do not say, see `allowed_now`.

        Raises:
            EnvironmentMismatchError: One says it of another number of choices.
        """
        found = np.ones((len(rows), width), np.bool_)
        for index, row in enumerate(rows):
            allowed = allowed_now(self._vector.envs[row], info_of(self._infos, row))
            if allowed is not None:
                found[index] = require_width(allowed, width, self._env_id)
        return found

    def step(self, actions: Any) -> Outcome:
        """Step all environments."""
        is_step, self.step_count = self.is_step, self.step_count + 1
        self._seen, rewards, terminated, truncated, self._infos = self._vector.step(actions)
        self._ended, self._begins = terminated | truncated, ~is_step
        return Outcome(np.asarray(rewards), terminated, truncated, is_step)

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()


def _rows(batch: Any, rows: list[int]) -> Any:
    if isinstance(batch, Mapping):
        return {name: _rows(part, rows) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_rows(part, rows) for part in batch)
    return np.asarray(batch)[rows]
