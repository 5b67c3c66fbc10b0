"""The component that trains policies, each with an optimizer of its own."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from rlpipe.algorithms.policy_learner import PolicyLearner
from rlpipe.algorithms.random_states import check_random_states, random_states, set_random_states
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport
from rlpipe.errors import IdError, SelectionError, listed
from rlpipe.modules.torch.tying import tie
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import State, entries, equal
from rlpipe.snapshot.texts import require_texts

_RESERVED = frozenset({"random_states", "update_count", "policies_to_train"})


class Learner(Checkpointable):
    """Trains policies in place. Each is a component: its policy, its optimizer and its scheduler.

    The state holds the random number generators of the process too, so that a restored learner goes on bit for bit.

    Args:
        policies: Id -> what trains that policy.
        policies_to_train: Ids; None for all.

    Raises:
        IdError: An id that cannot name a directory beside the learner's own state.
        SelectionError: A policy to train that is not there.
    """

    def __init__(
        self, policies: Mapping[str, PolicyLearner], *, policies_to_train: Collection[str] | None = None
    ) -> None:
        self._parts: dict[str, PolicyLearner] = {}
        self._to_train: tuple[str, ...] = ()
        self.update_count = 0
        self._require_ids(policies)
        self._parts.update(policies)
        if policies_to_train is not None:
            policies_to_train = require_texts("policies_to_train", policies_to_train, of="policy ids")
        self.policies_to_train = tuple(policies) if policies_to_train is None else policies_to_train

    @classmethod
    def for_policies(
        cls,
        policies: Mapping[str, Policy],
        training: TrainingSpec | Mapping[str, TrainingSpec],
        *,
        policies_to_train: Collection[str] | None = None,
        trust: tuple[str, ...] = (),
    ) -> Self:
        """A learner of policies, all trained in one way or each in its own.

        Args:
            policies: Id -> full policy; also a container.
            training: How, for all or by id; policies that a mapping lacks are not trained.
            policies_to_train: See `Learner`.
            trust: See `PolicyLearner`.

        Raises:
            SelectionError: `training` names a policy that is not there.
        """
        each = dict.fromkeys(policies, training) if isinstance(training, TrainingSpec) else dict(training)
        for policy_id in each:
            _require_known(policy_id, policies)
        return cls(
            {name: PolicyLearner(policies[name], spec, trust=trust) for name, spec in each.items()},
            policies_to_train=policies_to_train,
        )

    @property
    def policies(self) -> dict[str, Policy]:
        """Id -> the full policy."""
        return {name: part.policy for name, part in self._parts.items()}

    @property
    def policies_to_train(self) -> tuple[str, ...]:
        """Ids of the policies that `update` trains, sorted."""
        return self._to_train

    @policies_to_train.setter
    def policies_to_train(self, ids: Collection[str]) -> None:
        for policy_id in ids:
            _require_known(policy_id, self._parts)
        self._to_train = tuple(sorted(set(ids)))

    def __getitem__(self, policy_id: str) -> PolicyLearner:
        """What trains the policy of an id.

        Raises:
            SelectionError: There is none.
        """
        _require_known(policy_id, self._parts)
        return self._parts[policy_id]

    def __contains__(self, policy_id: object) -> bool:
        return policy_id in self._parts

    def add_policy(
        self, policy_id: str, policy: Policy, training: TrainingSpec, *, trust: tuple[str, ...] = ()
    ) -> None:
        """Train another policy too, from a fresh optimizer.

        Raises:
            IdError: The id is taken, or cannot name a directory.
        """
        if policy_id in self._parts:
            raise IdError(f"the learner has a policy {policy_id!r}", expected="a new id", found=listed(self._parts))
        self._require_ids([policy_id])
        self._parts[policy_id] = PolicyLearner(policy, training, trust=trust)
        self.policies_to_train = (*self._to_train, policy_id)

    def remove_policy(self, policy_id: str) -> PolicyLearner:
        """Let go of a policy; gives what trained it."""
        part = self[policy_id]
        del self._parts[policy_id]
        self._to_train = tuple(name for name in self._to_train if name != policy_id)
        return part

    def update(self, batches: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """One step for each policy that is trained and has a batch.

        Args:
            batches: Policy id -> what its loss reads. Batches of policies that are not trained are left.

        Returns:
            Policy id -> its loss before the step.

        Raises:
            SelectionError: A batch for a policy that is not there.
        """
        for policy_id in batches:
            _require_known(policy_id, self._parts)
        losses = {name: self._parts[name].update(batches[name]) for name in self._to_train if name in batches}
        self.update_count += 1
        return losses

    def set_hyperparameters(
        self, values: Mapping[str, Any], *, policy_ids: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Put settings such as `lr` into the optimizers of policies; says what changed.

        Args:
            values: Name -> value, or glob over parameter keys -> settings of the groups of these parameters.
            policy_ids: Of which policies; None for all that are trained.

        Raises:
            SelectionError: A policy that is not there, or a glob that matches no parameter; nothing was changed.
            SpecError: An optimizer has no such setting, or refuses the value; nothing was changed.
        """
        ids = self._to_train if policy_ids is None else policy_ids
        self.check_hyperparameters(values, policy_ids=ids)
        changed = {name: self._parts[name].set_hyperparameters(values) for name in ids}
        return tuple(f"{name}: {text}" for name, texts in changed.items() for text in texts)

    def check_hyperparameters(self, values: Mapping[str, Any], *, policy_ids: Collection[str] | None = None) -> None:
        """Refuse what `set_hyperparameters` would; nothing is changed."""
        for name in self._to_train if policy_ids is None else policy_ids:
            self[name].check_hyperparameters(values)

    def base_settings(self) -> dict[str, dict[str, Any]]:
        """Settings of each policy's optimizer, of those that a schedule moves only the rate that it starts from."""
        return {name: part.hyperparameters.apart_from_schedule() for name, part in self._parts.items()}

    def with_replaced(self, report: RestoreReport, before: Mapping[str, Mapping[str, Any]]) -> RestoreReport:
        """A report that also says which settings of before a restore has replaced by the saved ones."""
        found = (
            f"{policy_id}: {name}: {before[policy_id][name]} -> {value}, as saved"
            for policy_id, values in self.base_settings().items()
            for name, value in values.items()
            if name in before.get(policy_id, {}) and not equal(before[policy_id][name], value)
        )
        return replace(report, notes=(*report.notes, *found))

    def restore_from_path(
        self,
        path: str | os.PathLike[str],
        *,
        component: str | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
    ) -> RestoreReport:
        """Take over the state of a checkpoint, perhaps with other settings of the optimizers.

        Args:
            path: See `Checkpointable.restore_from_path`.
            component: See `Checkpointable.restore_from_path`.
            hyperparameters: Settings that take the place of the saved ones, in what is restored; the report says what
                they changed.

        Raises:
            SpecError: Also where an optimizer could not take such settings; nothing was changed.
        """
        ids = [component.partition("/")[0]] if component else None
        if hyperparameters:
            self.check_hyperparameters(hyperparameters, policy_ids=ids)
        before = self.base_settings()
        report = super().restore_from_path(path, component=component)
        if not hyperparameters:
            return self.with_replaced(report, before)
        return replace(report, notes=self.set_hyperparameters(hyperparameters, policy_ids=ids))

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """What trains each policy."""
        return list(self._parts.items())

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        return Spec(class_path_of(type(self)))

    def get_own_state(self) -> State:
        """Random number generators, the count of updates, and who is trained."""
        return {
            "random_states": random_states(),
            "update_count": self.update_count,
            "policies_to_train": (list(self._to_train),),
        }

    def get_own_roles(self) -> Mapping[str, Role]:
        """All of it is for training."""
        return dict.fromkeys(entries(self.get_own_state()), "training")

    def check_own_state(self, state: State) -> None:
        """See `Restorable`.

        Raises:
            SelectionError: A policy to train that is not there.
            StateMismatchError: A random number generator refuses its state.
        """
        check_random_states(state["random_states"])
        for policy_id in state["policies_to_train"][0]:
            _require_known(policy_id, self._parts)

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        self.update_count = state["update_count"]
        self.policies_to_train = state["policies_to_train"][0]
        set_random_states(state["random_states"])

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Let policies share parameters again, and their optimizers train what is shared."""
        tie(self, ties)
        for name in {path.partition("/")[0] for members in ties for path, _ in members}:
            self._parts[name].adopt(self._parts[name].policy)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del spec, device, trust
        return cls(children)

    def _require_ids(self, ids: Collection[str]) -> None:
        validate_ids([*self._parts, *ids])
        if taken := _RESERVED & set(ids):
            raise IdError(
                f"{listed(taken)} is no id for a policy of a learner",
                expected="any other id",
                found="a name of the learner's own state",
                fix="rename the policy",
            )


def _require_known(policy_id: str, known: Collection[str]) -> None:
    if policy_id not in known:
        raise SelectionError(f"the learner has no policy {policy_id!r}", pattern=policy_id, known=known)
