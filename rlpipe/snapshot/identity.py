"""Who a snapshot is: hashes over what it computes, the same for every backend and every way of storing it.

The hash of a component is SHA-256 over one canonical JSON text: its spec's class and config, its plain entries, the
sorted [key, dtype, shape, xxh3-128 of the little-endian bytes] of its arrays, and the hashes of its children by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as json_text
from typing import Any, NamedTuple

import numpy as np
import xxhash

from rlpipe.snapshot.dtypes import DTYPES, logical_name, storage_dtype
from rlpipe.snapshot.skeleton import Json, take_apart
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import Array, State, arrays

FINGERPRINT_DIGITS = 12


class ArrayIdentity(NamedTuple):
    """What an array adds to a hash: dtype name, shape, and xxh3-128 of its little-endian bytes in hex."""

    dtype: str
    shape: tuple[int, ...]
    digest: str


def stored(array: Array) -> Array:
    """The array as its bytes are stored: C order, little endian, bfloat16 and float8 as unsigned integers."""
    contiguous = array if array.flags.c_contiguous else np.asarray(array, order="C")
    if contiguous.dtype in STORED_AS_THEY_ARE:
        return contiguous
    raw = storage_dtype(logical_name(array.dtype))
    return contiguous.view(raw) if raw.kind != contiguous.dtype.kind else contiguous.astype(raw)


STORED_AS_THEY_ARE = frozenset(dtype for name, dtype in DTYPES.items() if dtype == storage_dtype(name))
"""Dtypes whose numbers have the same bytes in memory and in a file."""

digest_of: Callable[[Any], str] = xxhash.xxh3_128_hexdigest
"""xxh3-128 in hex of bytes, such as those of an array of `stored`."""


def identify(array: Array) -> ArrayIdentity:
    """What an array adds to a hash."""
    return ArrayIdentity(logical_name(array.dtype), tuple(array.shape), digest_of(stored(array)))


def array_row(key: str, dtype: str, shape: Iterable[int]) -> str:
    """The text that an array adds to a hash, up to the digits of its digest and the closing quote and bracket."""
    return f'[{json_text(key)},"{dtype}",[{",".join(map(str, shape))}],"'


def hash_frame(identity: str, plain: Mapping[str, Json], rows: Iterable[str], children: Iterable[str]) -> list[str]:
    """The text that the hash of a component is over, cut where a digest or the hash of a child is to stand.

    Args:
        identity: What it is (see `Spec.identity`).
        plain: Entry key -> typed JSON, of the entries that are no array (see `take_apart`).
        rows: `array_row` of each array, sorted by key.
        children: The names of its children, sorted.
    """
    # In JSON there is no NUL.
    table = ",".join([f'{row}\0"]' for row in rows])
    inside = ",".join([f'{json_text(name)}:"\0"' for name in children])
    entries = canonical_json(plain)
    return f'{{"arrays":[{table}],"children":{{{inside}}},"entries":{entries},"spec":{identity}}}'.split("\0")


def hash_of(frame: Sequence[str], hashes: Sequence[str]) -> str:
    """The hash of a component.

    Args:
        frame: Its text (see `hash_frame`).
        hashes: What stands in it: the digest of each array, then the hash of each child, in their orders.

    Returns:
        SHA-256 in hex.
    """
    text = [""] * (2 * len(frame) - 1)
    text[::2] = frame
    text[1::2] = hashes
    return hashlib.sha256("".join(text).encode()).hexdigest()


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
    plain = {key: json for key, json in take_apart(state).plain.items() if roles[key] in counted}
    kept = {key: each for key, each in sorted(identities.items()) if roles[entry_of(key, roles)] in counted}
    rows = [array_row(key, each.dtype, each.shape) for key, each in kept.items()]
    digests = [each.digest for each in kept.values()]
    inside = dict(sorted(children.items()))
    return hash_of(hash_frame(spec.identity(), plain, rows, inside), [*digests, *inside.values()])


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
