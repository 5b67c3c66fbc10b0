"""Who a snapshot is: hashes over what it computes, the same for every backend and every way of storing it.

The hash of a component is SHA-256 over one canonical JSON text: its spec's identity, the plain entries, the sorted
(key, dtype, shape, xxh3-128 of the little-endian bytes) of its arrays, and the hashes of its children by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import xxhash

from rlpipe.snapshot.dtypes import logical_name, storage_dtype
from rlpipe.snapshot.skeleton import Json, skeleton
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import Array, State, arrays, entries

FINGERPRINT_DIGITS = 12


class ArrayIdentity(NamedTuple):
    """What an array adds to a hash: dtype name, shape, and xxh3-128 of its little-endian bytes in hex."""

    dtype: str
    shape: tuple[int, ...]
    digest: str


def stored(array: Array) -> Array:
    """The array as its bytes are stored: C order, little endian, bfloat16 and float8 as unsigned integers."""
    raw = storage_dtype(logical_name(array.dtype))
    contiguous = np.asarray(array, order="C")
    return contiguous.view(raw) if raw.kind != contiguous.dtype.kind else contiguous.astype(raw, copy=False)


def identify(array: Array) -> ArrayIdentity:
    """What an array adds to a hash."""
    raw = stored(array)
    digest = xxhash.xxh3_128_hexdigest(raw.reshape(-1).view(np.uint8).data if raw.size else b"")
    return ArrayIdentity(logical_name(array.dtype), tuple(array.shape), digest)


def hash_component(
    spec: Spec, plain: Mapping[str, Json], identities: Mapping[str, ArrayIdentity], children: Mapping[str, str]
) -> str:
    """The hash of a component from its parts.

    Args:
        spec: What it is.
        plain: Entry key -> typed JSON of the entry (see `skeleton`).
        identities: Array key -> identity, of the arrays in those entries.
        children: Name -> hash of the child.

    Returns:
        SHA-256 in hex.
    """
    text = canonical_json(
        {
            "spec": spec.identity(),
            "entries": dict(plain),
            "arrays": [
                [key, value.dtype, list(value.shape), value.digest] for key, value in sorted(identities.items())
            ],
            "children": dict(children),
        }
    )
    return hashlib.sha256(text.encode()).hexdigest()


def hash_state(
    spec: Spec,
    state: State,
    roles: Mapping[str, Role],
    identities: Mapping[str, ArrayIdentity],
    children: Mapping[str, str],
    *,
    counted: Collection[Role],
) -> str:
    """The hash of a component over the entries with one of the counted roles; a state may hold stand-ins for arrays."""
    plain = {key: _json(value) for key, value in entries(state).items() if roles[key] in counted}
    kept = {key: value for key, value in identities.items() if roles[entry_of(key, roles)] in counted}
    return hash_component(spec, plain, kept, children)


def _json(value: Any) -> Json:
    return skeleton({"entry": value})["dict"]["entry"]


def content_hash(snapshot: Snapshot) -> str:
    """SHA-256 in hex over everything but metadata and options."""
    return _hash(snapshot, ROLES)


def inference_hash(snapshot: Snapshot) -> str:
    """SHA-256 in hex over what acts: equal for a full policy, its slim form, and the foreign original."""
    return _hash(snapshot, ROLES[:1])


def _hash(snapshot: Snapshot, counted: Collection[Role]) -> str:
    identities = {key: identify(array) for key, array in arrays(snapshot.state).items()}
    children = {name: _hash(child, counted) for name, child in snapshot.children.items()}
    return hash_state(snapshot.spec, snapshot.state, snapshot.roles, identities, children, counted=counted)


def fingerprint(snapshot: Snapshot) -> str:
    """The first 12 hex digits of the inference hash, as printed and stored everywhere."""
    return inference_hash(snapshot)[:FINGERPRINT_DIGITS]
