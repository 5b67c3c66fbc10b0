"""What a manifest says, as typed values, and its text.

One manifest describes one component: what it is (spec), its state but for the arrays' bytes (typed JSON of what is no
array, a table of what is one), hashes of every byte, and the hash of each child's manifest. It never says the
component's own name or place, so that a component can be copied away. Only a root's manifest has an origin: time and
provenance.

A manifest has one text: JSON in ASCII, a field a line in the order of `FIELDS`, in long fields a member a line. Equal
manifests are equal text. The hash of a manifest is SHA-256 over that text up to the last field, which is the hash
itself; line endings count as those of Unix, whatever a copy has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import compress
from json.encoder import encode_basestring_ascii as json_text
from typing import Any, NamedTuple

from rlpipe.backends.extents import Extent
from rlpipe.checkpoint.array_info import ArrayInfo, StoredArray
from rlpipe.checkpoint.attachments import Attachment
from rlpipe.checkpoint.format import FORMAT, VERSION
from rlpipe.checkpoint.strict_json import MAX_VALUES, excess
from rlpipe.checkpoint.table import Table
from rlpipe.snapshot.dtypes import dtype_of
from rlpipe.snapshot.identity import hash_frame, hash_of
from rlpipe.snapshot.skeleton import Json, put_together
from rlpipe.snapshot.snapshot import Role, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import State, nested

FIELDS = (
    *("format", "version", "spec", "metadata", "origin", "children", "ties", "attachments"),
    *("entries", "file", "xxh3"),
    *("content_hash", "inference_hash", "manifest_hash"),
)
HEADS = tuple(f'{"," if index else "{"}\n"{name}":' for index, name in enumerate(FIELDS))
"""What stands before the value of each field."""

_TEXT = "".join(head + "%s" for head in HEADS[:-1])
"""A manifest but for its values and its seal."""

_REMEMBERED = 2**16
"""Frames out of texts of at most this length are kept for the next component of the same architecture."""

_SEAL = HEADS[-1] + '"{}"\n}}\n'


class TieMember(NamedTuple):
    """One of several arrays that were one in memory.

    Attributes:
        component: Path of its component, from the component whose manifest lists the tie; "" is that one itself.
        key: Its array key there.
    """

    component: str
    key: str


class Plain(NamedTuple):
    """An entry that is no array.

    Attributes:
        role: Its role.
        json: Its typed JSON (see `rlpipe.snapshot.skeleton`).
    """

    role: Role
    json: Json


@dataclass(frozen=True, slots=True)
class Origin:
    """When and how a checkpoint came to be.

    Attributes:
        created: UTC, as 2026-01-31T12:00:00.123456Z.
        provenance: Plain JSON about the run that wrote it.
    """

    created: str
    provenance: Mapping[str, Json]


class Frames(NamedTuple):
    """What the identity of a component is made of, but for the digests of its arrays and the hashes of its children.

    Attributes:
        whole: Of the content hash (see `hash_frame`).
        acting: Of the inference hash; the same one if all that is its own acts.
        acts: Which arrays count in it.
    """

    whole: Sequence[str]
    acting: Sequence[str]
    acts: Sequence[bool]

    def hashes(self, digests: Iterable[str], children: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """The content and the inference hash.

        Args:
            digests: The digest of each array, in the order of the table.
            children: Both hashes of each child, sorted by name.
        """
        own = [*digests]
        content, inference = zip(*children, strict=True) if children else ((), ())
        whole = hash_of(self.whole, [*own, *content])
        if self.acting is self.whole and content == inference:
            return whole, whole
        return whole, hash_of(self.acting, [*compress(own, self.acts), *inference])


@dataclass(frozen=True)
class Manifest:
    """What the manifest of one component says.

    Attributes:
        spec: What the component is.
        plain: Entry key -> entry, of those that are no array.
        table: Its arrays but for their numbers.
        digests: Array key -> xxh3-128 of the array's bytes in hex, in the order of the table.
        children: Name of each component inside -> hash of its manifest.
        ties: Arrays of different components that were one, each tie sorted.
        metadata: Plain JSON for people and reports.
        content_hash: See `rlpipe.snapshot.content_hash`.
        inference_hash: See `rlpipe.snapshot.inference_hash`.
        origin: Of a root; None in a child.
        attachments: Path from the component's directory -> file that travels with it (see `attachments`).
        version: The format version that it was written in.
    """

    spec: Spec
    plain: Mapping[str, Plain]
    table: Table
    digests: Mapping[str, str]
    children: Mapping[str, str]
    ties: tuple[tuple[TieMember, ...], ...]
    metadata: Mapping[str, Json]
    content_hash: str
    inference_hash: str
    origin: Origin | None = None
    attachments: Mapping[str, Attachment] = field(default_factory=dict)
    version: int = VERSION

    @cached_property
    def roles(self) -> dict[str, Role]:
        """Entry key -> role."""
        return roles_of(self.plain, self.table)

    def role_of(self, array_key: str) -> Role:
        """The role of the entry that an array is, or lies in."""
        return self.table.roles[array_key]

    def infos(self, directory: str = "") -> dict[str, ArrayInfo]:
        """Array key -> stand-in; the keys of one array share it. With its directory, stand-ins know their place."""
        tied = self.table.tied
        found = {key: self._info(each, directory) for key, each in self.table.extents.items() if key not in tied}
        return found | {key: found[first] for key, first in tied.items()}

    def _info(self, extent: Extent, directory: str) -> ArrayInfo:
        about = (dtype_of(extent.dtype), extent.shape, self.digests[extent.key])
        file = self.table.file if directory else None
        return ArrayInfo(*about) if file is None else StoredArray(*about, directory, file, extent)

    def state(self, arrays: Mapping[str, Any]) -> State:
        """The component's state with these arrays, or stand-ins, in it."""
        nesting = self.table.nesting
        if self.plain or nesting is None:
            return put_together(arrays, {key: entry.json for key, entry in self.plain.items()})
        return nested(nesting, arrays)

    @cached_property
    def frames(self) -> Frames:
        """What the identity is made of but for hashes."""
        return frames_of(self.spec, self.plain, self.table, self.children)

    def identity(self, children: Iterable[Manifest]) -> tuple[str, str]:
        """The content and the inference hash that follow from what it says, and its children say, sorted by name."""
        inside = [(each.content_hash, each.inference_hash) for each in children]
        return self.frames.hashes(self.digests.values(), inside)

    def text(self) -> str:
        """Its text in the version of today, the seal left out (see `seal`)."""
        return _TEXT % (
            json_text(FORMAT),
            str(VERSION),
            self.spec.text(),
            canonical_json(self.metadata),
            "null" if self.origin is None else _origin_text(self.origin),
            _object_text(self.children, json_text),
            canonical_json(self.ties) if self.ties else "[]",
            _object_text(self.attachments, canonical_json),
            _object_text(self.plain, canonical_json),
            self.table.text,
            '[\n"' + '",\n"'.join(self.digests.values()) + '"\n]' if self.digests else "[]",
            f'"{self.content_hash}"',
            f'"{self.inference_hash}"',
        )


