"""How two snapshots differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlpipe.snapshot.snapshot import Snapshot, below, walk
from rlpipe.snapshot.state import entries, equal


@dataclass(frozen=True)
class StateDiff:
    """How two snapshots differ in structure and in values, by full key.

    Attributes:
        missing: Expected and not found.
        unexpected: Found and not expected.
        mismatched: On both sides with another dtype, shape or type, both described.
        changed: On both sides, alike, with other values.
        respecified: Components that compute something else.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[str, ...]
    changed: tuple[str, ...]
    respecified: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the found state can take the place of the expected one."""
        return not (self.missing or self.unexpected or self.mismatched)

    @property
    def same(self) -> bool:
        """Whether both sides are equal in everything but metadata."""
        return self.fits and not self.changed and not self.respecified


def diff(expected: Snapshot, found: Snapshot) -> StateDiff:
    """Every difference between two snapshots, metadata left aside."""
    left, right = dict(walk(expected)), dict(walk(found))
    ours, theirs = _full_entries(expected), _full_entries(found)
    both = ours.keys() & theirs.keys()
    kinds = {key: (describe(ours[key]), describe(theirs[key])) for key in both}
    return StateDiff(
        missing=tuple(sorted(ours.keys() - theirs.keys())),
        unexpected=tuple(sorted(theirs.keys() - ours.keys())),
        mismatched=mismatches(ours, theirs, ""),
        changed=tuple(sorted(key for key in both if len(set(kinds[key])) == 1 and not equal(ours[key], theirs[key]))),
        respecified=tuple(
            sorted(
                path for path in left.keys() & right.keys() if left[path].spec.identity() != right[path].spec.identity()
            )
        ),
    )


def _full_entries(snapshot: Snapshot) -> dict[str, Any]:
    return {below(path, key): value for path, part in walk(snapshot) for key, value in entries(part.state).items()}


def mismatches(expected: Mapping[str, Any], found: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The keys on both sides whose kinds differ, under the component's path, each with both kinds."""
    both = sorted(expected.keys() & found.keys())
    kinds = ((key, describe(expected[key]), describe(found[key])) for key in both)
    return tuple(
        f"{below(path, key)} ({ours} expected, {theirs} found)" for key, ours, theirs in kinds if ours != theirs
    )


def describe(value: Any) -> str:
    """The kind of an entry in a few words: dtype and shape of an array, the type of anything else."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
