"""Some entries of saved policies into a live algorithm, with what trains them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlpipe.algorithms.algorithm_reader import LEARNER, Ids, chosen_ids, read_algorithm
from rlpipe.algorithms.learner_snapshot import Changed, in_step
from rlpipe.checkpoint.place import Location
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport, glance_of, restore_into
from rlpipe.checkpoint.steady import steadily
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.merge import merge
from rlpipe.snapshot.reshape import OnShape, reshaped
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot, below, walk
from rlpipe.snapshot.texts import require_texts

_UNTIED = Selection(ties="untie")


def restore_part(
    algorithm: Restorable,
    path: Location,
    *,
    policy_ids: Ids,
    keys: Ids,
    on_shape: OnShape,
) -> RestoreReport:
    """Put entries of saved policies into an algorithm, with the optimizer's moments that belong to them.

    What is not taken stays as it is, with its own moments, and is brought in step. Moments of entries that came
    reshaped, or from a checkpoint that knows nothing of their training, start anew; the report's notes say so.

    Args:
        algorithm: The algorithm.
        path: A checkpoint of an algorithm.
        policy_ids: Ids or globs; None for all that it holds.
        keys: Globs over the keys of policies, such as "encoder/*"; None for all.
        on_shape: What to do with an array that has another shape here: "error", "skip" leaves the one here,
            "copy_overlap" copies of each axis as much as both have.

    Raises:
        ConfigError: An empty list, or one that is not of different texts.
        SelectionError: A pattern that matches nothing.
        SpecError: A policy is something else here, in more than sizes.
        StateMismatchError: Entries that this algorithm lacks, or of another dtype or shape.
    """
    live = glance_of(algorithm)
    ids = chosen_ids(path, policy_ids, None)
    saved = steadily(Path(path), lambda directory: read_algorithm(directory, ids, arrays="verify"))
    wanted = Selection(keys=None if keys is None else require_texts("keys", keys, of="globs over keys"), ties="untie")
    container = select(saved.children[CONTAINER], wanted)
    patch = replace(container, state={}, roles={}, whole=False)
    fitted = reshaped(live.children[CONTAINER], patch, on_shape)
    merged = merge(live.children[CONTAINER], fitted.patch)
    parts = saved.children[LEARNER].children if LEARNER in saved.children else {}
    changed = {
        name: Changed(
            policy=merged.children[name],
            restored=part.roles,
            reshaped=[key for key in part.roles if below(name, key) in fitted.changed],
            source=parts.get(name),
        )
        for name, part in fitted.patch.children.items()
    }
    tree, notes = in_step(replace(live, children={**live.children, CONTAINER: merged}), changed)
    restore_into(algorithm, tree, _UNTIED)
    notes = (*(f"{key} was {text}" for key, text in fitted.changed.items()), *notes)
    return _report(live, fitted.patch, notes)


def _report(live: Snapshot, patch: Snapshot, notes: tuple[str, ...]) -> RestoreReport:
    restored = {below(below(CONTAINER, path), key) for path, part in walk(patch) for key in part.roles}
    everything = {below(path, key) for path, part in walk(live) for key in part.roles}
    return RestoreReport(tuple(sorted(restored)), tuple(sorted(everything - restored)), notes)
