"""Policies that explore in environments that are stepped together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlpipe.algorithms.actor import Actor
from rlpipe.algorithms.collected import Collected
from rlpipe.algorithms.env_runner import EnvSpaces
from rlpipe.algorithms.episodes import Episodes, Outcome
from rlpipe.algorithms.exploration import Choices
from rlpipe.algorithms.running_statistics import seen_by_normalisation
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.policies.interface import ACTION
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.spaces import flat_batch, nested_batch
from rlpipe.snapshot.state import Array


class Stepping:
    """Running episodes, and who acts in them.

    Args:
        env_id: A gymnasium id.
        count: How many environments.
        policies: The policies.
        acting: Ids of those that act.

    Raises:
        ConfigError: There is no such environment, or it lacks a package.
        EnvironmentMismatchError: A policy cannot act in it.
    """

    def __init__(self, env_id: str, count: int, policies: MultiRLModule, acting: list[str]) -> None:
        self._policies, self._count = policies, count
        self._actors: dict[str, Actor] = {}
        self._episodes = Episodes(env_id, count, {name: spaces_of_policy(policies[name]) for name in acting})

    @property
    def rng(self) -> np.random.Generator:
        """Where chance in acting comes from."""
        return self._episodes.rng

    def begin(self, seeds: tuple[int, ...]) -> None:
        """See `Episodes.begin`."""
        self._episodes.begin(seeds)

    def step(self, collected: Mapping[str, Collected], rows: Mapping[str, list[int]]) -> Outcome:
        """One step of all environments.

        Args:
            collected: Policy id -> where its step is kept.
            rows: Policy id -> the environments in which it acts; all of them together.
        """
        episodes = self._episodes
        given = {name: self._actor(name).given(episodes, mine) for name, mine in rows.items()}
        chosen = {name: self._choose(name, mine, given[name], collected[name]) for name, mine in rows.items()}
        outcome = episodes.step(self._together({name: chosen[name].actions for name in rows}, rows))
        for name, mine in rows.items():
            after = self._actor(name).given_next(episodes, mine, chosen[name])
            collected[name].add(chosen[name], given[name], after, outcome, mine)
        return outcome

    def _together(self, actions: Mapping[str, Any], rows: Mapping[str, list[int]]) -> Any:
        """One batch of the actions of all policies, each row where its environment is."""
        space = self._policies[next(iter(rows))].spec.action_space
        flat = {name: flat_batch(space, actions[name], ACTION) for name in rows}
        joined: dict[str, Array] = {}
        for leaf, first in flat[next(iter(rows))].items():
            joined[leaf] = np.zeros((self._count, *first.shape[1:]), first.dtype)
            for name, mine in rows.items():
                joined[leaf][mine] = flat[name][leaf]
        return nested_batch(space, joined, ACTION)

    def _choose(self, name: str, rows: list[int], given: dict[str, torch.Tensor], collected: Collected) -> Choices:
        collected.saw(seen_by_normalisation(self._policies[name], given), self._episodes.is_step[rows])
        return self._actor(name).choose(given, rows, self._episodes)

    def _actor(self, name: str) -> Actor:
        if name not in self._actors:
            self._actors[name] = Actor(self._policies[name], self._count)
        return self._actors[name]

    def forget(self, name: str) -> None:
        """Let go of what a policy remembers."""
        self._actors.pop(name, None)

    def close(self) -> None:
        """See `Episodes.close`."""
        self._episodes.close()


def spaces_of_policy(policy: Policy) -> EnvSpaces:
    """What a policy takes and gives."""
    return EnvSpaces(policy.spec.observation_space, policy.spec.action_space)
