"""Several runners of the same policies, as many as are asked for, kept in step."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from rlpipe.algorithms.collected import Samples
from rlpipe.algorithms.policy_mapping import PolicyMapping
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.running_statistics import moments_in, set_moments
from rlpipe.checkpoint.following import follow
from rlpipe.errors import ConfigError
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.state import State


class RunnerGroup:
    """Runners that differ in their index alone. The first one is what a checkpoint holds of them.

    Args:
        first: The first one.
        count: How many.

    Raises:
        ConfigError: Fewer than one.
    """

    def __init__(self, first: EnvRunner, count: int = 1) -> None:
        self.first = first
        self.remake(count)
        follow(first, self._follow_first)

    def __len__(self) -> int:
        return len(self.runners)

    def remake(self, count: int, *, env: str | None = None) -> None:
        """Have another number of runners, perhaps of another environment; all but the first one are made anew.

        Raises:
            ConfigError: Fewer than one.
        """
        if count < 1:
            raise ConfigError("num_env_runners", expected="at least 1", found=str(count))
        self.first.env = env or self.first.env
        self.runners = (self.first, *(_like(self.first, index) for index in range(1, count)))

    def _follow_first(self) -> None:
        """The first one was restored: the others are at the same place of their own episodes."""
        for runner in self.runners[1:]:
            runner.set_own_state(self.first.get_own_state())
            runner.set_weights(self.first.policies.get_state(inference_only=True))

    def sample(self, n: int) -> Samples:
        """`n` steps of all together, in the order of the runners; see `EnvRunner.sample`. Statistics are joined."""
        counts = self.first.observation_counts
        totals = {name: moments_in(self.first.policies[name], count) for name, count in counts.items()}
        found = [runner.sample(ceil(n / len(self))) for runner in self.runners]
        for runner in self.runners:
            for name, fresh in runner.take_fresh_moments().items():
                totals[name] = totals[name].joined(fresh)
        for runner in self.runners:
            for name, moments in totals.items():
                if moments.count:
                    runner.set_moments(name, moments)
        return _joined(found)

    def share_statistics(self, policies: Mapping[str, Policy]) -> None:
        """Let policies normalise by what the runners have seen."""
        for name, count in self.first.observation_counts.items():
            if count:
                set_moments(policies[name], moments_in(self.first.policies[name], count))

    def set_weights(self, weights: Mapping[str, State]) -> None:
        """See `EnvRunner.set_weights`."""
        for runner in self.runners:
            runner.set_weights(weights)

    def set_mapping(self, mapping: PolicyMapping | None) -> None:
        """Let another mapping say which policy acts for which agent."""
        for runner in self.runners:
            runner.mapping = mapping

    def add_policy(self, name: str, policy: Policy) -> None:
        """See `EnvRunner.add_policy`."""
        for runner in self.runners:
            runner.add_policy(name, policy)

    def remove_policy(self, name: str) -> None:
        """See `EnvRunner.remove_policy`."""
        for runner in self.runners:
            runner.remove_policy(name)

    def close(self) -> None:
        """See `EnvRunner.close`."""
        for runner in self.runners:
            runner.close()


def _like(first: EnvRunner, index: int) -> EnvRunner:
    made = EnvRunner(
        dict(first.policies.items()),
        env=first.env,
        num_envs=first.num_envs,
        policy_mapping_fn=first.mapping,
        seed=first.seed,
        index=first.index + index,
        trust=first.trust,
    )
    made.set_own_state(first.get_own_state())
    return made


def _joined(found: list[Samples]) -> Samples:
    names = sorted({name for each in found for name in each})
    return {name: _stacked([each[name] for each in found if name in each]) for name in names}


def _stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], Mapping):
        return {name: _stacked([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(_stacked(list(each)) for each in zip(*parts, strict=True))
    return np.concatenate(parts)
