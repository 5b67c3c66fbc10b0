"""How two specs differ in what matters to a state that goes from one to the other: spaces are compared with sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import SpaceError
from rlpipe.snapshot.spaces.convert import from_json
from rlpipe.snapshot.spaces.space import Finding, Use, compare
from rlpipe.snapshot.spec import Json, Spec, canonical_json
from rlpipe.snapshot.spec_diff import shortened

_USES: Mapping[str, Use] = MappingProxyType({"observation_space": "observation", "action_space": "action"})
_STAGES = "observation"
_MOST = float(np.finfo(np.float32).max)


def spec_findings(expected: Spec, found: Spec) -> list[Finding]:
    """How a spec differs from the expected one. Errors keep a state of one from serving the other, warnings do not.

    Spaces are compared by `compare`: an infinite bound is the largest number of its type, the order of keys is nothing,
    bounds and dtypes of observations are warnings. Everything else has to be the same.
    """
    if expected.identity() == found.identity():
        return []
    if expected.class_path != found.class_path:
        return [Finding("error", f"class: expected {expected.class_path}, found {found.class_path}")]
    return list(_differences(dict(expected.config), dict(found.config), ""))


def _differences(expected: Json, found: Json, name: str) -> Iterator[Finding]:
    last = name.rpartition(".")[2]
    expected, found = _without_idle_clips(expected), _without_idle_clips(found)
    if expected == found:
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        if last in _USES and (findings := _space_findings(expected, found, last)) is not None:
            yield from (finding.under(name) for finding in findings)
            return
        for each in sorted(expected.keys() | found.keys()):
            yield from _differences(expected.get(each), found.get(each), f"{name}.{each}".lstrip("."))
    elif last == _STAGES and isinstance(expected, list) and _without_casts(expected) == _without_casts(found):
        yield Finding("warning", _both(name, expected, found))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(one, other, f"{name}[{index}]")
    elif not (_is_unbounded(expected) and _is_unbounded(found) and _sign(expected) == _sign(found)):
        yield Finding("error", _both(name, expected, found))


def _space_findings(expected: Json, found: Json, name: str) -> list[Finding] | None:
    """The findings of two spaces; None if one is no space."""
    try:
        return compare(from_json(expected, where=name), from_json(found, where=name), use=_USES[name])
    except SpaceError:
        return None


def _without_casts(stages: Any) -> Any:
    """Stages without those that only change the type of numbers, which follow from the dtype of a space."""
    is_list = isinstance(stages, list) and all(isinstance(stage, dict) for stage in stages)
    return [stage for stage in stages if stage.get("type") != "cast"] if is_list else stages


def _without_idle_clips(value: Any) -> Any:
    """Stages without those that clip to bounds that no number exceeds."""
    if not isinstance(value, list) or not all(isinstance(stage, dict) for stage in value):
        return value
    return [stage for stage in value if not _is_idle_clip(stage)]


def _is_idle_clip(stage: Mapping[str, Any]) -> bool:
    bounds = [stage.get(name) for name in ("low", "high")]
    flat = [item for bound in bounds for item in (bound if isinstance(bound, list) else [bound])]
    return stage.get("type") == "clip" and all(map(_is_unbounded, flat))


def _is_unbounded(value: Json) -> bool:
    if isinstance(value, str):
        return value in ("inf", "-inf")
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) >= _MOST


def _sign(value: Json) -> bool:
    return str(value).startswith("-")


def _both(name: str, expected: Json, found: Json) -> str:
    texts = (value if isinstance(value, str) else canonical_json(value) for value in (expected, found))
    ours, theirs = shortened(*texts)
    return f"{name}: expected {ours}, found {theirs}"
