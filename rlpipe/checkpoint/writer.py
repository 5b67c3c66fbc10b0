"""From a snapshot to a checkpoint directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rlpipe.backends.backend import Backend, Block, block, resolve
from rlpipe.backends.extents import Extent, FileRecord
from rlpipe.backends.image import PIECE_SIZE, write_image
from rlpipe.checkpoint.directory import IfExists, staged, sync_directory, write_text
from rlpipe.checkpoint.fit import require_read
from rlpipe.checkpoint.format import MANIFEST_NAME, MAX_MANIFEST_SIZE
from rlpipe.checkpoint.manifest import ArrayFile, Manifest, Origin, seal
from rlpipe.checkpoint.strict_json import Json, excess, require_plain
from rlpipe.checkpoint.ties import TreeTies, tree_ties
from rlpipe.errors import ManifestError, UnsupportedStateError
from rlpipe.snapshot.identity import ArrayIdentity, hash_state, identify
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.skeleton import from_skeleton, skeleton
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, below, entry_of, walk
from rlpipe.snapshot.state import arrays

_ACTING: tuple[Role, ...] = ("inference",)


@dataclass(frozen=True, slots=True)
class _Written:
    """What a parent remembers of a child."""

    manifest_hash: str
    content_hash: str
    inference_hash: str


def write_checkpoint(
    snapshot: Snapshot,
    path: str | os.PathLike[str],
    *,
    backend: str = "hdf5",
    if_exists: IfExists = "error",
    provenance: Mapping[str, Json] | None = None,
) -> Path:
    """Write a snapshot as a checkpoint directory, whole or not at all.

    Arrays are written from where they lie. What could not be read back is refused before anything is written.

    Args:
        snapshot: What is written, with everything in it. Equal snapshots give equal bytes, but for the root's origin.
        path: The directory to make; its parents are made too.
        backend: "hdf5" or "pickle".
        if_exists: "replace" lets it take the place of an older checkpoint, in one step.
        provenance: Plain JSON about this run, kept in the root's manifest only.

    Returns:
        The path.

    Raises:
        CheckpointExistsError: There is something at the path.
        CheckpointError: The system cannot write there.
        UnsupportedStateError: A state that no checkpoint, or not this backend, can hold.
        ManifestError: A spec, metadata or provenance that is not plain JSON.
        IdError: A component's name cannot name a directory.
    """
    array_files = resolve(backend)
    origin = Origin(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), dict(provenance or {}))
    require_plain(origin.provenance, "provenance")
    for component_path, part in walk(snapshot):
        _require_storable(part, component_path)
    require_read(snapshot)
    tied = tree_ties(snapshot)
    with staged(Path(path), if_exists=if_exists) as stage:
        _TreeWriter(array_files, tied).write(snapshot, stage, "", origin)
    return Path(path)


def _require_storable(part: Snapshot, path: str) -> None:
    where = path or "the root"
    validate_ids(part.children, kind="component")
    require_plain(part.spec.to_json(), f"{where}, spec")
    require_plain(part.metadata, f"{where}, metadata")
    try:
        from_skeleton(skeleton(part.state), arrays(part.state))
    except (ManifestError, RecursionError) as error:
        raise UnsupportedStateError(f"the state of {where} cannot be read back", found=str(error)) from error


@dataclass(frozen=True, slots=True)
class _TreeWriter:
    backend: Backend
    tied: TreeTies

    def write(self, part: Snapshot, directory: Path, path: str, origin: Origin | None) -> _Written:
        """Fill a component's directory, its children first; it is on the disk when this returns."""
        children: dict[str, _Written] = {}
        for name, child in sorted(part.children.items()):
            (directory / name).mkdir()
            children[name] = self.write(child, directory / name, below(path, name), None)
        identities = {key: identify(array) for key, array in arrays(part.state).items()}
        aliases = _aliases(part, self.tied.inner.get(path, ()))
        file, extents = self._write_arrays(part, directory, aliases, identities)
        content = {name: child.content_hash for name, child in children.items()}
        inference = {name: child.inference_hash for name, child in children.items()}
        manifest = Manifest(
            spec=part.spec,
            skeleton=skeleton(part.state),
            roles=part.roles,
            extents=extents,
            aliases=aliases,
            file=file,
            children={name: child.manifest_hash for name, child in children.items()},
            ties=self.tied.outer.get(path, ()),
            metadata=part.metadata,
            content_hash=hash_state(part.spec, part.state, part.roles, identities, content, counted=ROLES),
            inference_hash=hash_state(part.spec, part.state, part.roles, identities, inference, counted=_ACTING),
            origin=origin,
        )
        digest = _write_manifest(manifest, directory, path)
        sync_directory(directory)
        return _Written(digest, manifest.content_hash, manifest.inference_hash)

    def _write_arrays(
        self, part: Snapshot, directory: Path, aliases: Mapping[str, str], identities: Mapping[str, ArrayIdentity]
    ) -> tuple[ArrayFile | None, dict[str, Extent]]:
        blocks = _blocks(part, aliases)
        if not blocks:
            return None, {}
        image = self.backend.image(blocks)
        name = self.backend.file_name
        pieces = write_image(image, directory / name)
        extents = {
            key: Extent(key, identities[key].dtype, identities[key].shape, offset, identities[key].digest)
            for key, offset in image.offsets.items()
        }
        return ArrayFile(self.backend.id, FileRecord(name, image.size, PIECE_SIZE, pieces)), extents


def _aliases(part: Snapshot, groups: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Further key -> the key that the array is stored under: one of role inference, if there is one."""
    aliases: dict[str, str] = {}
    for group in groups:
        first = min(group, key=lambda key: (part.roles[entry_of(key, part.roles)], key))
        aliases |= {key: first for key in group if key != first}
    return aliases


def _blocks(part: Snapshot, aliases: Mapping[str, str]) -> list[Block]:
    further: dict[str, list[str]] = {}
    for alias, key in aliases.items():
        further.setdefault(key, []).append(alias)
    return [
        block(key, array, role=part.roles[entry_of(key, part.roles)], aliases=tuple(sorted(further.get(key, ()))))
        for key, array in arrays(part.state).items()
        if key not in aliases
    ]


def _write_manifest(manifest: Manifest, directory: Path, path: str) -> str:
    """Write the manifest; returns its hash."""
    text, digest = seal(manifest.to_json())
    found = f"{len(text)} bytes" if len(text) > MAX_MANIFEST_SIZE else excess(text)
    if found:
        raise UnsupportedStateError(
            f"what is no array in {path or 'the root'} is too much",
            expected=f"at most {MAX_MANIFEST_SIZE} bytes of plain values and metadata",
            found=found,
            fix="keep large bytes values as uint8 arrays, and long lists of numbers as arrays too",
        )
    write_text(directory / MANIFEST_NAME, text)
    return digest
