"""Arrays that are one in memory: which component has to remember it, and how they become one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rlpipe.checkpoint.array_info import ArrayInfo
from rlpipe.checkpoint.component import Component
from rlpipe.checkpoint.manifest import Manifest, TieMember
from rlpipe.errors import IntegrityError, listed
from rlpipe.snapshot.selection import Selection, torn_apart
from rlpipe.snapshot.snapshot import Snapshot, are_apart, below, entry_of, tied, walk
from rlpipe.snapshot.state import arrays

Infos: TypeAlias = dict[str, dict[str, ArrayInfo]]
"""Component path -> array key -> stand-in; tied arrays share one."""


@dataclass(frozen=True)
class TreeTies:
    """The ties of a whole tree.

    Attributes:
        inner: Component path -> groups of its own array keys that are one array.
        outer: Component path -> ties between different components at or below it, one key of each.
    """

    inner: Mapping[str, tuple[tuple[str, ...], ...]]
    outer: Mapping[str, tuple[tuple[TieMember, ...], ...]]


def tree_ties(snapshot: Snapshot) -> TreeTies:
    """The ties of a snapshot and of everything in it.

    A component lists each tie that joins different ones of its children, or a child with itself, so that a directory
    copied away takes along what it needs.
    """
    return ties_of({path: arrays(part.state) for path, part in walk(snapshot)})


def ties_of(parts: Mapping[str, Mapping[str, Any]]) -> TreeTies:
    """The ties of a tree whose arrays are given: component path -> array key -> array."""
    if are_apart([array for found in parts.values() for array in found.values()]):
        return TreeTies({}, {})
    inner: dict[str, list[tuple[str, ...]]] = {}
    outer: dict[str, list[tuple[TieMember, ...]]] = {}
    for group in tied({(path, key): array for path, found in parts.items() for key, array in found.items()}):
        by_component: dict[str, list[str]] = {}
        for path, key in group:
            by_component.setdefault(path, []).append(key)
        for path, keys in by_component.items():
            if len(keys) > 1:
                inner.setdefault(path, []).append(tuple(keys))
        firsts = {path: min(keys) for path, keys in by_component.items()}
        for above, tie in _joined(firsts):
            outer.setdefault(above, []).append(tie)
    return TreeTies(
        {path: tuple(groups) for path, groups in inner.items()},
        {path: tuple(sorted(found)) for path, found in outer.items()},
    )


def _joined(firsts: Mapping[str, str]) -> Iterator[tuple[str, tuple[TieMember, ...]]]:
    """Each component in whose children, or itself, a tie has at least two members, with the tie as it sees it."""
    for above in sorted({head for path in firsts for head in _heads(path)}):
        prefix = f"{above}/" if above else ""
        inside = {path: key for path, key in firsts.items() if path == above or path.startswith(prefix)}
        tie = tuple(TieMember(path.removeprefix(above).lstrip("/"), inside[path]) for path in sorted(inside))
        if len({member.component.partition("/")[0] for member in tie}) > 1:
            yield above, tie


def _heads(path: str) -> list[str]:
    """The path and all above it, the root's "" included."""
    names = path.split("/") if path else []
    return ["/".join(names[:depth]) for depth in range(len(names) + 1)]


def shared_infos(root: Component, arrays: Literal["described", "placed"]) -> Infos:
    """Stand-ins for all arrays of the opened components, one for each set of tied ones; placed ones can be read.

    Raises:
        IntegrityError: A manifest lists a tie between arrays that differ, or are not there.
    """
    is_placed = arrays == "placed"
    infos = {each.path: each.manifest.infos(each.directory if is_placed else "") for each in root.walk()}
    share(root, infos)
    return infos


def share(root: Component, found: Mapping[str, dict[str, Any]]) -> None:
    """Make what is tied across components one.

    Args:
        root: The components that were opened.
        found: Component path -> array key -> array, or stand-in; what is tied is replaced by one of its set.

    Raises:
        IntegrityError: A manifest lists a tie between arrays that differ, or are not there.
    """
    components = root.walk()
    tying = [each for each in components if each.manifest.ties]
    opened = {each.path: each.manifest for each in components} if tying else {}
    for above in tying:
        for tie in above.manifest.ties:
            named = _places(above, tie)
            places = [place for place in named if place[0] in opened]
            lost = [place for place in named if not _is_listed(place[0], opened)]
            _require_same(
                [*(_described(opened[path], key) for path, key in places), *(None for _ in lost)], named, above
            )
            for path, key in places[1:]:
                one, old = found[places[0][0]][places[0][1]], found[path][key]
                found[path].update({other: one for other, value in found[path].items() if value is old})


def _is_listed(path: str, opened: Mapping[str, Manifest]) -> bool:
    """Whether a component is there, as far as the opened manifests on the way to it tell."""
    while path and path not in opened:
        path, _, name = path.rpartition("/")
        if path in opened:
            return name in opened[path].children
    return path in opened


def _described(manifest: Manifest, key: str) -> tuple[Any, ...] | None:
    extent = manifest.table.extents.get(key)
    return None if extent is None else (extent.dtype, extent.shape, manifest.digests[key])


def _require_same(found: Sequence[Any], places: Sequence[tuple[str, str]], above: Component) -> None:
    if len(set(found)) > 1 or None in found:
        raise IntegrityError(
            f"{above.directory} lists a tie between arrays that are not the same",
            expected="one array under several names",
            found=listed(below(path, key) for path, key in places),
            fix="take another copy of the checkpoint",
        )


def _places(above: Component, tie: tuple[TieMember, ...]) -> list[tuple[str, str]]:
    """Path of the component, from the root that was opened, and array key there."""
    paths = ["/".join(filter(None, (above.path, member.component))) for member in tie]
    return [(path, member.key) for path, member in zip(paths, tie, strict=True)]


def refuse_ties_to_unread(root: Component, selection: Selection) -> None:
    """Check that no selected array is tied to one in a component that was not opened; `select` sees the other ties.

    Raises:
        TieError: One is; it names the partners.
    """
    opened = {each.path: each for each in root.walk()}
    torn = []
    for above in root.walk():
        for tie in above.manifest.ties:
            places = _places(above, tie)
            inside = [below(*place) for place in places if place[0] in opened and _takes(selection, opened, *place)]
            outside = [below(*place) for place in places if place[0] not in opened]
            if inside and outside:
                torn.append(f"{listed(inside)} with {listed(outside)}")
    if torn:
        raise torn_apart(torn)


def _takes(selection: Selection, opened: Mapping[str, Component], path: str, key: str) -> bool:
    roles = opened[path].manifest.roles
    entry = entry_of(key, roles)
    return selection.takes_component(path) and entry in roles and selection.takes_entry(entry, roles[entry])
