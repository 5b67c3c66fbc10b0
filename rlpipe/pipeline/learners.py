"""What trains policies, on its way beside them through tasks that move policies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlpipe.algorithms.algorithm_reader import LEARNER
from rlpipe.algorithms.learner_snapshot import COPIES, POLICY, Changed, in_step
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import find_component, read_checkpoint, read_manifest
from rlpipe.errors import CheckpointNotFoundError, SelectionError
from rlpipe.pipeline.lift import POLICIES, policies_of
from rlpipe.pipeline.sources import CheckpointSource, Source
from rlpipe.snapshot.snapshot import Snapshot


def learner_part(policy: Place) -> Snapshot | None:
    """What trained a policy, from the checkpoint that the policy's directory lies in; None if there is nothing.

    Args:
        policy: The directory of a policy, such as ckpt/policies/p1.

    Raises:
        CheckpointError: There is something, and it is damaged.
    """
    place = _real(policy)
    if place.parent.name != POLICIES:
        return None
    try:
        part = find_component(place.parent.parent, f"{LEARNER}/{place.name}")
    except (CheckpointNotFoundError, SelectionError):  # the policy stands alone, or nothing trained it
        return None
    return read_checkpoint(part)


def is_current(policy: Place, part: Snapshot) -> bool:
    """Whether the copy of the policy that a learner has is the policy itself, by its recorded hash."""
    place = _real(policy)
    copy = place.parent.parent / LEARNER / place.name / POLICY
    return read_manifest(copy).content_hash == read_manifest(policy).content_hash and POLICY in part.children


def _real(place: Place) -> Place:
    """Where a link leads to."""
    return place.resolve() if isinstance(place, Path) else place


def parts_of(source: Source, names: Mapping[str, str]) -> dict[str, Snapshot]:
    """What trained the policies of a source: policy id, after renaming -> part of a learner, where there is one."""
    if not isinstance(source, CheckpointSource):
        return {}
    found = {policy_id: learner_part(source.directory(policy_id)) for policy_id in source.ids()}
    return {names.get(policy_id, policy_id): part for policy_id, part in found.items() if part is not None}


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
