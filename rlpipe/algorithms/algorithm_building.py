"""Building an algorithm of a checkpoint, of what was read of one, or of a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlpipe.algorithms.algorithm_reader import (
    EVALUATION,
    LEARNER,
    MAPPING,
    RUNNER,
    RUNNERS,
    Ids,
    chosen_ids,
    read_algorithm,
)
from rlpipe.algorithms.changes import Changes
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.policy_mapping import Given, PolicyMapping
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.classes import class_path_of, resolve_class, with_trust
from rlpipe.checkpoint.place import Location, Place
from rlpipe.checkpoint.reader import When, read_manifest
from rlpipe.checkpoint.restore import build
from rlpipe.checkpoint.steady import steadily
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.policy_tree import CONTAINER, build_policies, read_policies
from rlpipe.snapshot.spec import Spec

if TYPE_CHECKING:
    from rlpipe.algorithms.algorithm import Algorithm

AnyAlgorithm = TypeVar("AnyAlgorithm", bound="Algorithm")


@dataclass(frozen=True)
class Wanted:
    """What an algorithm has beside its policies.

    Attributes:
        training: How policies are trained, all in one way or each in its own; None without a learner.
        env_runner: What lets them act; None without a runner.
        num_env_runners: How many of it.
        evaluation_runner: What lets them act for `evaluate`; None without one of its own.
        policy_mapping_fn: Which policy acts for which agent; None leaves it to the runner.
    """

    training: TrainingSpec | Mapping[str, TrainingSpec] | None = None
    env_runner: RunnerSpec | None = None
    num_env_runners: int = 1
    evaluation_runner: RunnerSpec | None = None
    policy_mapping_fn: Given = None


def algorithm_at(
    kind: type[AnyAlgorithm],
    path: Location,
    policy_ids: Ids,
    changes: Changes,
    *,
    device: str,
    trust: tuple[str, ...],
) -> AnyAlgorithm:
    """The algorithm of a checkpoint, with all of its policies or some; wrong arguments are told before it is read.

    Args:
        kind: The class to build.
        path: A checkpoint of an algorithm; with `policy_ids` also of a container.
        policy_ids: Ids or globs; only the files of these policies are opened. None for all.
        changes: What shall differ from what was saved.
        device: Where the policies live; on "meta" no array is read.
        trust: Classes and functions that the caller vouches for.

    Raises:
        CheckpointError: There is no checkpoint, or it is damaged.
        ConfigError: An empty list, or a change of something that the checkpoint does not have.
        SelectionError: An id that is not there, in any of the arguments.
        TieError: A chosen policy shares arrays with something that is not chosen.
    """
    when: When = "none" if device == "meta" else "later"
    manifest = read_manifest(path)
    if CONTAINER not in manifest.children and policy_ids is not None:
        changes.require_there(())
        tree = steadily(path, lambda directory: read_policies(directory, policy_ids, arrays=when))
        policies = build_policies(tree, device=device, trust=trust)
        return kind(policies, policy_mapping_fn=changes.policy_mapping_fn)
    trusted = with_trust(trust, class_path_of(kind))
    resolve_class(manifest.spec.class_path, kind, trust=trusted, where=str(path))
    ids = chosen_ids(path, policy_ids, changes.policies_to_train)
    changes.require_there(manifest.children)
    checked = changes.checked(ids, trust)
    wanted = None if policy_ids is None else ids

    def read_and_build(directory: Place) -> Any:
        return build(read_algorithm(directory, wanted, arrays=when), device=device, trust=trusted)

    made: AnyAlgorithm = steadily(path, read_and_build)
    checked.apply(made)
    for policy in made.policies.values():
        policy.module.eval()
    return made


def algorithm_of_children(
    kind: type[AnyAlgorithm], spec: Spec, children: Mapping[str, Any], *, trust: tuple[str, ...]
) -> AnyAlgorithm:
    """See `Restorable.build_from`; the learner trains the very policies of the algorithm."""
    learner = children.get(LEARNER)
    if learner is not None:
        for policy_id in learner.policies:
            learner[policy_id].adopt(children[CONTAINER][policy_id])
    made = kind(
        children[CONTAINER],
        learner=learner,
        env_runner=children.get(RUNNER),
        num_env_runners=spec.options.get(RUNNERS, 1),
        evaluation_runner=children.get(EVALUATION),
    )
    if spec.options.get(MAPPING) is not None:
        made.set_policy_mapping(PolicyMapping.from_json(spec.options[MAPPING]), trust=trust)
    return made


def algorithm_of_state(
    kind: type[AnyAlgorithm],
    state: Mapping[str, Any],
    specs: Mapping[str, PolicySpec],
    wanted: Wanted,
    *,
    device: str,
    trust: tuple[str, ...],
) -> AnyAlgorithm:
    """An algorithm of policy specs with a state of `get_state()`. RLlib's state carries its specs.

    Args:
        kind: The class to build.
        state: Of an algorithm with a learner and runners as they are wanted here;
            `get_state(not_components="*_runner")` is one without runners.
        specs: Policy id -> what it is.
        wanted: What there is beside the policies.
        device: Where the policies live.
        trust: Patterns of class and function paths that may be imported beside rlpipe's.

    Raises:
        StateMismatchError: The state is not of these specs.
    """
    policies = {name: spec.build(device=device, trust=trust) for name, spec in specs.items()}
    given, training = wanted.policy_mapping_fn, wanted.training
    mapping = None if given is None else PolicyMapping.of(given, policies, trust=trust)
    runners = {
        name: None if spec is None else spec.build(policies, mapping, trust=trust)
        for name, spec in ((RUNNER, wanted.env_runner), (EVALUATION, wanted.evaluation_runner))
    }
    made = kind(
        policies,
        learner=None if training is None else Learner.for_policies(policies, training, trust=trust),
        env_runner=runners[RUNNER],
        num_env_runners=wanted.num_env_runners,
        evaluation_runner=runners[EVALUATION],
        policy_mapping_fn=mapping,
    )
    made.set_state(state)
    return made
