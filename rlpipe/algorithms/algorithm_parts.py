"""What an algorithm is made of, kept in step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from rlpipe.algorithms.algorithm_reader import COUNTERS, EVALUATION, LEARNER, MAPPING, RUNNER, RUNNERS
from rlpipe.algorithms.collected import Samples, counted
from rlpipe.algorithms.critic_memory import CriticMemory
from rlpipe.algorithms.env_runner import Episode
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.algorithms.runner_group import RunnerGroup
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.algorithms.weights import Transfer, reduced, together, weights_of
from rlpipe.checkpoint.following import everything_in, follow
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport
from rlpipe.errors import SelectionError, SpecError, listed
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.spec import Json
from rlpipe.snapshot.state import State


class Parts:
    """Policies, the learner that trains them, and the runners that hold copies of what acts in them.

    Every restore into any of these components brings the copies in step.

    Args:
        policies: The policies.
        learner: What trains these very policies, or some of them.
        runners: What lets them act.
        evaluation: What lets them act in evaluation.

    Raises:
        SpecError: The learner trains other policies.
        SelectionError: A policy that a runner lacks, or has alone.
    """

    def __init__(
        self,
        policies: MultiRLModule,
        learner: Learner | None,
        runners: RunnerGroup | None,
        evaluation: RunnerGroup | None,
    ) -> None:
        self.policies, self.learner, self.runners, self.evaluation = policies, learner, runners, evaluation
        self.mapping: PolicyMapping | None = None
        self.counters = dict.fromkeys(COUNTERS, 0)
        self._critics = CriticMemory()
        self._require_same_policies()
        self._follow()

    @property
    def groups(self) -> list[RunnerGroup]:
        """Those who hold copies of what acts."""
        return [group for group in (self.runners, self.evaluation) if group is not None]

    def components(self) -> list[tuple[str, Restorable]]:
        """Name and object of each; of runners the first.

        Raises:
            SpecError: The learner trains other policies than there are; somebody changed the container alone.
            SelectionError: A policy that a runner lacks, or has alone.
        """
        self._require_same_policies()
        groups = ((RUNNER, self.runners), (EVALUATION, self.evaluation))
        found: list[tuple[str, Any]] = [(CONTAINER, self.policies), (LEARNER, self.learner)]
        found += [(name, None if group is None else group.first) for name, group in groups]
        return [(name, part) for name, part in found if part is not None]

    def sync(self, policy_ids: Collection[str] | None = None) -> dict[str, Transfer]:
        """Send all copies what acts in the policies, or in some; says how much that was."""
        ids = self.policies if policy_ids is None else policy_ids
        found = {name: reduced(self.policies[name]) for name in ids} if self.groups else {}
        for group in self.groups:
            group.set_weights({name: weights for name, (weights, _) in found.items()})
        return {name: transfer for name, (_, transfer) in found.items()}

    def set_mapping(self, mapping: PolicyMapping | None) -> None:
        """Let another mapping say which policy acts for which agent."""
        self.mapping = mapping
        for group in self.groups:
            group.set_mapping(mapping)

    def options(self) -> dict[str, Json]:
        """What an algorithm's spec says beside its class."""
        options: dict[str, Json] = {} if self.mapping is None else {MAPPING: self.mapping.to_json()}
        return options if self.runners is None else {**options, RUNNERS: len(self.runners)}

    def own_state(self) -> State:
        """The counters, where there is something that counts."""
        return {"counters": dict(self.counters)} if self.learner is not None or self.runners is not None else {}

    def sample(self, n: int) -> Samples:
        """See `Algorithm.sample`.

        Raises:
            SpecError: There is no runner.
        """
        runners = required(self.runners, "env_runner")
        found = self._critics.completed(runners.sample(n), self.policies)
        for name, count in counted(found).items():
            self.counters[name] += count
        runners.share_statistics(self.policies)
        if self.evaluation is not None:
            self.evaluation.set_weights(weights_of(self.policies, None, inference_only=True))
        return found

    def update(self, batches: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """See `Algorithm.update`.

        Raises:
            SpecError: There is no learner.
        """
        learner = required(self.learner, "learner")
        try:
            losses: dict[str, float] = learner.update(batches)
        finally:
            # Some may have made their step before another one failed.
            self.sync(together(self.policies, batches))
        self.counters["updates"] += 1
        return losses

    def evaluate(self, n: int, *, policy_id: str | None, max_steps: int | None) -> list[Episode]:
        """See `Algorithm.evaluate`.

        Raises:
            SpecError: There is no runner.
        """
        group = required(self.evaluation or self.runners, "env_runner or evaluation_runner")
        episodes: list[Episode] = group.first.evaluate(n, policy_id=policy_id, max_steps=max_steps)
        return episodes

    def add(
        self, policy_id: str, policy: Policy, training: TrainingSpec | None, given: Given, *, trust: tuple[str, ...]
    ) -> None:
        """Add a policy to everything, or, if something refuses it, to nothing.

        Args:
            policy_id: Its id.
            policy: The policy.
            training: How it is trained; None: it is not.
            given: The new mapping; None keeps the old one.
            trust: Patterns of class and function paths that may be imported beside rlpipe's.

        Raises:
            IdError: The id is taken, or cannot name a directory.
            SelectionError: The mapping names a policy that is not there.
            SpecError: It shall be trained, and there is no learner.
        """
        mapping = None if given is None else PolicyMapping.of(given, [*self.policies, policy_id], trust=trust)
        self.policies.add_rl_module(policy_id, policy)
        try:
            if training is not None:
                required(self.learner, "learner").add_policy(policy_id, policy, training, trust=trust)
        except Exception:
            self.policies.remove_rl_module(policy_id)
            raise
        for group in self.groups:
            group.add_policy(policy_id, policy)
        if mapping is not None:
            self.set_mapping(mapping)
        self._follow()

    def remove(self, policy_id: str, given: Given) -> Policy:
        """Take a policy out of everything; gives it.

        Args:
            policy_id: Its id.
            given: The new mapping; None keeps the old one.

        Raises:
            SelectionError: There is none, or a mapping still leads to it.
        """
        policy: Policy = self.policies[policy_id]
        left = [name for name in self.policies if name != policy_id]
        mapping = self.mapping if given is None else PolicyMapping.of(given, left)
        for kept in [mapping] if mapping is not None else [group.first.mapping for group in self.groups]:
            if kept is not None:
                kept.require_known(left)
        self.policies.remove_rl_module(policy_id)
        if self.learner is not None and policy_id in self.learner:
            self.learner.remove_policy(policy_id)
        for group in self.groups:
            group.remove_policy(policy_id)
        if mapping is not None:
            self.set_mapping(mapping)
        return policy

    def settings_for(
        self, component: str | None, values: Mapping[str, Any] | None
    ) -> Callable[[RestoreReport], RestoreReport]:
        """Check other settings of the optimizers for a restore; gives what puts them in and tells it in the report.

        Args:
            component: Path of what is restored; None for everything.
            values: Name -> value, or nothing.

        Raises:
            SpecError: An optimizer cannot take such settings, or none is restored; nothing is changed.
        """
        if not values:
            trained = self.learner
            before = {} if trained is None else trained.base_settings()
            return lambda report: report if trained is None else trained.with_replaced(report, before)
        head, _, rest = (component or LEARNER).partition("/")
        if head != LEARNER:
            raise SpecError(
                f"{component} has no optimizer to set",
                expected=f"a restore of everything, or of {LEARNER} or something in it",
                found=f"hyperparameters for {component}",
                fix="leave them away",
            )
        learner = required(self.learner, "learner")
        ids = [rest.partition("/")[0]] if rest else None
        learner.check_hyperparameters(values, policy_ids=ids)
        return lambda report: replace(report, notes=learner.set_hyperparameters(values, policy_ids=ids))

    def _follow(self) -> None:
        for _, part in self.components():
            for component in everything_in(part):
                follow(component, self._come_in_step)
                if isinstance(component, Policy):
                    follow(component.module, self._come_in_step)

    def _come_in_step(self) -> None:
        self.sync()

    def _require_same_policies(self) -> None:
        policies: Mapping[str, Policy] = dict(self.policies.items())
        trained = {} if self.learner is None else self.learner.policies
        if strange := [name for name, policy in trained.items() if policy is not policies.get(name)]:
            raise SpecError(
                f"the learner trains other policies under {listed(strange)}",
                expected="the very policies of the algorithm",
                found="others of these ids, or none",
                fix="make the learner of the same policies; the algorithm itself adds and removes them",
            )
        for group in self.groups:
            for name in group.first.policies.keys() ^ policies.keys():
                raise SelectionError(
                    f"the runner and the algorithm do not both have the policy {name!r}", pattern=name, known=policies
                )


def required(part: Any, name: str) -> Any:
    """The part of an algorithm.

    Raises:
        SpecError: It has none.
    """
    if part is not None:
        return part
    raise SpecError(f"this algorithm has no {name}", expected=f"one that was made with {name}=", found="none")
