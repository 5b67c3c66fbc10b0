"""Artifacts in their environment: the policy's own episodes again, with the artifact acting from the same seeds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.algorithms.env_runner import Act, EnvSpaces, Episode, make_env, require_fit, rollout, spaces_of
from rlpipe.errors import RlpipeError
from rlpipe.exporters.artifact import artifact_of
from rlpipe.exporters.levels import LOOP, Level
from rlpipe.pipeline.lift import container_of
from rlpipe.pipeline.live import build_policies
from rlpipe.pipeline.live import spaces_of as policy_spaces
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import flat_batch

EPISODES, STEPS = 10, 200
"""Episodes from the seeds 0, 1, ...; each is stopped after so many steps."""

RETURNS = 1e-3
"""What mean returns may differ by, relative to the larger of 1 and the policy's."""

OPEN = 1e-4
"""What an action at the policy's own observations may differ by, relative to the larger of 1 and itself."""

_CHOICES = 0.001
"""Share of those observations at which a choice may be another: where two are as good."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Episodes of one actor.

    Attributes:
        episodes: In order of their seeds.
        observations: Name -> (n, *shape), of all steps.
        actions: Name -> (n, *shape).
    """

    episodes: tuple[Episode, ...]
    observations: Mapping[str, Any]
    actions: Mapping[str, Any]

    @property
    def mean(self) -> float:
        """Mean of the returns."""
        return float(np.mean([episode.episode_return for episode in self.episodes]))


class ClosedLoop:
    """Compares artifacts of one policy with it in an environment.

    Args:
        policy: The policy's snapshot.
        policy_id: Its id.
        env_id: The environment.
        trust: Patterns of class paths that may be imported beside rlpipe's.
    """

    # Loading an artifact redirects the streams of the process, so that two must not do it at a time.
    _lock = threading.Lock()

    def __init__(self, policy: Snapshot, policy_id: str, env_id: str, trust: tuple[str, ...]) -> None:
        self._policy, self._policy_id, self._env_id, self._trust = policy, policy_id, env_id, trust

    def __call__(self, target_id: str, file: Path, description: Mapping[str, Any]) -> Level:
        """The level of proof for one artifact; what goes wrong is in it."""
        with self._lock:
            try:
                return self._level(target_id, file, description)
            except RlpipeError as error:
                return Level(name=LOOP, status="skipped", detail=f"{error.subject}: {error.found}")
            except Exception as error:  # noqa: BLE001 - environments fail with anything
                return Level(
                    name=LOOP, status="skipped", detail=f"{self._env_id} failed: {type(error).__name__}: {error}"
                )

    @property
    def observations(self) -> Mapping[str, Any] | None:
        """What the policy met, by input name; None before an artifact was compared."""
        own = self.__dict__.get("_own")
        return None if own is None else own.observations

    def _level(self, target_id: str, file: Path, description: Mapping[str, Any]) -> Level:
        if not self._is_repeatable:
            return Level(name=LOOP, status="skipped", detail=f"{self._env_id} does not repeat itself from a seed")
        artifact = artifact_of(target_id, file, description)
        opened = artifact.run(self._own.observations)
        wrong, largest = _open_loop(self._own.actions, opened)
        found = self._trajectories(artifact.compute_actions, EPISODES)
        gap = abs(found.mean - self._own.mean)
        same = sum(map(_same, self._own.episodes, found.episodes))
        facts = {
            "env": self._env_id,
            "episodes": EPISODES,
            "steps": STEPS,
            "policy_mean_return": self._own.mean,
            "mean_return": found.mean,
            "equal_episodes": same,
            "open_loop_difference": largest,
            "open_loop_wrong": wrong,
            "first_difference": _first(self._own, found),
        }
        detail = (
            f"{EPISODES} episodes of {self._env_id}: mean return {found.mean:.2f}, the policy's {self._own.mean:.2f}; "
            f"{same} episodes equal; at its observations actions differ by {largest:.1e}"
        )
        good = gap <= RETURNS * max(1.0, abs(self._own.mean)) and not wrong
        return Level(name=LOOP, status="ok" if good else "failed", detail=detail, facts=facts)

    @cached_property
    def _act(self) -> Act:
        return build_policies(container_of({self._policy_id: self._policy}), device="cpu", trust=self._trust)[
            self._policy_id
        ].compute_actions

    @cached_property
    def _own(self) -> Trajectories:
        return self._trajectories(self._act, EPISODES)

    @cached_property
    def _is_repeatable(self) -> bool:
        return _same(self._trajectories(self._act, 1).episodes[0], self._own.episodes[0])

    def _trajectories(self, act: Act, episodes: int) -> Trajectories:
        env = make_env(self._env_id)
        try:
            spaces, own = spaces_of(env), policy_spaces(self._policy)
            mine = EnvSpaces(own.observation, own.action)
            require_fit(mine, spaces, policy_id=self._policy_id, env_id=self._env_id)
            log = _Log(act, mine)
            both = EnvSpaces(own.observation, spaces.action)
            done = tuple(rollout(env, both, log, seed=seed, max_steps=STEPS) for seed in range(episodes))
        finally:
            env.close()
        return Trajectories(done, *log.joined())


class _Log:
    """An actor that remembers what it saw and did."""

    def __init__(self, act: Act, spaces: EnvSpaces) -> None:
        self._act, self._spaces = act, spaces
        self._seen: list[Mapping[str, Any]] = []
        self._done: list[Mapping[str, Any]] = []

    def __call__(self, observation: Any) -> Any:
        action = self._act(observation)
        self._seen.append(flat_batch(self._spaces.observation, observation, "obs"))
        self._done.append(flat_batch(self._spaces.action, action, "action"))
        return action

    def joined(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All of it by name."""
        seen, done = (
            {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            for parts in (self._seen, self._done)
        )
        return seen, done


def _open_loop(expected: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[int, float]:
    """Observations with another action beyond what is allowed, and the largest difference."""
    wrong, largest = 0, 0.0
    for name, array in expected.items():
        one, other = array.astype(np.float64), found[name].astype(np.float64)
        error = np.abs(one - other).reshape(len(one), -1)
        if array.dtype.kind == "f":
            wrong += int((error > OPEN * np.maximum(1, np.abs(one)).reshape(error.shape)).any(axis=1).sum())
        else:
            other_choices = int((error > 0).any(axis=1).sum())
            wrong += other_choices if other_choices > _CHOICES * len(one) else 0
        largest = max(largest, float(error.max(initial=0.0)))
    return wrong, largest


def _same(one: Episode, other: Episode) -> bool:
    return (one.length, one.episode_return) == (other.length, other.episode_return)


def _first(one: Trajectories, other: Trajectories) -> int | None:
    """The first step, counted over all episodes, at which the actions differ at all."""
    steps = min(len(next(iter(one.actions.values()))), len(next(iter(other.actions.values()))))
    differs = np.zeros(steps, bool)
    for name, array in one.actions.items():
        differs |= (array[:steps] != other.actions[name][:steps]).reshape(steps, -1).any(axis=1)
    found = np.flatnonzero(differs)
    return int(found[0]) if len(found) else None
