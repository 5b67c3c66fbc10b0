"""What a save will write, made before anything is written: what could not be read back is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from rlpipe.backends.backend import Backend
from rlpipe.backends.layout import Layout
from rlpipe.checkpoint.array_info import ArrayInfo
from rlpipe.checkpoint.fit import not_read
from rlpipe.checkpoint.format import MAX_LISTED
from rlpipe.checkpoint.manifest import Plain, TieMember
from rlpipe.checkpoint.strict_json import Strict, plain_text
from rlpipe.checkpoint.table import NO_ARRAYS, LiveRow, Table, table_for, table_of
from rlpipe.checkpoint.ties import TreeTies, ties_of
from rlpipe.errors import UnsupportedStateError
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.skeleton import Parts, take_apart
from rlpipe.snapshot.snapshot import Role, Snapshot, below, entry_of, walk
from rlpipe.snapshot.state import Array


class Plan(NamedTuple):
    """What a save will write of one component.

    Attributes:
        part: The component.
        arrays: Array key -> array, for all its arrays.
        plain: Its entries that are no array.
        table: Its arrays but for their numbers.
        layout: Its array file but for the numbers; None without arrays.
        ties: Arrays of different components below it that are one.
    """

    part: Snapshot
    arrays: Mapping[str, Array]
    plain: Mapping[str, Plain]
    table: Table
    layout: Layout | None
    ties: tuple[tuple[TieMember, ...], ...]


def plans_of(snapshot: Snapshot, backend: Backend) -> dict[str, Plan]:
    """Component path -> plan, for everything in a snapshot.

    Raises:
        UnsupportedStateError: A state that no checkpoint, or not this backend, can hold.
        ManifestError: A spec or metadata that is not plain JSON.
        IdError: A component's name cannot name a directory.
    """
    found = list(walk(snapshot))
    for path, part in found:
        _require_names(part, path or "the root")
    # Not before: a component without a name has the path of the one around it.
    components = dict(found)
    parts = {path: _parts(part, path) for path, part in components.items()}
    ties = ties_of({path: each.arrays for path, each in parts.items()})
    return {path: _plan(part, path, parts[path], ties, backend) for path, part in components.items()}


def _parts(part: Snapshot, path: str) -> Parts:
    where = path or "the root"
    for value, name in ((part.spec.config, "spec"), (part.spec.options, "spec"), (part.metadata, "metadata")):
        if value:
            plain_text(value, f"{where}, {name}")
    try:
        parts = take_apart(part.state)
    except UnsupportedStateError as error:
        raise UnsupportedStateError(f"the state of {where} cannot be read back", found=str(error)) from error
    for key, array in parts.arrays.items():
        if type(array) is not ndarray and not _is_plain(array):
            raise not_read(below(path, key)) if isinstance(array, ArrayInfo) else _no_array(below(path, key), array)
    return parts


def _is_plain(array: object) -> bool:
    return isinstance(array, ndarray) and not isinstance(array, np.ma.MaskedArray)


def _require_names(part: Snapshot, where: str) -> None:
    if not part.children:
        return
    if len(part.children) > MAX_LISTED:
        raise UnsupportedStateError(
            f"{where} has too many components for one checkpoint",
            expected=f"at most {MAX_LISTED} side by side",
            found=f"{len(part.children)}",
            fix="part them into containers, or into several checkpoints",
        )
    validate_ids(part.children, kind="component")
    doubled = part.children.keys() & part.state.keys()
    if doubled:
        raise UnsupportedStateError(
            f"{where} has a component and an entry of the same name",
            expected="names apart",
            found=", ".join(sorted(doubled)),
            fix="rename one of them",
        )


def _no_array(key: str, value: object) -> UnsupportedStateError:
    return UnsupportedStateError(
        f"{key} cannot be kept in a checkpoint",
        expected="a numpy array or a plain value",
        found=f"{type(value).__module__}.{type(value).__qualname__}",
        fix="turn it into numbers, or leave it out of the state",
    )


def _plan(part: Snapshot, path: str, parts: Parts, ties: TreeTies, backend: Backend) -> Plan:
    plain = {key: Plain(part.roles[key], json) for key, json in parts.plain.items()}
    outer = ties.outer.get(path, ())
    if not parts.arrays:
        return Plan(part, {}, plain, table_of(NO_ARRAYS, Strict(path)), None, outer)
    tied = _tied(part, ties.inner[path]) if path in ties.inner else {}
    table, layout = table_for(backend, _rows(part.roles, parts.arrays, tied))
    return Plan(part, parts.arrays, plain, table, layout, outer)


def _tied(part: Snapshot, groups: tuple[tuple[str, ...], ...]) -> dict[str, str]:
    """Further key -> the key that the array is stored under: one of role inference, if there is one."""
    tied: dict[str, str] = {}
    for group in groups:
        first = min(group, key=lambda key: (part.roles[entry_of(key, part.roles)], key))
        tied |= {key: first for key in group if key != first}
    return tied


def _rows(roles: Mapping[str, Role], arrays: Mapping[str, Array], tied: Mapping[str, str]) -> tuple[LiveRow, ...]:
    return tuple(
        (key, array.dtype, array.shape, roles.get(key) or roles[entry_of(key, roles)], tied.get(key, ""))
        for key, array in arrays.items()
    )
