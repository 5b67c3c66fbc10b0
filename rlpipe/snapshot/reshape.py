"""What becomes of arrays that have another shape where they shall go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from rlpipe.snapshot.diff import describe
from rlpipe.snapshot.snapshot import Snapshot, below
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import entries, from_entries

OnShape: TypeAlias = Literal["error", "skip", "copy_overlap"]
"""skip: the base's array stays. copy_overlap: of each axis as much as both have is copied into the base's array."""

ON_SHAPE: tuple[OnShape, ...] = ("error", "skip", "copy_overlap")


@dataclass(frozen=True, eq=False)
class Reshaped:
    """A patch that fits its base.

    Attributes:
        patch: The patch.
        changed: Full key -> what was done, in words; for entries that are not in the patch as they were.
    """

    patch: Snapshot
    changed: Mapping[str, str]


def reshaped(base: Snapshot, patch: Snapshot, on_shape: OnShape) -> Reshaped:
    """Fit a patch to a base where arrays have other shapes; neither is changed.

    A component that does not fit as it is becomes a part, so that the base's spec is kept. What differs in more than
    sizes stays for the merge to refuse.

    Args:
        base: Where the patch shall go.
        patch: What shall go there.
        on_shape: What to do; "error" leaves everything to the merge.
    """
    changed: dict[str, str] = {}
    return Reshaped(patch if on_shape == "error" else _fitted(base, patch, on_shape, "", changed), changed)


def _fitted(base: Snapshot, patch: Snapshot, on_shape: OnShape, path: str, changed: dict[str, str]) -> Snapshot:
    children = {
        name: _fitted(base.children[name], child, on_shape, below(path, name), changed)
        if name in base.children
        else child
        for name, child in patch.children.items()
    }
    ours, theirs = entries(base.state), entries(patch.state)
    taken: dict[str, Any] = {}
    is_changed = False
    for key, value in theirs.items():
        found, text = _entry(ours.get(key), value, on_shape)
        if text:
            changed[below(path, key)], is_changed = text, True
        if found is not None or value is None:
            taken[key] = found
    is_same = base.spec.identity() == patch.spec.identity() and not is_changed
    if is_same or not _is_resized_spec(base.spec, patch.spec):
        return replace(patch, children=children)
    return replace(
        patch,
        spec=base.spec,
        state=from_entries(taken),
        roles={key: patch.roles[key] for key in taken},
        children=children,
        whole=False,
    )


def _is_resized_spec(base: Spec, patch: Spec) -> bool:
    """Whether two specs are the same but for sizes."""
    return base.class_path == patch.class_path and _is_resized_json(dict(base.config), dict(patch.config), "")


def _is_resized_json(ours: Json, theirs: Json, name: str) -> bool:
    if ours == theirs or name.endswith("_space"):
        return True
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_is_resized_json(ours[each], theirs[each], each) for each in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            return all(isinstance(item, (int, float)) for item in (*ours, *theirs))
        return all(_is_resized_json(one, other, name) for one, other in zip(ours, theirs, strict=True))
    return type(ours) is int and type(theirs) is int


def _entry(ours: Any, theirs: Any, on_shape: OnShape) -> tuple[Any, str]:
    """What goes into the base, None for nothing, and what was done to it."""
    if not _is_resized(ours, theirs):
        return theirs, ""
    kinds = f"{describe(theirs)} for {describe(ours)}"
    if on_shape == "skip":
        return None, f"left as it was: {kinds}"
    made = np.array(ours)
    overlap = tuple(slice(min(pair)) for pair in zip(made.shape, theirs.shape, strict=True))
    made[overlap] = theirs[overlap]
    return made, f"copied as far as both reach: {kinds}"


def _is_resized(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray) or ours.shape == theirs.shape:
        return False
    return ours.dtype == theirs.dtype and ours.ndim == theirs.ndim
