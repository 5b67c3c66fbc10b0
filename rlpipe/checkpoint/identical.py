"""Policies that were meant to differ and do not: a pool of past selves that all hold the newest weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from rlpipe.checkpoint.inspect import ComponentInfo
from rlpipe.snapshot.snapshot import below

Weights: TypeAlias = frozenset[tuple[str, str, tuple[int, ...], str]]
"""Key, dtype, shape and hash of each array."""


def identical_policies(info: ComponentInfo) -> tuple[tuple[str, ...], ...]:
    """Groups of components side by side whose inference arrays are the same, by key, dtype, shape and bytes.

    Plain values such as counters, training arrays and specs may differ. Only manifests are looked at.

    Args:
        info: What `inspect_checkpoint` says.

    Returns:
        Paths from there, sorted, such as (("policies/main_v3", "policies/main_v4"),).
    """
    return tuple(sorted(group for each in info.walk() for group in _groups(each)))


def identical_notes(info: ComponentInfo) -> tuple[str, ...]:
    """The same as sentences, such as "policies/main_v3 = main_v4: identical weights"."""
    return tuple(map(identical_note, identical_policies(info)))


def identical_note(group: tuple[str, ...]) -> str:
    """The sentence of one group."""
    first, *others = group
    return " = ".join([first, *(path.rpartition("/")[2] for path in others)]) + ": identical weights"


def identical_among(info: ComponentInfo, paths: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """As `identical_policies`, of some components only."""
    groups = (tuple(path for path in group if path in paths) for group in identical_policies(info))
    return tuple(group for group in groups if len(group) > 1)


def _groups(above: ComponentInfo) -> Iterator[tuple[str, ...]]:
    found: dict[Weights, list[str]] = {}
    for name, child in sorted(above.children.items()):
        # Runners have the same weights on purpose; policies side by side do not.
        if name.endswith("_runner"):
            continue
        if weights := _weights(child, ""):
            found.setdefault(weights, []).append(child.path)
    yield from (tuple(paths) for paths in found.values() if len(paths) > 1)


def _weights(info: ComponentInfo, path: str) -> Weights:
    own = (
        (below(path, each.key), each.dtype, each.shape, each.digest) for each in info.arrays if each.role == "inference"
    )
    inside = (_weights(child, below(path, name)) for name, child in info.children.items())
    return frozenset(own).union(*inside)
