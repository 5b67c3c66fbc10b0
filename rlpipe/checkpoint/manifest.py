"""What a manifest says, as typed values, and its JSON.

One manifest describes one component: what it is (spec), its state but for the arrays' bytes (typed JSON), where each
array lies in the array file, hashes of every byte, and the hash of each child's manifest. It never says the component's
own name or place, so that a component can be copied away. Only a root's manifest has an origin: time and provenance.

The JSON has one form only (see `seal`): equal manifests are equal text. The hash of a manifest is SHA-256 over that
text up to the last field, which is the hash itself; line endings count as those of Unix, whatever a copy has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlpipe.backends.extents import Extent, FileRecord
from rlpipe.checkpoint.array_info import ArrayInfo
from rlpipe.checkpoint.format import FORMAT, VERSION
from rlpipe.snapshot.dtypes import dtype_of
from rlpipe.snapshot.skeleton import Json, from_skeleton
from rlpipe.snapshot.snapshot import Role, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import State

_SEAL = ',\n"manifest_hash":"{}"\n}}\n'
_ONE_LINE_EACH = frozenset({"arrays", "children", "entries"})


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """The array file of a component.

    Attributes:
        backend: Id of the backend that wrote it.
        record: Its name, size and hashes.
    """

    backend: str
    record: FileRecord


class TieMember(NamedTuple):
    """One of several arrays that were one in memory.

    Attributes:
        component: Path of its component, from the component whose manifest lists the tie; "" is that one itself.
        key: Its array key there.
    """

    component: str
    key: str


@dataclass(frozen=True, slots=True)
class Origin:
    """When and how a checkpoint came to be.

    Attributes:
        created: UTC, as 2026-01-31T12:00:00.123456Z.
        provenance: Plain JSON about the run that wrote it.
    """

    created: str
    provenance: Mapping[str, Json]


@dataclass(frozen=True)
class Manifest:
    """What the manifest of one component says.

    Attributes:
        spec: What the component is.
        skeleton: Its state as typed JSON, arrays left out (see `rlpipe.snapshot.skeleton`).
        roles: Entry key -> role.
        extents: Key -> place in the file, for each stored array.
        aliases: Further keys of those arrays -> the key that they are stored under.
        file: The array file; None without arrays.
        children: Name of each component inside -> hash of its manifest.
        ties: Arrays of different components that were one, each tie sorted.
        metadata: Plain JSON for people and reports.
        content_hash: See `rlpipe.snapshot.content_hash`.
        inference_hash: See `rlpipe.snapshot.inference_hash`.
        origin: Of a root; None in a child.
    """

    spec: Spec
    skeleton: Json
    roles: Mapping[str, Role]
    extents: Mapping[str, Extent]
    aliases: Mapping[str, str]
    file: ArrayFile | None
    children: Mapping[str, str]
    ties: tuple[tuple[TieMember, ...], ...]
    metadata: Mapping[str, Json]
    content_hash: str
    inference_hash: str
    origin: Origin | None = None

    def infos(self) -> dict[str, ArrayInfo]:
        """Array key -> stand-in; the keys of one array share it."""
        found = {key: _info(extent) for key, extent in self.extents.items()}
        return found | {alias: found[key] for alias, key in self.aliases.items()}

    def role_of(self, array_key: str) -> Role:
        """The role of the entry that an array is, or lies in."""
        return self.roles[entry_of(array_key, self.roles)]

    def state(self, arrays: Mapping[str, Any]) -> State:
        """The component's state with these arrays, or stand-ins, in it."""
        return from_skeleton(self.skeleton, arrays)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON, the manifest's own hash left out."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "spec": self.spec.to_json(),
            "state": self.skeleton,
            "entries": self._plain_roles(),
            "arrays": self._arrays_json(),
            "file": None if self.file is None else _file_json(self.file),
            "children": dict(self.children),
            "ties": [[list(member) for member in tie] for tie in self.ties],
            "metadata": dict(self.metadata),
            "content_hash": self.content_hash,
            "inference_hash": self.inference_hash,
            "origin": None if self.origin is None else _origin_json(self.origin),
        }

    def _plain_roles(self) -> dict[str, Role]:
        """Roles of the entries that are no arrays; an array's stands beside it."""
        keys = self.roles.keys() - self.extents.keys() - self.aliases.keys()
        return {key: self.roles[key] for key in keys}

    def _arrays_json(self) -> dict[str, Json]:
        stored = {key: {**_extent_json(extent), "role": self.role_of(key)} for key, extent in self.extents.items()}
        tied = {alias: {"alias": key, "role": self.role_of(alias)} for alias, key in self.aliases.items()}
        return stored | tied


def seal(fields: Mapping[str, Json]) -> tuple[str, str]:
    """The one text of a manifest, and its hash.

    A field a line, sorted, in long fields a member a line; ASCII; the hash last.
    """
    lines = (f"{canonical_json(name)}:{_field_text(name, value)}" for name, value in sorted(fields.items()))
    body = "{\n" + ",\n".join(lines)
    digest = _hash(body)
    return body + _SEAL.format(digest), digest


def broken_seal(text: str) -> str:
    """What is wrong with the hash at the end of a text, or ""."""
    length = len(_SEAL.format("0" * 64))
    body, end = text[:-length], text[-length:]
    if end == _SEAL.format(_hash(body)):
        return ""
    is_seal = end == _SEAL.format(end[-68:-4])
    return "a file that was changed" if is_seal else "a file that was cut, extended or written anew"


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _field_text(name: str, value: Json) -> str:
    if name not in _ONE_LINE_EACH or not value or not isinstance(value, dict):
        return canonical_json(value)
    return "{\n" + ",\n".join(f"{canonical_json(key)}:{canonical_json(value[key])}" for key in sorted(value)) + "\n}"


def _info(extent: Extent) -> ArrayInfo:
    return ArrayInfo(dtype_of(extent.dtype), extent.shape, extent.digest)


def _extent_json(extent: Extent) -> dict[str, Json]:
    return {
        "dtype": extent.dtype,
        "shape": list(extent.shape),
        "offset": extent.offset,
        "length": extent.length,
        "xxh3": extent.digest,
    }


def _file_json(file: ArrayFile) -> Json:
    record = file.record
    return {
        "backend": file.backend,
        "name": record.name,
        "size": record.size,
        "piece_size": record.piece_size,
        "pieces": list(record.pieces),
    }


def _origin_json(origin: Origin) -> Json:
    return {"created": origin.created, "provenance": dict(origin.provenance)}