def roles_of(plain: Mapping[str, Plain], table: Table) -> dict[str, Role]:
    """Entry key -> role, of all entries of a component."""
    if not plain:
        return dict(table.roles)
    alone = {key: role for key, role in table.roles.items() if entry_of(key, plain) not in plain}
    return alone | {key: entry.role for key, entry in plain.items()}


def identity_of(
    spec: Spec,
    plain: Mapping[str, Plain],
    table: Table,
    digests: Mapping[str, str],
    children: Mapping[str, tuple[str, str]],
) -> tuple[str, str]:
    """The content and the inference hash of a component; `children` has those of each child by name, sorted."""
    identity = spec.identity()
    if plain or children or len(identity) + len(table.text) > _REMEMBERED:
        frames = frames_of(spec, plain, table, children)
    else:
        frames = _frames_of_arrays(identity, table)
    return frames.hashes(digests.values(), [*children.values()])


@lru_cache(maxsize=64)
def _frames_of_arrays(identity: str, table: Table) -> Frames:
    """The frames of a component that has nothing but arrays, made once for all policies of one architecture."""
    return _frames(identity, {}, table, [])


def frames_of(spec: Spec, plain: Mapping[str, Plain], table: Table, children: Iterable[str]) -> Frames:
    """What the identity of a component with these children is made of, but for hashes."""
    return _frames(spec.identity(), plain, table, sorted(children))


def _frames(identity: str, plain: Mapping[str, Plain], table: Table, names: Sequence[str]) -> Frames:
    acts = [role == "inference" for role in table.roles.values()]
    entries = {key: entry.json for key, entry in plain.items()}
    acting = {key: entry.json for key, entry in plain.items() if entry.role == "inference"}
    whole = hash_frame(identity, entries, table.rows, names)
    if all(acts) and len(acting) == len(plain):
        return Frames(whole, whole, acts)
    return Frames(whole, hash_frame(identity, acting, compress(table.rows, acts), names), acts)


def table_place(text: str) -> tuple[int, int]:
    """Where the value of the field `file` starts and ends in a text.

    It is looked for from the end, where nothing but hashes stands behind it; a text that has no such place, or means
    to confuse, gets one that no reading of the fields in their order will confirm.
    """
    end = text.rfind(_AFTER_TABLE)
    return text.rfind(_BEFORE_TABLE, 0, max(end, 0)) + len(_BEFORE_TABLE), end


def excess_of(text: str) -> str:
    """How many values a text holds, if they are too many to be parsed; else "". Its table has a limit of its own."""
    if len(text) <= MAX_VALUES:  # so that no part of it is looked for in a small one
        return ""
    start, end = table_place(text)
    return excess(text[:start] + text[end:])


_BEFORE_TABLE, _AFTER_TABLE = (HEADS[FIELDS.index(name)] for name in ("file", "xxh3"))


def seal(text: str) -> tuple[str, str]:
    """A whole manifest out of its text, and its hash."""
    digest = _hash(text)
    return text + _SEAL.format(digest), digest


def broken_seal(text: str) -> str:
    """What is wrong with the hash at the end of a whole manifest, or ""."""
    # Cut as bytes, as a copy of a long text is one too many.
    if text.endswith(_SEAL.format(hashlib.sha256(memoryview(text.encode())[:-_SEAL_LENGTH]).hexdigest())):
        return ""
    end = text[-_SEAL_LENGTH:]
    return (
        "a file that was changed"
        if end == _SEAL.format(end[-68:-4])
        else "a file that was cut, extended or written anew"
    )


_SEAL_LENGTH = len(_SEAL.format("0" * 64))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _object_text(members: Mapping[str, Any], text_of: Callable[[Any], str]) -> str:
    """An object with a member a line, sorted."""
    if not members:
        return "{}"
    lines = [f"{json_text(name)}:{text_of(members[name])}" for name in sorted(members)]
    return "{\n" + ",\n".join(lines) + "\n}"


def _origin_text(origin: Origin) -> str:
    return canonical_json({"created": origin.created, "provenance": dict(origin.provenance)})
