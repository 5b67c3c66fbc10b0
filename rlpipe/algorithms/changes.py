"""What a restored algorithm shall have that differs from what was saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.algorithms.runner_group import RunnerGroup
from rlpipe.errors import ConfigError, SelectionError, SpecError, listed

if TYPE_CHECKING:
    from rlpipe.algorithms.algorithm import Algorithm
    from rlpipe.algorithms.learner import Learner
    from rlpipe.policies.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes to a saved algorithm; None leaves what was saved. See `Algorithm.from_checkpoint`."""

    policy_mapping_fn: Given = None
    policies_to_train: Collection[str] | None = None
    num_env_runners: int | None = None
    env: str | None = None
    hyperparameters: Mapping[str, Any] | None = None

    def checked(self, ids: Collection[str], trust: tuple[str, ...]) -> Changes:
        """The same with the mapping resolved, before anything is built.

        Raises:
            ConfigError: A mapping or a number that cannot be.
            SelectionError: The mapping names a policy that is not among the ids.
            UntrustedClassError: The mapping is the path of a function that nobody vouched for.
        """
        if self.num_env_runners is not None and self.num_env_runners < 1:
            raise ConfigError("num_env_runners", expected="at least 1", found=str(self.num_env_runners))
        if self.policy_mapping_fn is None:
            return self
        return replace(self, policy_mapping_fn=PolicyMapping.of(self.policy_mapping_fn, ids, trust=trust))

    def apply(self, algorithm: Algorithm) -> None:
        """Make the changes."""
        runners, learner = algorithm.runners, algorithm.learner
        for group in algorithm.groups():
            group.first.env = self.env or group.first.env
        if runners is not None and (self.num_env_runners or self.env):
            algorithm.runners = RunnerGroup(runners.first, self.num_env_runners or len(runners))
        if self.policy_mapping_fn is not None:
            algorithm.set_policy_mapping(self.policy_mapping_fn)
        if learner is not None and self.policies_to_train is not None:
            learner.policies_to_train = tuple(self.policies_to_train)
        if self.hyperparameters:
            required(learner, "learner").set_hyperparameters(self.hyperparameters)


def required(part: Any, name: str) -> Any:
    """The part of an algorithm.

    Raises:
        SpecError: It has none.
    """
    if part is not None:
        return part
    raise SpecError(f"this algorithm has no {name}", expected=f"one that was made with {name}=", found="none")


def require_same_policies(
    policies: Mapping[str, Policy], learner: Learner | None, groups: Collection[RunnerGroup]
) -> None:
    """Check that a learner trains these very policies, and that runners have copies of them all.

    Raises:
        SpecError: The learner trains others.
        SelectionError: A policy that a runner lacks, or has alone.
    """
    trained = {} if learner is None else learner.policies
    if strange := [name for name, policy in trained.items() if policy is not policies.get(name)]:
        raise SpecError(
            f"the learner trains other policies under {listed(strange)}",
            expected="the very policies of the algorithm",
            found="others of these ids, or none",
            fix="make the learner of the same policies",
        )
    for group in groups:
        for name in group.first.policies.keys() ^ policies.keys():
            raise SelectionError(
                f"the runner and the algorithm do not both have the policy {name!r}", pattern=name, known=policies
            )
