"""Where two JSON values differ, path by path, and how that is shown: what both have in common is left away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rlpipe.snapshot.spec import Json, canonical_json

ABSENT = "nothing"
"""What stands for the side that lacks a name."""

_MISSING: Mapping[str, Any] = MappingProxyType({})
_KINDS = ("class", "type")
_SHOWN = 40
_BEFORE = 8
_MOST = 10


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One place where two specs differ.

    Attributes:
        name: Its path: names after dots, places of a list in brackets; "" for the whole.
        old: Canonical JSON of the first side; `ABSENT` where it has nothing.
        new: That of the second side.
        kinds: What both sides are made of, where each is a list of stages and that tells them apart; else "".
    """

    name: str
    old: str
    new: str
    kinds: str = ""

    def values(self) -> str:
        """``old -> new``, shortened around what differs."""
        return self.kinds or " -> ".join(shortened(self.old, self.new))

    def line(self) -> str:
        """``path: old -> new``."""
        return f"{self.name}: {self.values()}" if self.name else self.values()


def changes(old: Json, new: Json, name: str = "") -> list[SpecChange]:
    """Every place where two JSON values differ; where kinds differ, the kinds and not all that is below them.

    Lists are compared item by item if they are as long as each other and hold more than plain values.
    """
    if old is _MISSING or new is _MISSING or not _is_walked(old, new):
        return [] if _text(old) == _text(new) else [SpecChange(name, _text(old), _text(new), _kinds(old, new))]
    if isinstance(old, list):
        pairs = [(f"{name}[{index}]", one, other) for index, (one, other) in enumerate(zip(old, new, strict=True))]
    else:
        other_kind = next((kind for kind in _KINDS if old.get(kind) != new.get(kind)), None)
        names = [other_kind] if other_kind else sorted(old.keys() | new.keys())
        pairs = [(f"{name}.{each}".lstrip("."), old.get(each, _MISSING), new.get(each, _MISSING)) for each in names]
    return [found for each, one, other in pairs for found in changes(one, other, each)]


def lines(found: Iterable[SpecChange]) -> str:
    """Changes for an error: each on a line of its own, capped with a count of the rest."""
    texts = [f"\n    {change.line()}" for change in found]
    rest = len(texts) - _MOST
    return "".join(texts[:_MOST]) + (f"\n    and {rest} more" if rest > 0 else "")


def shortened(old: str, new: str) -> tuple[str, str]:
    """Two texts as far as they are needed to tell them apart: a long beginning that both share is cut."""
    shared = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    shared = min(shared, len(new))
    cut = shared - _BEFORE if max(len(old), len(new)) > _SHOWN and shared > _BEFORE else 0
    return _window(old, cut), _window(new, cut)


def _window(text: str, start: int) -> str:
    """What begins there, up to a length, with dots for what is left away."""
    head = "..." if start else ""
    rest = text[start:]
    return head + (rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}...")


def _is_walked(old: Json, new: Json) -> bool:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return True
    is_lists = isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
    return is_lists and any(isinstance(item, (Mapping, list)) for item in (*old, *new))


def _kinds(old: Json, new: Json) -> str:
    """``[cast, clip] -> [clip]``."""
    if not all(isinstance(side, list) and all(isinstance(item, Mapping) for item in side) for side in (old, new)):
        return ""
    return " -> ".join(f"[{', '.join(str(item.get('type')) for item in side)}]" for side in (old, new))


def _text(value: Json) -> str:
    return ABSENT if value is _MISSING else canonical_json(value)
