"""The root of a checkpoint: policies, what trains them, and what lets them act."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from rlpipe.algorithms.algorithm_building import (
    RUNNERS,
    Wanted,
    algorithm_at,
    algorithm_of_children,
    algorithm_of_state,
)
from rlpipe.algorithms.algorithm_parts import Parts, required
from rlpipe.algorithms.algorithm_reader import (
    MAPPING,
)
from rlpipe.algorithms.changes import Changes
from rlpipe.algorithms.collected import Samples
from rlpipe.algorithms.env_runner import Episode
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.part_restore import restore_part
from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.runner_group import RunnerGroup
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.algorithms.weights import Transfer, completed, weights_of
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.tying import tie
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.reshape import OnShape
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import State


class Algorithm(Checkpointable):
    """Holds policies under their ids, and perhaps a learner and runners for them. The names are RLlib's.

    The learner trains these very policies. Runners have copies of what acts in them, which are brought in step by
    `update`, `sync`, and every restore into the algorithm or into anything in it.

    Args:
        policies: A container of policies, or id -> policy.
        learner: What trains them, or some of them; made of these policies.
        env_runner: What lets them act; made of policies of these ids.
        num_env_runners: How many of it.
        evaluation_runner: What lets them act for `evaluate`; None for the first runner.
        policy_mapping_fn: Agent or glob -> policy id, or a function; None leaves it to the runner.

    Raises:
        IdError: An id that cannot name a directory.
        SpecError: The learner trains other policies.
        SelectionError: The mapping names a policy that is not there.
    """

    def __init__(
        self,
        policies: MultiRLModule | Mapping[str, Policy],
        *,
        learner: Learner | None = None,
        env_runner: EnvRunner | None = None,
        num_env_runners: int = 1,
        evaluation_runner: EnvRunner | None = None,
        policy_mapping_fn: Given = None,
    ) -> None:
        self.parts = Parts(
            policies if isinstance(policies, MultiRLModule) else MultiRLModule(policies),
            learner,
            None if env_runner is None else RunnerGroup(env_runner, num_env_runners),
            None if evaluation_runner is None else RunnerGroup(evaluation_runner),
        )
        if policy_mapping_fn is not None:
            self.set_policy_mapping(policy_mapping_fn)

    @property
    def policies(self) -> MultiRLModule:
        """The container of policies."""
        return self.parts.policies

    @property
    def counters(self) -> dict[str, int]:
        """Steps, episodes and updates so far."""
        return self.parts.counters

    @property
    def mapping(self) -> PolicyMapping | None:
        """Which policy acts for which agent; None where that is left to the runner."""
        return self.parts.mapping

    @property
    def learner(self) -> Learner | None:
        """What trains them."""
        return self.parts.learner

    @property
    def runners(self) -> RunnerGroup | None:
        """What lets them act."""
        return self.parts.runners

    def get_policy(self, policy_id: str) -> Policy:
        """The policy of an id.

        Raises:
            SelectionError: There is none; RLlib gives None.
        """
        policy: Policy = self.policies[policy_id]
        return policy

    @property
    def policies_to_train(self) -> tuple[str, ...]:
        """Ids of the policies that `update` trains."""
        return () if self.learner is None else self.learner.policies_to_train

    def set_policy_mapping(self, policy_mapping_fn: Given, *, trust: tuple[str, ...] = ()) -> None:
        """Say which policy acts for which agent.

        Raises:
            SelectionError: It names a policy that is not there.
        """
        self.parts.set_mapping(PolicyMapping.of(policy_mapping_fn, self.policies.keys(), trust=trust))

    def sample(self, n: int) -> Samples:
        """Let the policies explore for `n` steps; see `EnvRunner.sample`. Statistics reach all who use them.

        Raises:
            SpecError: There is no runner.
        """
        return self.parts.sample(n)

    def update(self, batches: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """A step of training for each policy that has a batch; see `Learner.update`. The runners get the new weights.

        Raises:
            SpecError: There is no learner.
        """
        return self.parts.update(batches)

    def evaluate(self, n: int, *, policy_id: str | None = None, max_steps: int | None = None) -> list[Episode]:
        """`n` episodes without chance; see `EnvRunner.evaluate`.

        Raises:
            SpecError: There is no runner.
        """
        group = required(self.parts.evaluation or self.runners, "env_runner or evaluation_runner")
        episodes: list[Episode] = group.first.evaluate(n, policy_id=policy_id, max_steps=max_steps)
        return episodes

    def sync(self, policy_ids: Collection[str] | None = None) -> dict[str, Transfer]:
        """Send the runners what acts in the policies, or in some; says how much that was."""
        return self.parts.sync(policy_ids)

    def get_weights(
        self, policy_ids: Collection[str] | None = None, *, inference_only: bool = False
    ) -> dict[str, State]:
        """Policy id -> a copy of its weights.

        Raises:
            SelectionError: A policy that is not there.
        """
        return weights_of(self.policies, policy_ids, inference_only=inference_only)

    def set_weights(self, weights: Mapping[str, State]) -> None:
        """Put weights into policies, whole ones or what acts; everything is checked first, and the runners follow.

        Raises:
            SelectionError: A policy that is not there.
            StateMismatchError: Weights of another policy.
        """
        self.set_state({CONTAINER: {name: completed(self.get_policy(name), state) for name, state in weights.items()}})

    def add_policy(
        self,
        policy_id: str,
        spec: PolicySpec,
        *,
        state: Mapping[str, Any] | None = None,
        training: TrainingSpec | None = None,
        policy_mapping_fn: Given = None,
        trust: tuple[str, ...] = (),
    ) -> Policy:
        """Add a policy to everything.

        Args:
            policy_id: Its id.
            spec: What it is.
            state: What it has learnt; None for a fresh one.
            training: How it is trained; None: it is not.
            policy_mapping_fn: The new mapping; None keeps the old one.
            trust: Patterns of class paths that may be imported beside rlpipe's.

        Raises:
            IdError: The id is taken, or cannot name a directory.
            StateMismatchError: The state is not of the spec.
        """
        policy = spec.build(trust=trust) if state is None else Policy.from_state(state, spec, trust=trust)
        mapping = self.mapping
        if policy_mapping_fn is not None:
            mapping = PolicyMapping.of(policy_mapping_fn, [*self.policies, policy_id], trust=trust)
        self.parts.add(policy_id, policy, training, trust=trust)
        if policy_mapping_fn is not None:
            self.parts.set_mapping(mapping)
        return policy

    def remove_policy(self, policy_id: str, *, policy_mapping_fn: Given = None) -> Policy:
        """Take a policy out of everything; gives it.

        Raises:
            SelectionError: There is none, or the mapping still leads to it.
        """
        self.get_policy(policy_id)
        left = [name for name in self.policies if name != policy_id]
        mapping = PolicyMapping.of(policy_mapping_fn or self.mapping, left)
        policy = self.parts.remove(policy_id)
        if self.mapping is not None or policy_mapping_fn is not None:
            self.set_policy_mapping(mapping)
        return policy

    @classmethod
    def from_checkpoint(  # noqa: PLR0913 - RLlib's arguments, and what may differ from what was saved
        cls,
        path: str | os.PathLike[str],
        policy_ids: Collection[str] | None = None,
        policy_mapping_fn: Given = None,
        policies_to_train: Collection[str] | None = None,
        *,
        num_env_runners: int | None = None,
        env: str | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """The algorithm of a checkpoint, with all of its policies or some; wrong arguments are told before it is read.

        Args:
            path: A checkpoint of an algorithm; with `policy_ids` also of a container.
            policy_ids: Ids or globs; only the files of these policies are opened. None for all.
            policy_mapping_fn: Which policy acts for which agent from now on; None for what is left of the saved one.
            policies_to_train: Ids of those that are trained from now on; None for the saved ones.
            num_env_runners: How many runners; None for as many as there were.
            env: Another environment for the runners; None for the saved one.
            hyperparameters: Settings of the optimizers that take the place of the saved ones, such as {"lr": 1e-4}.
            device: Where they live; on "meta" no array is read.
            trust: Classes and functions that the caller vouches for.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            ConfigError: An empty list.
            SelectionError: An id that is not there, in any of the arguments.
            TieError: A chosen policy shares arrays with something that is not chosen.
        """
        changes = Changes(
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
            num_env_runners=num_env_runners,
            env=env,
            hyperparameters=hyperparameters,
        )
        return algorithm_at(cls, path, policy_ids, changes, device=device, trust=trust)

    def restore_from_path(
        self,
        path: str | os.PathLike[str],
        *,
        component: str | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
    ) -> RestoreReport:
        """Take over the state of a checkpoint; see `Learner.restore_from_path`. Everything is in step at once."""
        report = super().restore_from_path(path, component=component)
        if not hyperparameters:
            return report
        return replace(report, notes=required(self.learner, "learner").set_hyperparameters(hyperparameters))

    def restore_part(
        self,
        path: str | os.PathLike[str],
        *,
        policy_ids: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        on_shape: OnShape = "error",
    ) -> RestoreReport:
        """Take over some entries of saved policies, with the optimizer's moments that belong to them.

        What is not taken stays as it is, with its own moments. Moments of entries that came reshaped, or from a
        checkpoint that knows nothing of their training, start anew; the report's notes say so.

        Args:
            path: A checkpoint of an algorithm.
            policy_ids: Ids or globs; None for all that it holds.
            keys: Globs over the keys of policies, such as "encoder/*"; None for all.
            on_shape: What to do with an array that has another shape here: "error", "skip" leaves the one here,
                "copy_overlap" copies of each axis as much as both have.

        Raises:
            SelectionError: A pattern that matches nothing.
            SpecError: A policy is something else here, in more than sizes.
            StateMismatchError: Entries that this algorithm lacks, or of another dtype or shape.
        """
        return restore_part(self, path, policy_ids=policy_ids, keys=keys, on_shape=on_shape)

    @classmethod
    def from_state(  # noqa: PLR0913 - RLlib's arguments, and what its state carries beside the arrays
        cls,
        state: Mapping[str, Any],
        specs: Mapping[str, PolicySpec],
        *,
        training: TrainingSpec | Mapping[str, TrainingSpec] | None = None,
        env_runner: RunnerSpec | None = None,
        num_env_runners: int = 1,
        evaluation_runner: RunnerSpec | None = None,
        policy_mapping_fn: Given = None,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """An algorithm of policy specs with a state of `get_state()`. RLlib's state carries its specs.

        Args:
            state: Of an algorithm with a learner and runners as they are given here;
                `get_state(not_components="*_runner")` is one without runners.
            specs: Policy id -> what it is.
            training: How policies are trained, if the state is of an algorithm with a learner.
            env_runner: What lets them act, if there is one in the state.
            num_env_runners: How many of it.
            evaluation_runner: What lets them act for `evaluate`, if there is one in the state.
            policy_mapping_fn: Which policy acts for which agent.
            device: Where they live.
            trust: Patterns of class and function paths that may be imported beside rlpipe's.

        Raises:
            StateMismatchError: The state is not of these specs.
        """
        wanted = Wanted(
            training=training,
            env_runner=env_runner,
            num_env_runners=num_env_runners,
            evaluation_runner=evaluation_runner,
            policy_mapping_fn=policy_mapping_fn,
        )
        return algorithm_of_state(cls, state, specs, wanted, device=device, trust=trust)

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """The container of policies, and what else there is."""
        return self.parts.components()

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        options = {} if self.mapping is None else {MAPPING: self.mapping.to_json()}
        if self.runners is not None:
            options[RUNNERS] = len(self.runners)
        return Spec(class_path_of(type(self)), {}, options)

    def get_own_state(self) -> State:
        """The counters, where there is something that counts."""
        return {"counters": dict(self.counters)} if self.learner is not None or self.runners is not None else {}

    def get_own_roles(self) -> Mapping[str, Role]:
        """See `Restorable`."""
        return {f"counters/{name}": "training" for name in self.get_own_state().get("counters", {})}

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        self.counters.update(state.get("counters", {}))

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Let components share parameters again."""
        tie(self, ties)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del device
        return algorithm_of_children(cls, spec, children, trust=trust)
