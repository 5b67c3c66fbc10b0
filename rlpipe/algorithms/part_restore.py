"""Some entries of saved policies into a live algorithm, with what trains them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rlpipe.algorithms.algorithm_reader import LEARNER, chosen_ids, read_algorithm
from rlpipe.algorithms.learner_snapshot import Changed, in_step
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport, restore_into, snapshot_of
from rlpipe.checkpoint.steady import steadily
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.merge import merge
from rlpipe.snapshot.reshape import OnShape, reshaped
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot, below, walk

_UNTIED = Selection(ties="untie")


def restore_part(
    algorithm: Restorable,
    path: str | os.PathLike[str],
    *,
    policy_ids: Collection[str] | None,
    keys: Collection[str] | None,
    on_shape: OnShape,
) -> RestoreReport:
    """Put entries of saved policies into an algorithm; everything else in it stays, and is brought in step.

    See `Algorithm.restore_part`.
    """
    live = snapshot_of(algorithm)
    ids = chosen_ids(path, policy_ids, None)
    saved = steadily(Path(path), lambda directory: read_algorithm(directory, ids, arrays="verify"))
    wanted = Selection(keys=None if keys is None else tuple(keys), ties="untie")
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
