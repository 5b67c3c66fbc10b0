"""Putting one snapshot over another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from rlpipe.errors import SpecError, StateMismatchError, listed
from rlpipe.snapshot.diff import mismatches
from rlpipe.snapshot.snapshot import Snapshot, below
from rlpipe.snapshot.spec import Json, canonical_json
from rlpipe.snapshot.state import entries, from_entries


def merge(base: Snapshot, patch: Snapshot, *, on_mismatch: Literal["error", "replace"] = "error") -> Snapshot:
    """The base with the patch put over it; neither is changed.

    A whole component of the patch takes the place of the base's, spec and all. A part replaces the entries that it
    has and keeps the base's spec. A whole component that the base lacks is added.

    Args:
        base: What is kept where the patch says nothing.
        patch: What is put over it.
        on_mismatch: "replace" lets a whole component take the place of one that computes something else.

    Raises:
        SpecError: Specs differ, or a part has no base to go into.
        StateMismatchError: A part holds entries that the base lacks, or of another dtype or shape.
    """
    return _merge(base, patch, on_mismatch, "")


def _merge(base: Snapshot, patch: Snapshot, on_mismatch: str, path: str) -> Snapshot:
    differences = _differences(base.spec.to_json(), patch.spec.to_json())
    is_shell = not patch.whole and not patch.roles
    if differences and not is_shell and not (patch.whole and on_mismatch == "replace"):
        raise _spec_error(differences, path)
    children = dict(base.children)
    for name, child in patch.children.items():
        children[name] = _merge_child(children.get(name), child, on_mismatch, below(path, name))
    if patch.whole:
        return replace(patch, children=children) if children else patch
    patched = entries(patch.state)
    _require_room(base, patched, path)
    return replace(
        base, state=from_entries(entries(base.state) | patched), roles={**base.roles, **patch.roles}, children=children
    )


def _merge_child(base: Snapshot | None, patch: Snapshot, on_mismatch: str, path: str) -> Snapshot:
    if base is not None:
        return _merge(base, patch, on_mismatch, path)
    if patch.whole:
        return patch
    raise SpecError(
        f"{path} is only a part of a component, and the base has no such component",
        expected="a base with that component, or all of the component",
        found="a part",
        fix="take all roles and keys of it (select.roles=null, select.keys=null), or choose another base",
    )


def _differences(base: Json, patch: Json) -> dict[str, tuple[str, str]]:
    """Dotted name -> both values, of what differs in two specs, options left aside."""
    ours, theirs = (_flat({name: spec[name] for name in ("class", "config")}, "") for spec in (base, patch))
    names = sorted(ours.keys() | theirs.keys())
    pairs = {name: (ours.get(name, "nothing"), theirs.get(name, "nothing")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _flat(value: Json, prefix: str) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        return {prefix: canonical_json(value)}
    return {
        name: text for key, item in value.items() for name, text in _flat(item, f"{prefix}.{key}".lstrip(".")).items()
    }


def _spec_error(differences: Mapping[str, tuple[str, str]], path: str) -> SpecError:
    return SpecError(
        f"{path or 'the root'} is something else in the base than in the source",
        expected=listed(f"{name} {ours}" for name, (ours, _) in differences.items()),
        found=listed(f"{name} {theirs}" for name, (_, theirs) in differences.items()),
        fix="choose a source with the same spec, or replace the component: base.on_mismatch=replace",
    )


def _require_room(base: Snapshot, patched: Mapping[str, Any], path: str) -> None:
    found = entries(base.state)
    unexpected = [below(path, key) for key in patched if key not in found]
    mismatched = mismatches({key: found[key] for key in patched if key in found}, patched, path)
    if unexpected or mismatched:
        raise StateMismatchError(
            f"{path or 'the root'} does not fit the base", unexpected=unexpected, mismatched=mismatched
        )
