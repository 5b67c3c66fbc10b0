"""From a checkpoint directory to a snapshot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rlpipe.backends.extents import read_all_arrays, read_arrays
from rlpipe.checkpoint.component import Component, open_manifest, open_tree
from rlpipe.checkpoint.directory import locate
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.steady import steadily
from rlpipe.checkpoint.ties import Infos, refuse_ties_to_unread, shared_infos
from rlpipe.errors import IntegrityError, SelectionError
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.identity import ArrayIdentity, hash_state
from rlpipe.snapshot.selection import Selection, require_matches, select
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, below, walk
from rlpipe.snapshot.state import Array, arrays, map_arrays

_ALL = Selection()
_ACTING: tuple[Role, ...] = ("inference",)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of one component.

    Args:
        path: Its directory.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        ManifestError: The manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
    """
    return steadily(Path(path), open_manifest)[0]


def read_checkpoint(
    path: str | os.PathLike[str], selection: Selection = _ALL, *, arrays: Literal["verify", "none"] = "verify"
) -> Snapshot:
    """Read a checkpoint, or a part of it.

    Only the manifests on the path to selected components are opened, and only the array files of selected ones; of an
    array file that is needed in part, only that part is read. Hashes of all that is read are checked.

    Args:
        path: A checkpoint's directory, or that of any component in one.
        selection: What to read. Component paths count from `path`.
        arrays: "verify" reads them. "none" opens no array file: an `ArrayInfo` stands for each array.

    Returns:
        The selected part. Arrays are read-only, in native byte order; what was tied when it was saved is one array.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at the path.
        ManifestError: A manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
        IntegrityError: Bytes that were read are not the ones that were saved, or a selected component is missing.
        SelectionError: A pattern of the selection matches nothing.
        TieError: Only some members of a tied set are selected.
    """
    return steadily(Path(path), lambda directory: _read(directory, selection, arrays))


def _read(path: Path, selection: Selection, arrays: Literal["verify", "none"]) -> Snapshot:
    root = open_tree(path, selection.passes_through)
    _require_components(root, selection)
    infos = shared_infos(root)
    if selection.ties == "keep":
        refuse_ties_to_unread(root, selection)
    described = _described(root, infos)
    if selection != _ALL:
        described = select(described, selection)
    return described if arrays == "none" else _with_arrays(described, root)


def find_component(path: str | os.PathLike[str], names: str) -> Path:
    """The directory of a component inside a checkpoint.

    Args:
        path: The checkpoint's directory.
        names: The component's path from there, such as "policies/p1".

    Raises:
        SelectionError: A manifest on the way does not list it; the closest names are given.
        CheckpointNotFoundError: There is no checkpoint at the path.
    """
    directory = locate(Path(path))
    for name in names.split("/") if names else ():
        children = open_manifest(directory)[0].children
        if name not in children:
            raise SelectionError(f"{directory} has no component {name!r}", pattern=name, known=children)
        directory = directory / name
    return directory


def _require_components(root: Component, selection: Selection) -> None:
    known = {below(each.path, name) for each in root.walk() for name in each.manifest.children}
    require_matches(selection.components, known, "component")


def _described(component: Component, infos: Infos) -> Snapshot:
    """The snapshot with stand-ins for arrays; a component of which not all children were opened is not whole."""
    manifest = component.manifest
    children = {name: _described(child, infos) for name, child in component.children.items()}
    found = infos[component.path]
    snapshot = Snapshot(
        manifest.spec, manifest.state(found), manifest.roles, children, manifest.metadata, component.has_all_children
    )
    _require_hashes(component, snapshot)
    return snapshot


def _require_hashes(component: Component, described: Snapshot) -> None:
    """Check the stored identity, where the identities of all children are at hand."""
    if not component.has_all_children:
        return
    manifest = component.manifest
    identities = {
        key: ArrayIdentity(logical_name(info.dtype), info.shape, info.digest) for key, info in manifest.infos().items()
    }
    content = {name: child.manifest.content_hash for name, child in component.children.items()}
    inference = {name: child.manifest.inference_hash for name, child in component.children.items()}
    part = (described.spec, described.state, described.roles, identities)
    found = hash_state(*part, content, counted=ROLES), hash_state(*part, inference, counted=_ACTING)
    if found != (manifest.content_hash, manifest.inference_hash):
        raise IntegrityError(
            f"{component.directory} says it is another policy than the one it holds",
            expected=f"content {manifest.content_hash[:12]}, inference {manifest.inference_hash[:12]}",
            found=f"content {found[0][:12]}, inference {found[1][:12]}",
            fix="take another copy of the checkpoint",
        )


def _with_arrays(described: Snapshot, root: Component) -> Snapshot:
    opened = {each.path: each for each in root.walk()}
    loaded: dict[int, Array] = {}
    for path, part in walk(described):
        _load(part, opened[path], loaded)
    return _filled(described, loaded)


def _load(part: Snapshot, component: Component, loaded: dict[int, Array]) -> None:
    """Read the arrays that this part describes, under the identity of their stand-ins."""
    infos = arrays(part.state)
    manifest = component.manifest
    if manifest.file is None or not infos:
        return
    stored = {key: manifest.aliases.get(key, key) for key in infos}
    wanted = [manifest.extents[key] for key in sorted(set(stored.values()))]
    read = read_all_arrays if len(wanted) == len(manifest.extents) else read_arrays
    found = read(component.directory, manifest.file.record, wanted)
    for key, info in infos.items():
        loaded.setdefault(id(info), found[stored[key]])


def _filled(described: Snapshot, loaded: Mapping[int, Array]) -> Snapshot:
    return replace(
        described,
        state={name: map_arrays(value, lambda info: loaded[id(info)]) for name, value in described.state.items()},
        children={name: _filled(child, loaded) for name, child in described.children.items()},
    )
