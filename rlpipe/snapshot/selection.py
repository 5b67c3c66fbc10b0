"""Which part of a snapshot: components by path, entries by role and key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from rlpipe.errors import SelectionError, TieError, listed
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, below, entry_of, ties, walk
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import arrays, entries, from_entries
from rlpipe.snapshot.texts import require_texts

_WILD = frozenset("*?[")
"""What makes a pattern more than a name."""


@dataclass(frozen=True)
class Selection:
    """Which part of a snapshot.

    Attributes:
        components: Globs over component paths such as `policies/p1`, or None for all. What is below a match is selected
            with it; what is above comes along as a shell without state.
        roles: The roles of the entries to take.
        keys: Globs over entry keys such as `encoder/*`, or None for all. A pattern also takes what is below it.
        ties: What to do when only some members of a tied set are selected: "keep" refuses, "untie" lets the rest go.

    Raises:
        ConfigError: A text in place of globs: a "*" among its letters would select everything.
    """

    components: tuple[str, ...] | None = None
    roles: frozenset[Role] = frozenset(ROLES)
    keys: tuple[str, ...] | None = None
    ties: Literal["keep", "untie"] = "keep"

    def __post_init__(self) -> None:
        for name in ("components", "roles", "keys"):
            value = getattr(self, name)
            if isinstance(value, str):
                require_texts(name, value, of="texts")

    def takes_component(self, path: str) -> bool:
        """Whether the state of the component at this path is selected; the root's path is ""."""
        return self.components is None or any(matches(path, pattern) for pattern in self.components)

    def passes_through(self, path: str) -> bool:
        """Whether a component at or below this path could be selected."""
        if self.components is None or not path:
            return True
        return any(matches(path, pattern) or _could_start(pattern, path) for pattern in self.components)

    def takes_entry(self, key: str, role: Role) -> bool:
        """Whether an entry of a selected component is selected."""
        return role in self.roles and (self.keys is None or any(matches(key, pattern) for pattern in self.keys))

    @property
    def takes_all_entries(self) -> bool:
        """Whether selected components are selected whole."""
        return self.keys is None and len(self.roles) == len(ROLES)


def is_glob(pattern: str) -> bool:
    """Whether it can match other names than itself."""
    return not _WILD.isdisjoint(pattern)


def matches(path: str, pattern: str) -> bool:
    """Whether the path, or something above it, is what the pattern names."""
    if path == pattern or path.startswith(pattern + "/"):
        return True
    if _WILD.isdisjoint(pattern):
        return False
    names = path.split("/")
    return any(fnmatchcase("/".join(names[:depth]), pattern) for depth in range(len(names), 0, -1))


def _could_start(pattern: str, path: str) -> bool:
    if _WILD.isdisjoint(pattern):
        return pattern.startswith(path + "/")
    heads = pattern.split("/")
    names = path.split("/")
    return len(names) < len(heads) and all(map(fnmatchcase, names, heads))


def require_matches(patterns: Iterable[str] | None, names: Iterable[str], what: str) -> None:
    """Check that every pattern matches at least one of the names.

    Raises:
        SelectionError: A pattern matches nothing; it carries the closest names.
    """
    known = tuple(names)
    for pattern in patterns or ():
        if not any(matches(name, pattern) for name in known):
            raise SelectionError(f"no {what} matches {pattern!r}", pattern=pattern, known=known)


def select(snapshot: Snapshot, selection: Selection) -> Snapshot:
    """The selected part. Each pattern must match something.

    Components above a selected one stay as shells without state. A component of which only inference entries are taken
    gets `inference_only` set among its options, where it has that option.

    Raises:
        SelectionError: A pattern matches nothing.
        TieError: Only some members of a tied set are selected.
    """
    require_matches(selection.components, (path for path, _ in walk(snapshot) if path), "component")
    taken = [(path, part) for path, part in walk(snapshot) if selection.takes_component(path)]
    require_matches(selection.keys, {key for _, part in taken for key in part.roles}, "key")
    if selection.ties == "keep":
        _refuse_torn_ties(snapshot, selection)
    return _select(snapshot, selection, "")


def _select(snapshot: Snapshot, selection: Selection, path: str) -> Snapshot:
    children = {
        name: _select(child, selection, below(path, name))
        for name, child in snapshot.children.items()
        if selection.passes_through(below(path, name))
    }
    found = entries(snapshot.state)
    taken = selection.takes_component(path)
    kept = {key: value for key, value in found.items() if taken and selection.takes_entry(key, snapshot.roles[key])}
    complete = taken and len(kept) == len(found) and children.keys() == snapshot.children.keys()
    return replace(
        snapshot,
        spec=_slim(snapshot.spec) if taken and "training" not in selection.roles else snapshot.spec,
        state=from_entries(kept),
        roles={key: snapshot.roles[key] for key in kept},
        children=children,
        whole=complete and snapshot.whole,
    )


def _slim(spec: Spec) -> Spec:
    if "inference_only" not in spec.options:
        return spec
    return replace(spec, options={**spec.options, "inference_only": True})


def _refuse_torn_ties(snapshot: Snapshot, selection: Selection) -> None:
    role_of = {
        below(path, key): (path, key.removeprefix("/"), part)
        for path, part in walk(snapshot)
        for key in arrays(part.state)
    }
    torn = []
    for group in ties(snapshot):
        inside = [name for name in group if _takes_array(selection, *role_of[name])]
        if 0 < len(inside) < len(group):
            torn.append(f"{listed(inside)} with {listed(set(group) - set(inside))}")
    if torn:
        raise torn_apart(torn)


def _takes_array(selection: Selection, path: str, key: str, part: Snapshot) -> bool:
    if not selection.takes_component(path):
        return False
    entry = entry_of(key, part.roles)
    return selection.takes_entry(entry, part.roles[entry])


def torn_apart(torn: list[str]) -> TieError:
    """The error for arrays of which a selection takes some names, each text with those inside and those outside."""
    return TieError(
        "the selection takes only a part of arrays that are tied",
        expected="all names of a tied array, or none",
        found="; ".join(torn),
        fix="select the partners too, or let go of them: select.ties=untie",
    )
