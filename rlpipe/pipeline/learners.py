"""What trains policies, on its way beside them through tasks that move policies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlpipe.algorithms.algorithm_reader import LEARNER
from rlpipe.algorithms.learner_snapshot import COPIES, POLICY, Changed, in_step
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import find_component, read_checkpoint, read_manifest
from rlpipe.errors import CheckpointNotFoundError, SelectionError, listed
from rlpipe.pipeline.lift import POLICIES, policies_of
from rlpipe.pipeline.sources import CheckpointSource, Source
from rlpipe.snapshot.snapshot import Snapshot


def learner_directory(policy: Place) -> Place | None:
    """Where what trains a policy lies, in the checkpoint that the policy's directory lies in; None if there is nothing.

    Args:
        policy: The directory of a policy, such as ckpt/policies/p1.
    """
    here = policy.resolve() if isinstance(policy, Path) else policy
    if here.parent.name != POLICIES:
        return None
    try:
        return find_component(here.parent.parent, f"{LEARNER}/{here.name}")
    except (CheckpointNotFoundError, SelectionError):
        return None


def learner_part(policy: Place) -> Snapshot | None:
    """What trains a policy; see `learner_directory`.

    Raises:
        CheckpointError: It is damaged.
    """
    directory = learner_directory(policy)
    return None if directory is None else read_checkpoint(directory)


def is_current(policy: Place, directory: Place) -> bool:
    """Whether the copy of a policy that lies with what trains it is the policy itself, by the recorded hashes."""
    return read_manifest(directory / POLICY).content_hash == read_manifest(policy).content_hash


def parts_of(source: Source, names: Mapping[str, str]) -> dict[str, Snapshot]:
    """What trained the policies of a source: policy id, after renaming -> part of a learner, where there is one."""
    if not isinstance(source, CheckpointSource):
        return {}
    found = {policy_id: learner_part(source.directory(policy_id)) for policy_id in source.ids()}
    return {names.get(policy_id, policy_id): part for policy_id, part in found.items() if part is not None}


def training_left(source: Source, tree: Snapshot) -> tuple[str, ...]:
    """A sentence about what trains the policies that were taken out of a checkpoint, and stays behind there.

    Args:
        source: Where they come from.
        tree: What was taken, under its old ids; its roles say whether training was wanted.
    """
    policies = policies_of(tree)
    wanted = any("training" in policy.roles.values() for policy in policies.values())
    if not wanted or has_copies(tree) or not isinstance(source, CheckpointSource):
        return ()
    found = {name: source.directory(name) for name in policies if learner_directory(source.directory(name)) is not None}
    if not found:
        return ()
    paths = ", ".join(f"{name}: {directory}" for name, directory in found.items())
    line = f"source=assemble 'source.policies={{{paths}}}' source.learner=copy"
    return (f"what trains {listed(found)} stays behind; {line} takes it along",)


def has_copies(tree: Snapshot) -> bool:
    """Whether an algorithm's tree holds more than policies."""
    return bool(tree.children.keys() & set(COPIES))


def kept_in_step(
    merged: Snapshot, patch: Snapshot, reshaped: Mapping[str, str], parts: Mapping[str, Snapshot]
) -> tuple[Snapshot, tuple[str, ...]]:
    """A merged tree whose learner and runners know of the policies that the patch changed, and notes for the reader.

    Args:
        merged: Base and patch.
        patch: What was put over the base.
        reshaped: Full keys of entries that did not come as they were.
        parts: Policy id -> part of a learner where the patch comes from.
    """
    policies = policies_of(merged)
    changed = {
        policy_id: Changed(
            policy=policies[policy_id],
            restored=part.roles,
            reshaped=[key for key in part.roles if f"{POLICIES}/{policy_id}/{key}" in reshaped],
            source=parts.get(policy_id),
        )
        for policy_id, part in policies_of(patch).items()
    }
    return in_step(merged, changed)
