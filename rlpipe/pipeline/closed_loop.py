"""Artifacts in their environment: the policy's own episodes again, with the artifact acting from the same seeds."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.algorithms.env_runner import EnvSpaces, Episode, make_env, require_fit, rollout, spaces_of
from rlpipe.errors import RlpipeError
from rlpipe.exporters.artifact import artifact_of
from rlpipe.exporters.levels import LOOP, Level
from rlpipe.exporters.signature import ACTION, OBSERVATION, Signature
from rlpipe.pipeline.acting import Compute, EpisodeActor
from rlpipe.pipeline.lift import container_of
from rlpipe.pipeline.live import build_policies
from rlpipe.pipeline.live import spaces_of as policy_spaces
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy

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
        given: Input name -> (n, *shape), of all steps.
        gave: Output name -> (n, *shape).
    """

    episodes: tuple[Episode, ...]
    given: Mapping[str, Any]
    gave: Mapping[str, Any]

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
        self._known: dict[GraphOptions, Trajectories] = {}
        self._repeats: dict[GraphOptions, bool] = {}

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
        if not self._known:
            return None
        own = next(iter(self._known.values())).given
        return {name: array for name, array in own.items() if name.partition(".")[0] == OBSERVATION}

    def _level(self, target_id: str, file: Path, description: Mapping[str, Any]) -> Level:
        artifact = artifact_of(target_id, file, description)
        options = _options(description)
        own = self._own(options, artifact.signature)
        if not self._is_repeatable(options, artifact.signature, own):
            return Level(name=LOOP, status="skipped", detail=f"{self._env_id} does not repeat itself from a seed")
        wrong, largest = _open_loop(own.gave, artifact.run(own.given))
        found = self._trajectories(artifact.run, artifact.signature, EPISODES)
        gap = abs(found.mean - own.mean)
        same = sum(map(_same, own.episodes, found.episodes))
        facts = {
            "env": self._env_id,
            "episodes": EPISODES,
            "steps": STEPS,
            "policy_mean_return": own.mean,
            "mean_return": found.mean,
            "equal_episodes": same,
            "open_loop_difference": largest,
            "open_loop_wrong": wrong,
            "first_difference": _first(own, found),
        }
        carried = ", each with its own memory" if artifact.signature.memory else ""
        detail = (
            f"{EPISODES} episodes of {self._env_id}{carried}: mean return {found.mean:.2f}, the policy's "
            f"{own.mean:.2f}; {same} episodes equal; at its observations actions differ by {largest:.1e}"
        )
        good = gap <= RETURNS * max(1.0, abs(own.mean)) and not wrong
        return Level(name=LOOP, status="ok" if good else "failed", detail=detail, facts=facts)

    @cached_property
    def _live(self) -> Policy:
        alone = container_of({self._policy_id: self._policy})
        return build_policies(alone, device="cpu", trust=self._trust)[self._policy_id]

    def _own(self, options: GraphOptions, signature: Signature) -> Trajectories:
        if options not in self._known:
            self._known[options] = self._trajectories(self._computing(options), signature, EPISODES)
        return self._known[options]

    def _computing(self, options: GraphOptions) -> Compute:
        return lambda named: self._live.answers(named, options)

    def _is_repeatable(self, options: GraphOptions, signature: Signature, own: Trajectories) -> bool:
        if options not in self._repeats:
            again = self._trajectories(self._computing(options), signature, 1)
            self._repeats[options] = _same(again.episodes[0], own.episodes[0])
        return self._repeats[options]

    def _trajectories(self, compute: Compute, signature: Signature, episodes: int) -> Trajectories:
        env = make_env(self._env_id)
        try:
            spaces, own = spaces_of(env), policy_spaces(self._policy)
            mine = EnvSpaces(own.observation, own.action)
            require_fit(mine, spaces, policy_id=self._policy_id, env_id=self._env_id)
            both = EnvSpaces(own.observation, spaces.action)
            actors = [EpisodeActor(compute, signature, mine, seed=seed) for seed in range(episodes)]
            done = tuple(rollout(env, both, one, seed=seed, max_steps=STEPS) for seed, one in enumerate(actors))
        finally:
            env.close()
        given = _joined([step for actor in actors for step in actor.given])
        return Trajectories(done, given, _joined([step for actor in actors for step in actor.gave]))


def _options(description: Mapping[str, Any]) -> GraphOptions:
    """What of the policy the artifact is."""
    usual = GraphOptions().to_json()
    return GraphOptions.from_json({name: description.get(name, value) for name, value in usual.items()})


def _joined(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name -> (n, *shape) of all steps."""
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}


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
    actions = [name for name in one.gave if name.partition(".")[0] == ACTION]
    steps = min(len(one.gave[actions[0]]), len(other.gave[actions[0]]))
    differs = np.zeros(steps, bool)
    for name in actions:
        differs |= (one.gave[name][:steps] != other.gave[name][:steps]).reshape(steps, -1).any(axis=1)
    found = np.flatnonzero(differs)
    return int(found[0]) if len(found) else None
