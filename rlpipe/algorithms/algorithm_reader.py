"""Reading an algorithm's checkpoint, or what belongs to some of its policies; no file of another one is opened."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeAlias

from rlpipe.algorithms.policy_mapping import PolicyMapping
from rlpipe.checkpoint.place import Location, Place
from rlpipe.checkpoint.reader import When, find_component, read_checkpoint, read_manifest, read_own
from rlpipe.errors import SelectionError, SpecError
from rlpipe.policies.policy_tree import CONTAINER, read_policies
from rlpipe.snapshot.selection import matches, require_matches
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.texts import require_texts

LEARNER = "learner"
RUNNER = "env_runner"
EVALUATION = "evaluation_runner"
MAPPING = "policy_mapping"
RUNNERS = "num_env_runners"
COUNTERS = ("env_steps", "episodes", "updates")
"""Names of an algorithm's own counters."""

Ids: TypeAlias = Collection[str] | None
"""Ids of policies, or globs over them where that is said; None for all, or for those of before."""


def chosen_ids(path: Location, policy_ids: Ids, policies_to_train: Ids) -> tuple[str, ...]:
    """The ids of the chosen policies of a checkpoint, sorted; nothing but manifests is opened.

    Args:
        path: A checkpoint of an algorithm.
        policy_ids: Ids or globs; None for all.
        policies_to_train: Ids that have to be among them, with what trains them; None to ask for none.

    Raises:
        ConfigError: An empty list, or one that is not of different texts.
        SelectionError: An id that is not there, or a policy to train that is not chosen or has nothing to train it.
    """
    known = read_manifest(find_component(path, CONTAINER)).children
    patterns = None if policy_ids is None else require_texts("policy_ids", policy_ids, of="policy ids")
    require_matches(patterns, known, "policy id")
    ids = [name for name in known if patterns is None or any(matches(name, pattern) for pattern in patterns)]
    if policies_to_train is not None:
        _require_trainable(path, require_texts("policies_to_train", policies_to_train, of="policy ids"), ids)
    return tuple(sorted(ids))


def _require_trainable(path: Location, wanted: Collection[str], ids: Collection[str]) -> None:
    if LEARNER not in read_manifest(path).children:
        raise SpecError(
            f"{path} has nothing that trains policies",
            expected=f"a checkpoint with a component {LEARNER!r}",
            found="policies alone",
            fix="leave policies_to_train away, and give the algorithm a learner",
        )
    trained = read_manifest(find_component(path, LEARNER)).children
    for policy_id in wanted:
        if policy_id not in ids or policy_id not in trained:
            where = "chosen" if policy_id not in ids else "in the learner of the checkpoint"
            raise SelectionError(
                f"policies_to_train names {policy_id!r}, which is not {where}",
                pattern=policy_id,
                known=set(ids) & set(trained),
            )


def read_algorithm(directory: Place, ids: Ids, *, arrays: When) -> Snapshot:
    """An algorithm's snapshot, of some of its policies as if the others had never been.

    Args:
        directory: A checkpoint of an algorithm.
        ids: Ids of its policies; None for all.
        arrays: See `read_checkpoint`.

    Raises:
        CheckpointError: It is damaged.
        TieError: A chosen policy shares arrays with one that is not chosen.
    """
    if ids is None:
        return read_checkpoint(directory, arrays=arrays)
    root = read_own(directory, arrays=arrays)
    children = {CONTAINER: read_policies(directory, ids, arrays=arrays).root}
    for name in read_manifest(directory).children:
        if name == LEARNER:
            children[name] = _learner(directory / name, ids, arrays)
        elif name in (RUNNER, EVALUATION):
            children[name] = _runner(directory / name, ids, arrays)
        elif name != CONTAINER:
            children[name] = read_checkpoint(directory / name, arrays=arrays)
    return replace(root, spec=_mapped(root.spec, ids), children=children, whole=True)


def _learner(directory: Place, ids: Collection[str], arrays: When) -> Snapshot:
    own = read_own(directory, arrays=arrays)
    names = [name for name in read_manifest(directory).children if name in ids]
    (trained,) = own.state["policies_to_train"]
    state = {**own.state, "policies_to_train": ([name for name in trained if name in names],)}
    children = {name: read_checkpoint(directory / name, arrays=arrays) for name in names}
    return replace(own, state=state, children=children, whole=True)


def _runner(directory: Place, ids: Collection[str], arrays: When) -> Snapshot:
    own = read_own(directory, arrays=arrays)
    counts = {name: count for name, count in own.state["observation_counts"].items() if name in ids}
    state = {**own.state, "observation_counts": counts}
    head = "observation_counts"
    roles = {key: role for key, role in own.roles.items() if key.partition("/")[0] != head}
    roles |= dict.fromkeys([f"{head}/{name}" for name in counts] or [head], "training")
    children = {CONTAINER: read_policies(directory, ids, arrays=arrays).root}
    return replace(own, spec=_mapped(own.spec, ids), state=state, roles=roles, children=children, whole=True)


def _mapped(spec: Spec, ids: Collection[str]) -> Spec:
    """The spec with what is left of its mapping."""
    saved: Any = PolicyMapping.from_json(spec.options.get(MAPPING))
    if not isinstance(saved, dict):
        return spec
    left = PolicyMapping(saved).only(ids)
    return replace(spec, options={**spec.options, MAPPING: None if left is None else left.to_json()})
