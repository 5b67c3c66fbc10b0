"""What a checkpoint holds, from its manifests alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlpipe.checkpoint.attachments import Attachment
from rlpipe.checkpoint.component import Component, open_tree, unlisted
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import listed
from rlpipe.snapshot.identity import FINGERPRINT_DIGITS
from rlpipe.snapshot.skeleton import Json
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """One array of a component.

    Attributes:
        key: Its array key.
        dtype: Name of its dtype.
        shape: Its shape.
        role: Its role.
        nbytes: Its bytes.
        digest: xxh3-128 of its bytes in hex.
        tied_to: The key that it is stored under; "" if that is its own.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    role: Role
    nbytes: int
    digest: str
    tied_to: str = ""


@dataclass(frozen=True)
class ComponentInfo:
    """What one component is and holds.

    Attributes:
        path: From the directory that was asked for; "" for itself.
        directory: Where it lies.
        version: Format version that it was written in.
        spec: What it is.
        arrays: Its arrays, sorted by key; a tied one under each of its keys.
        roles: Entry key -> role, entries without arrays included.
        backend: Id of the backend of its array file; None without arrays.
        file_size: Bytes of its array file.
        content_hash: Identity of all that it is.
        inference_hash: Identity of what acts in it.
        metadata: Plain JSON.
        children: Name -> component inside.
        ties: Full keys, from here, of arrays that are one across components.
        created: Of a root: when it was written, UTC; else None.
        provenance: Of a root: plain JSON about the run that wrote it; else empty.
        notes: What lies there and is not part of it.
        attachments: Path from the component's directory -> file that travels with it, such as an exported model.
    """

    path: str
    directory: Path
    version: int
    spec: Spec
    arrays: tuple[ArrayEntry, ...]
    roles: Mapping[str, Role]
    backend: str | None
    file_size: int
    content_hash: str
    inference_hash: str
    metadata: Mapping[str, Json]
    children: Mapping[str, ComponentInfo]
    ties: tuple[tuple[str, ...], ...]
    created: str | None
    provenance: Mapping[str, Json]
    notes: tuple[str, ...]
    attachments: Mapping[str, Attachment]

    @property
    def class_path(self) -> str:
        """Dotted path of its class."""
        return self.spec.class_path

    @property
    def fingerprint(self) -> str:
        """The first digits of the inference hash."""
        return self.inference_hash[:FINGERPRINT_DIGITS]

    def walk(self) -> Iterator[ComponentInfo]:
        """Itself and all below, parents first."""
        yield self
        for _, child in sorted(self.children.items()):
            yield from child.walk()


def inspect_checkpoint(path: str | os.PathLike[str]) -> ComponentInfo:
    """Describe a checkpoint; no array file is opened.

    Args:
        path: A checkpoint's directory, or that of any component in one.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at the path.
        ManifestError: A manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
        IntegrityError: A component is missing, or is not the one that its parent lists.
    """
    return steadily(Path(path), lambda directory: _info(open_tree(directory)))


def attachment_notes(info: ComponentInfo) -> tuple[str, ...]:
    """What a checkpoint that is written from this one lacks, a sentence for each component: see `write_checkpoint`."""
    return tuple(
        f"{each.path or 'the root'}: what is attached stays behind: {listed(each.attachments)}"
        for each in info.walk()
        if each.attachments
    )


def _info(component: Component) -> ComponentInfo:
    manifest = component.manifest
    table, origin = manifest.table, manifest.origin
    return ComponentInfo(
        path=component.path,
        directory=Path(component.directory),
        version=manifest.version,
        spec=manifest.spec,
        arrays=tuple(_entries(manifest)),
        roles=manifest.roles,
        backend=table.backend if table.file else None,
        file_size=table.file.size if table.file else 0,
        content_hash=manifest.content_hash,
        inference_hash=manifest.inference_hash,
        metadata=manifest.metadata,
        children={name: _info(child) for name, child in component.children.items()},
        ties=tuple(tuple("/".join(filter(None, (each.component, each.key))) for each in tie) for tie in manifest.ties),
        created=origin.created if origin else None,
        provenance=origin.provenance if origin else {},
        notes=tuple(f"{name} is not listed" for name in unlisted(component.directory, manifest)),
        attachments=manifest.attachments,
    )


def _entries(manifest: Manifest) -> Iterator[ArrayEntry]:
    table = manifest.table
    for key, each in table.extents.items():
        digest, tied_to = manifest.digests[key], table.tied.get(key, "")
        yield ArrayEntry(key, each.dtype, each.shape, table.roles[key], each.length, digest, tied_to)
