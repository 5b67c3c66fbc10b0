"""Putting one snapshot over another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from rlpipe.errors import SpecError, StateMismatchError
from rlpipe.snapshot.diff import mismatches
from rlpipe.snapshot.snapshot import Snapshot, below
from rlpipe.snapshot.spec import Json
from rlpipe.snapshot.spec_diff import SpecChange, changes, lines
from rlpipe.snapshot.spec_fit import spec_findings
from rlpipe.snapshot.state import entries, from_entries


def merge(base: Snapshot, patch: Snapshot, *, on_mismatch: Literal["error", "replace"] = "error") -> Snapshot:
    """The base with the patch put over it; neither is changed. Specs are compared by `spec_findings`.

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
    # What only asks for care, such as other bounds of observations, is for the caller to tell.
    is_alike = all(finding.severity == "warning" for finding in spec_findings(base.spec, patch.spec))
    differences = [] if is_alike else changes(_computed(base), _computed(patch))
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


def _computed(snapshot: Snapshot) -> Json:
    return {"class": snapshot.spec.class_path, "config": dict(snapshot.spec.config)}


def _spec_error(differences: list[SpecChange], path: str) -> SpecError:
    return SpecError(
        f"{path or 'the root'} is something else in the base than in the source",
        expected="the same spec on both sides",
        found=f"base -> source{lines(differences)}",
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
