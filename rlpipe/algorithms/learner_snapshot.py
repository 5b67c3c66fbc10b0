"""What belongs to policies elsewhere in an algorithm's snapshot, kept in step with them. No torch.

A learner's directory has a part for each policy: the state of its optimizer by parameter, and a copy of the policy.
Runners have copies of what acts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpipe.algorithms.algorithm_reader import EVALUATION, LEARNER, MAPPING, RUNNER
from rlpipe.algorithms.policy_mapping import PolicyMapping
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Role, Snapshot
from rlpipe.snapshot.state import State, entries, from_entries, map_arrays

POLICY = "policy"
COPIES = (LEARNER, RUNNER, EVALUATION)
"""Components of an algorithm that hold copies of its policies."""

_INFERENCE = Selection(roles=frozenset({"inference"}), ties="untie")
_MOMENTS = "moments/"
_COUNTS = "observation_counts"
_NORMALIZE = "observation/normalize/mean"


@dataclass(frozen=True, eq=False, kw_only=True)
class Changed:
    """A policy of an algorithm that changed, wholly or in part.

    Attributes:
        policy: What it is now.
        restored: Keys of the entries that came from elsewhere as they were there.
        reshaped: Keys of entries that were cut, padded or made anew, so that nothing learnt about them counts.
        source: The part of the learner where they came from, or None.
    """

    policy: Snapshot
    restored: Collection[str]
    reshaped: Collection[str] = ()
    source: Snapshot | None = None


def apart(snapshot: Snapshot) -> Snapshot:
    """The snapshot with memory of its own; what is tied in it stays tied."""
    return _apart(snapshot, {})


def _apart(snapshot: Snapshot, made: dict[int, Any]) -> Snapshot:
    def copied(array: Any) -> Any:
        return made.setdefault(id(array), array.copy() if hasattr(array, "copy") else array)

    state = {name: map_arrays(value, copied) for name, value in snapshot.state.items()}
    return replace(
        snapshot, state=state, children={name: _apart(child, made) for name, child in snapshot.children.items()}
    )


def in_step(tree: Snapshot, changed: Mapping[str, Changed]) -> tuple[Snapshot, tuple[str, ...]]:
    """An algorithm's tree whose learner and runners are in step with policies that changed, and notes for the reader.

    The optimizer's moments go with the entries that they belong to: from the source's learner for what came from there,
    from the tree's own for what stayed; what is known of neither starts anew.

    Args:
        tree: The tree, with the changed policies already in it.
        changed: Policy id -> what changed.
    """
    notes: list[str] = []
    children = dict(tree.children)
    if LEARNER in children:
        children[LEARNER] = _learner(children[LEARNER], changed, notes)
    for name in (RUNNER, EVALUATION):
        if name in children:
            children[name] = _runner(children[name], changed)
    return replace(tree, children=children), tuple(notes)


def _learner(learner: Snapshot, changed: Mapping[str, Changed], notes: list[str]) -> Snapshot:
    parts = dict(learner.children)
    for policy_id, change in changed.items():
        part = part_of(parts.pop(policy_id, None), change)
        if part is not None:
            parts[policy_id] = part
            fresh = [key for key in _moments(part) if not _moments(part)[key][0]]
            notes += [f"{policy_id}: the optimizer starts anew for {', '.join(fresh)}"] if fresh else []
    (trained,) = learner.state["policies_to_train"]
    added = [policy_id for policy_id in changed if policy_id in parts and policy_id not in learner.children]
    state = {**learner.state, "policies_to_train": (sorted({*trained, *added} & parts.keys()),)}
    return replace(learner, state=state, children=parts)


def part_of(own: Snapshot | None, change: Changed) -> Snapshot | None:
    """The part of a learner for a policy that changed; None if nothing is known of how it is trained.

    Args:
        own: The part that the learner had for it, or None.
        change: What changed.
    """
    is_whole = set(change.policy.roles) <= set(change.restored)
    head = change.source if change.source is not None and (is_whole or own is None) else own
    if head is None or change.policy.spec.options.get("inference_only"):
        return None
    found = {key: _moment(key, own, change) for key in _moments(head)}
    state = entries(head.state) | {_MOMENTS + key: value for key, value in found.items()}
    return replace(head, state=from_entries(state), children={POLICY: apart(change.policy)})


def _moment(key: str, own: Snapshot | None, change: Changed) -> Any:
    if key in change.reshaped:
        return ({},)
    part = change.source if key in change.restored else own
    return ({},) if part is None else _moments(part).get(key, ({},))


def _moments(part: Snapshot) -> dict[str, Any]:
    """Parameter key -> what the optimizer keeps for it, as one entry."""
    found = entries(part.state)
    return {key.removeprefix(_MOMENTS): value for key, value in found.items() if key.startswith(_MOMENTS)}


def _runner(runner: Snapshot, changed: Mapping[str, Changed]) -> Snapshot:
    copies = {policy_id: _acting(change.policy) for policy_id, change in changed.items()}
    container = runner.children[CONTAINER]
    container = replace(container, children={**container.children, **copies})
    counts = dict(runner.state[_COUNTS])
    for policy_id, copy in copies.items():
        if _NORMALIZE in copy.roles:
            counts.setdefault(policy_id, 0)
        else:
            counts.pop(policy_id, None)
    return _with_counts(replace(runner, children={**runner.children, CONTAINER: container}), counts)


def _acting(policy: Snapshot) -> Snapshot:
    return replace(apart(select(policy, _INFERENCE)), whole=True)


def _with_counts(runner: Snapshot, counts: Mapping[str, int]) -> Snapshot:
    state: State = {**runner.state, _COUNTS: dict(counts)}
    roles: dict[str, Role] = dict.fromkeys(entries(state), "training")
    return replace(runner, state=state, roles=roles)


def renamed_copies(tree: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """The tree in which copies of policies have the new ids that the policies got."""
    children = dict(tree.children)
    if LEARNER in children:
        learner = children[LEARNER]
        (trained,) = learner.state["policies_to_train"]
        state = {**learner.state, "policies_to_train": (sorted(names.get(name, name) for name in trained),)}
        children[LEARNER] = replace(learner, state=state, children=_renamed(learner.children, names))
    for name in (RUNNER, EVALUATION):
        if name in children:
            runner = children[name]
            container = runner.children[CONTAINER]
            container = replace(container, children=_renamed(container.children, names))
            runner = replace(_remapped(runner, names), children={**runner.children, CONTAINER: container})
            children[name] = _with_counts(runner, _renamed(runner.state[_COUNTS], names))
    return replace(_remapped(tree, names), children=children)


def _remapped(part: Snapshot, names: Mapping[str, str]) -> Snapshot:
    saved = PolicyMapping.from_json(part.spec.options.get(MAPPING))
    if not isinstance(saved, dict):
        return part
    mapping = PolicyMapping({agent: names.get(policy_id, policy_id) for agent, policy_id in saved.items()}).to_json()
    return replace(part, spec=replace(part.spec, options={**part.spec.options, MAPPING: mapping}))


def _renamed(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in found.items()}
