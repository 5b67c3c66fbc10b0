"""Other names for components and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rlpipe.errors import SelectionError, StateMismatchError
from rlpipe.snapshot.snapshot import Snapshot, below, walk
from rlpipe.snapshot.state import entries, from_entries

Value = TypeVar("Value")


@dataclass(frozen=True)
class KeyMap:
    """Other names for components and for entries.

    Attributes:
        components: Component path -> its new last name, such as {"policies/p1": "p7"}.
        keys: Entry key, or the head of one up to a "/", -> what takes its place, in every component.
    """

    components: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


def rename(snapshot: Snapshot, key_map: KeyMap) -> Snapshot:
    """The same snapshot under other names. Every name in the map must be there, and no two things may get one name.

    Raises:
        SelectionError: A name in the map is not there.
        StateMismatchError: Two things would get the same name.
    """
    parts = dict(walk(snapshot))
    _require(key_map.components, parts, "component")
    _require(key_map.keys, {head for part in parts.values() for key in part.roles for head in _heads(key)}, "key")
    return _rename(snapshot, key_map, "")


def _rename(snapshot: Snapshot, key_map: KeyMap, path: str) -> Snapshot:
    names = {name: key_map.components.get(below(path, name), name) for name in snapshot.children}
    children = {name: _rename(child, key_map, below(path, name)) for name, child in snapshot.children.items()}
    keys = {key: _new_key(key, key_map.keys) for key in snapshot.roles}
    return replace(
        snapshot,
        children=_renamed(children, names, path),
        state=from_entries(_renamed(entries(snapshot.state), keys, path)),
        roles=_renamed(snapshot.roles, keys, path),
    )


def _renamed(values: Mapping[str, Value], names: Mapping[str, str], path: str) -> dict[str, Value]:
    renamed = {names[name]: value for name, value in values.items()}
    if len(renamed) < len(values):
        doubles = sorted({new for new in names.values() if list(names.values()).count(new) > 1})
        raise StateMismatchError(
            f"two things in {path or 'the root'} would get the same name",
            unexpected=doubles,
            fix="rename the other one too, or leave it out of the selection",
        )
    return renamed


def _new_key(key: str, keys: Mapping[str, str]) -> str:
    for head in _heads(key):
        if head in keys:
            return keys[head] + key.removeprefix(head)
    return key


def _heads(key: str) -> list[str]:
    """The key and everything above it, the longest first."""
    names = key.split("/")
    return ["/".join(names[:depth]) for depth in range(len(names), 0, -1)]


def _require(wanted: Iterable[str], known: Iterable[str], what: str) -> None:
    names = set(known)
    for name in wanted:
        if name not in names:
            raise SelectionError(f"there is no {what} {name!r} to rename", pattern=name, known=names - {""})
