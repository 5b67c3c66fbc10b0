"""Whether a snapshot can take the place of another one."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rlpipe.checkpoint.array_info import ArrayInfo, StoredArray
from rlpipe.errors import SpecError, StateMismatchError, TieError, UnsupportedStateError, listed
from rlpipe.snapshot.diff import mismatches
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import Snapshot, below, ties, walk
from rlpipe.snapshot.spec_fit import spec_findings
from rlpipe.snapshot.state import Array, arrays, entries, equal

logger = logging.getLogger(__name__)


def require_fit(expected: Snapshot, found: Snapshot) -> None:
    """Check that a snapshot can take the place of another one: the same components, specs, keys, dtypes and shapes.

    Raises:
        SpecError: Components that compute something else.
        StateMismatchError: Missing, unexpected and mismatched entries, all of them.
    """
    left, right = dict(walk(expected)), dict(walk(found))
    _require_same_specs(left, right)
    ours, theirs = _named(left), _named(right)
    missing, unexpected = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
    different = mismatches(ours, theirs, "")
    if missing or unexpected or different:
        raise StateMismatchError(
            f"the state does not fit {expected.spec.class_path}",
            missing=missing,
            unexpected=unexpected,
            mismatched=different,
        )


def _require_same_specs(left: Mapping[str, Snapshot], right: Mapping[str, Snapshot]) -> None:
    findings = {path: spec_findings(left[path].spec, right[path].spec) for path in sorted(left.keys() & right.keys())}
    texts = {path: [each.text for each in found if each.severity == "error"] for path, found in findings.items()}
    other = [path for path, found in texts.items() if found]
    if other:
        raise SpecError(
            f"{listed(path or 'the root' for path in other)}: the snapshot is of something else",
            expected="what the object is",
            found=listed(texts[other[0]]),
            fix="restore it into an object with the same spec, or build a new one from it",
        )
    for path, found in findings.items():
        for finding in found:
            logger.warning("%s: %s", path or "the root", finding.text)


def _named(parts: Mapping[str, Snapshot]) -> dict[str, object]:
    """Full key -> entry; a component is an entry too, so that one without state is missed."""
    named: dict[str, object] = {f"{path}/": None for path in parts if path}
    for path, part in parts.items():
        named |= {below(path, key): value for key, value in entries(part.state).items()}
    return named


def require_read(patch: Snapshot) -> None:
    """Check that a snapshot holds arrays, or knows where they are, and not only what they are like.

    Raises:
        UnsupportedStateError: It was read without arrays.
    """
    for path, part in walk(patch):
        for key, array in arrays(part.state).items():
            if isinstance(array, ArrayInfo) and not isinstance(array, StoredArray):
                raise not_read(below(path, key))


def not_read(key: str) -> UnsupportedStateError:
    """The error that a description stands where an array is needed."""
    return UnsupportedStateError(
        f"{key} was not read", expected="an array", found="its description", fix="read the arrays"
    )


def require_same_ties(expected: Snapshot, patch: Snapshot, selection: Selection) -> None:
    """Check that no arrays that were one are silently two.

    Args:
        expected: The part of the object that is replaced.
        patch: What takes its place.
        selection: "untie" among its `ties` lets go of ties that the object lacks.

    Raises:
        TieError: Some would be; all ties are named.
    """
    lost = [] if selection.ties == "untie" else lacking_ties(expected, patch)
    if lost:
        raise TieError(
            "the snapshot and the object tie different arrays",
            expected=f"tied arrays in the object: {ties_text(lost)}",
            found="separate arrays",
            fix="let go of the ties: select.ties=untie",
        )


def require_one_value(expected: Snapshot, patch: Snapshot) -> None:
    """Check that arrays that are one in the object get one value.

    Args:
        expected: The part of the object that is replaced.
        patch: What takes its place.

    Raises:
        TieError: They would get several, of which the last would stay; all of them are named.
    """
    values = _all_arrays(patch)
    if torn := [group for group in ties(expected) if not _is_one(group, values)]:
        raise TieError(
            "what is one tensor in the object would get several values",
            expected=f"one value for {ties_text(torn)}",
            found="different values",
            fix="restore a snapshot of the same build",
        )


def require_whole_ties(whole: Snapshot, patch: Snapshot, *, at: str = "") -> None:
    """Check that a patch has all names, or none, of each array that is one under several names in what it changes.

    Args:
        whole: What is changed: a live object, or a base.
        patch: What is put over it.
        at: Path in `whole` that the patch's own paths start from.

    Raises:
        TieError: Only some names are in the patch: their partners would change unseen, or be torn away.
    """
    replaced = {below(at, key) for key in _all_arrays(patch)}
    torn = []
    for group in ties(whole):
        inside = [key for key in group if key in replaced]
        if 0 < len(inside) < len(group):
            torn.append(f"{listed(inside)} with {listed(set(group) - set(inside))}")
    if torn:
        raise TieError(
            f"{whole.spec.class_path} holds arrays under several names, of which only some are restored",
            expected="all names of a tied array, or none",
            found="; ".join(torn),
            fix="restore the partners too; for a base in a file there is select.ties=untie",
        )


def _is_one(group: tuple[str, ...], values: Mapping[str, Array]) -> bool:
    found = [values[key] for key in group if key in values]
    return all(value is found[0] or equal(value, found[0]) for value in found[1:])


def lacking_ties(live: Snapshot, snapshot: Snapshot) -> list[tuple[str, ...]]:
    """Ties of the snapshot that the live one lacks."""
    known = [set(group) for group in ties(live)]
    return [group for group in ties(snapshot) if not any(known_group.issuperset(group) for known_group in known)]


def ties_text(groups: list[tuple[str, ...]]) -> str:
    """Ties in words."""
    return listed(" with ".join(group) for group in groups)


def _all_arrays(snapshot: Snapshot) -> dict[str, Array]:
    return {below(path, key): array for path, part in walk(snapshot) for key, array in arrays(part.state).items()}
