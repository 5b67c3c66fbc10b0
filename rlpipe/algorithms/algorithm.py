"""The root of a checkpoint: policies, what trains them, and what lets them act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from rlpipe.algorithms.algorithm_building import Wanted, algorithm_at, algorithm_of_children, algorithm_of_state
from rlpipe.algorithms.algorithm_parts import Parts
from rlpipe.algorithms.algorithm_reader import Ids
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
from rlpipe.algorithms.weights import Transfer, state_of_weights, weights_of
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.place import Location
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.tying import tie
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
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
        self.policies: Final = policies if isinstance(policies, MultiRLModule) else MultiRLModule(policies)
        self.learner: Final = learner
        self.runners: Final = None if env_runner is None else RunnerGroup(env_runner, num_env_runners)
        self.evaluation: Final = None if evaluation_runner is None else RunnerGroup(evaluation_runner)
        self.parts: Final = Parts(self.policies, learner, self.runners, self.evaluation)
        self.counters: Final = self.parts.counters
        if policy_mapping_fn is not None:
            self.set_policy_mapping(policy_mapping_fn)

    @property
    def mapping(self) -> PolicyMapping | None:
        """Which policy acts for which agent; None where that is left to the runner."""
        return self.parts.mapping

    @property
    def policies_to_train(self) -> tuple[str, ...]:
        """Ids of the policies that `update` trains."""
        return () if self.learner is None else self.learner.policies_to_train

    def get_policy(self, policy_id: str) -> Policy:
        """The policy of an id; a `SelectionError` if there is none, where RLlib gives None."""
        policy: Policy = self.policies[policy_id]
        return policy

    def set_policy_mapping(self, policy_mapping_fn: Given, *, trust: tuple[str, ...] = ()) -> None:
        """Say which policy acts for which agent; a `SelectionError` if that policy is not there."""
        self.parts.set_mapping(PolicyMapping.of(policy_mapping_fn, self.policies.keys(), trust=trust))

    def sample(self, n: int) -> Samples:
        """Let the policies explore for `n` steps; see `EnvRunner.sample`. Statistics reach all who use them."""
        return self.parts.sample(n)

    def update(self, batches: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """A step of training for each policy that has a batch; see `Learner.update`. Runners get the new weights."""
        return self.parts.update(batches)

    def evaluate(self, n: int, *, policy_id: str | None = None, max_steps: int | None = None) -> list[Episode]:
        """`n` episodes without chance; see `EnvRunner.evaluate`."""
        return self.parts.evaluate(n, policy_id=policy_id, max_steps=max_steps)

    def sync(self, policy_ids: Ids = None) -> dict[str, Transfer]:
        """Send the runners what acts in the policies, or in some; says how much that was."""
        return self.parts.sync(policy_ids)

    def get_weights(self, policy_ids: Ids = None, *, inference_only: bool = False) -> dict[str, State]:
        """Policy id -> a copy of its weights."""
        return weights_of(self.policies, policy_ids, inference_only=inference_only)

    def set_weights(self, weights: Mapping[str, State]) -> None:
        """Put weights into policies, whole ones or what acts; everything is checked first, and the runners follow."""
        self.set_state(state_of_weights(self.policies, weights))

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
        """Add a policy to everything: a fresh one or with a state, trained or not; see `Parts.add`."""
        policy = spec.build(trust=trust) if state is None else Policy.from_state(state, spec, trust=trust)
        self.parts.add(policy_id, policy, training, policy_mapping_fn, trust=trust)
        return policy

    def remove_policy(self, policy_id: str, *, policy_mapping_fn: Given = None) -> Policy:
        """Take a policy out of everything, and give it; see `Parts.remove`."""
        return self.parts.remove(policy_id, policy_mapping_fn)

    @classmethod
    def from_checkpoint(  # noqa: PLR0913 - RLlib's arguments, and what may differ from what was saved
        cls,
        path: Location,
        policy_ids: Ids = None,
        policy_mapping_fn: Given = None,
        policies_to_train: Ids = None,
        *,
        num_env_runners: int | None = None,
        env: str | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """The algorithm of a checkpoint, with all of its policies or some, and with `Changes`; see `algorithm_at`."""
        changes = Changes(policy_mapping_fn, policies_to_train, num_env_runners, env, hyperparameters)
        return algorithm_at(cls, path, policy_ids, changes, device=device, trust=trust)

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
        """An algorithm of policy specs, and what is `Wanted` beside them, with a state; see `algorithm_of_state`."""
        wanted = Wanted(training, env_runner, num_env_runners, evaluation_runner, policy_mapping_fn)
        return algorithm_of_state(cls, state, specs, wanted, device=device, trust=trust)

    def restore_from_path(
        self, path: Location, *, component: str | None = None, hyperparameters: Mapping[str, Any] | None = None
    ) -> RestoreReport:
        """Take over the state of a checkpoint; see `Learner.restore_from_path`. Everything is in step at once."""
        put = self.parts.settings_for(component, hyperparameters)
        return put(super().restore_from_path(path, component=component))

    def restore_part(
        self, path: Location, *, policy_ids: Ids = None, keys: Ids = None, on_shape: OnShape = "error"
    ) -> RestoreReport:
        """Take over some entries of saved policies, with the optimizer's moments of these; see `restore_part`."""
        return restore_part(self, path, policy_ids=policy_ids, keys=keys, on_shape=on_shape)

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """The container of policies, and what else there is."""
        return self.parts.components()

    def get_spec(self) -> Spec:
        """See `Restorable`; the mapping and the number of runners are options."""
        return Spec(class_path_of(type(self)), {}, self.parts.options())

    def get_own_state(self) -> State:
        """The counters, where there is something that counts."""
        return self.parts.own_state()

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
