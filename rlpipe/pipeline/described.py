"""Snapshots without their arrays' bytes, and what they still say of who they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from rlpipe.checkpoint.array_info import ArrayInfo
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.identity import ArrayIdentity, hash_state, identify
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot
from rlpipe.snapshot.state import arrays, map_arrays


def described(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a description for each array, as a checkpoint's manifests alone would give it."""
    seen: dict[int, ArrayInfo] = {}

    def describe_once(array: Any) -> ArrayInfo:
        return seen.setdefault(id(array), _info(array))

    return _described(snapshot, describe_once)


def identity(snapshot: Snapshot) -> tuple[str, str]:
    """Content and inference hash of a snapshot; its arrays may be descriptions."""
    snapshot = described(snapshot)
    return _hash(snapshot, ROLES), _hash(snapshot, ROLES[:1])


def _described(part: Snapshot, function: Callable[[Any], ArrayInfo]) -> Snapshot:
    children = {name: _described(child, function) for name, child in part.children.items()}
    return replace(part, state=map_arrays(part.state, function), children=children)


def _hash(part: Snapshot, counted: tuple[Role, ...]) -> str:
    identities = {
        key: ArrayIdentity(logical_name(info.dtype), info.shape, cast("ArrayInfo", info).digest)
        for key, info in arrays(part.state).items()
    }
    children = {name: _hash(child, counted) for name, child in part.children.items()}
    return hash_state(part.spec, part.state, part.roles, identities, children, counted=counted)


def _info(array: Any) -> ArrayInfo:
    if isinstance(array, ArrayInfo):
        return array
    found = identify(array)
    return ArrayInfo(array.dtype, found.shape, found.digest)
