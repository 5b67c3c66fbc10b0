"""From a checkpoint directory to a snapshot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from rlpipe.backends.array_reader import read_all_arrays
from rlpipe.backends.remote import Url, in_store
from rlpipe.checkpoint.attachments import require_sound
from rlpipe.checkpoint.component import Component, open_manifest, open_tree
from rlpipe.checkpoint.directory import locate
from rlpipe.checkpoint.filling import loaded, placed
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.steady import steadily
from rlpipe.checkpoint.ties import refuse_ties_to_unread, share, shared_infos
from rlpipe.errors import IntegrityError, SelectionError
from rlpipe.snapshot.selection import Selection, require_matches, select
from rlpipe.snapshot.snapshot import Snapshot, below, walk
from rlpipe.snapshot.state import Array, map_arrays

When: TypeAlias = Literal["verify", "later", "none"]

_ALL = Selection()


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of one component.

    Args:
        path: Its directory.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        ManifestError: The manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
    """
    return steadily(path, open_manifest)[0]


def read_checkpoint(path: str | os.PathLike[str], selection: Selection = _ALL, *, arrays: When = "verify") -> Snapshot:
    """Read a checkpoint, or a part of it.

    Only the manifests on the path to selected components are opened, and only the array files of selected ones; of an
    array file that is needed in part, only that part is read. Hashes of all that is read are checked.

    Args:
        path: A checkpoint's directory, or that of any component in one.
        selection: What to read. Component paths count from `path`.
        arrays: "verify" reads them. "none" opens no array file: an `ArrayInfo` stands for each array. So does "later",
            with which `build` and `restore_into` read from the files, straight into an object's memory; from a store
            they come at once.

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
    return steadily(path, lambda directory: _read(directory, selection, arrays))


def _read(path: Place, selection: Selection, arrays: When) -> Snapshot:
    if isinstance(path, Url) and arrays == "later":
        arrays = "verify"  # Looking at the bytes first and reading them then would be two downloads.
    if selection == _ALL and arrays == "verify":
        root = open_tree(path)
        parts = root.walk()
        read = in_store(_read_component, parts) if isinstance(path, Url) else map(_read_component, parts)
        found = {each.path: arrays for each, arrays in zip(parts, read, strict=True)}
        share(root, found)
        return _snapshot(root, found)
    root = open_tree(path, selection.passes_through)
    _require_components(root, selection)
    infos = shared_infos(root, "described" if arrays == "none" else "placed")
    if selection.ties == "keep":
        refuse_ties_to_unread(root, selection)
    described = _snapshot(root, infos)
    if selection != _ALL:
        described = select(described, selection)
    return _with_arrays(described) if arrays == "verify" else described


def read_own(path: str | os.PathLike[str], *, arrays: When = "verify") -> Snapshot:
    """Read one component without what is in it; no manifest below it is opened.

    Args:
        path: Its directory.
        arrays: See `read_checkpoint`.

    Raises:
        CheckpointError: See `read_checkpoint`.
    """

    def read(directory: Place) -> Snapshot:
        alone = open_tree(directory, lambda _: False)
        described = _snapshot(alone, shared_infos(alone, "described" if arrays == "none" else "placed"))
        return _with_arrays(described) if arrays == "verify" else described

    return steadily(path, read)


def find_component(path: str | os.PathLike[str], names: str) -> Place:
    """The directory of a component inside a checkpoint.

    Args:
        path: The checkpoint's directory.
        names: The component's path from there, such as "policies/p1".

    Raises:
        SelectionError: A manifest on the way does not list it; the closest names are given.
        CheckpointNotFoundError: There is no checkpoint at the path.
    """
    place = place_of(path)
    directory = place if isinstance(place, Url) else locate(place)
    for name in names.split("/") if names else ():
        children = open_manifest(directory)[0].children
        if name not in children:
            raise SelectionError(f"{directory} has no component {name!r}", pattern=name, known=children)
        directory = directory / name
    return directory


def find_attachment(path: str | os.PathLike[str], names: str, attachment: str) -> Place:
    """A file that travels with a component, after a look at every byte of it.

    Args:
        path: The checkpoint's directory.
        names: The component's path from there, such as "policies/p1"; "" for the checkpoint itself.
        attachment: The file's path from the component's directory, such as "model/onnx/policy.onnx".

    Raises:
        SelectionError: There is no such component, or its manifest does not list the file; the closest are given.
        CheckpointNotFoundError: There is no checkpoint at the path.
        IntegrityError: The file is missing, or not as it was.
    """

    def find(_: Place) -> Place:
        directory = find_component(path, names)
        known = open_manifest(directory)[0].attachments
        if attachment not in known:
            raise SelectionError(f"{directory} has no attachment {attachment!r}", pattern=attachment, known=known)
        return require_sound(str(directory), attachment, known[attachment])

    return steadily(path, find)


def _require_components(root: Component, selection: Selection) -> None:
    known = {below(each.path, name) for each in root.walk() for name in each.manifest.children}
    require_matches(selection.components, known, "component")


def _snapshot(component: Component, found: Mapping[str, dict[str, Any]]) -> Snapshot:
    """The snapshot with these arrays, or stand-ins; a component of which not all children were opened is not whole."""
    manifest, inside, is_whole = component.manifest, component.children, component.has_all_children
    if is_whole:
        _require_identity(component)
    return Snapshot.unchecked(
        manifest.spec,
        manifest.state(found[component.path]),
        manifest.roles,
        {name: _snapshot(child, found) for name, child in inside.items()} if inside else {},
        manifest.metadata,
        whole=is_whole,
    )


def _require_identity(component: Component) -> None:
    """Check the stored identity of a component that has all its children at hand."""
    manifest = component.manifest
    found = manifest.identity([child.manifest for _, child in sorted(component.children.items())])
    if found != (manifest.content_hash, manifest.inference_hash):
        raise IntegrityError(
            f"{component.directory} says it is another policy than the one it holds",
            expected=f"content {manifest.content_hash[:12]}, inference {manifest.inference_hash[:12]}",
            found=f"content {found[0][:12]}, inference {found[1][:12]}",
            fix="take another copy of the checkpoint",
        )


def _read_component(component: Component) -> dict[str, Array]:
    """All arrays of a component, by key; those of one place are one."""
    manifest, table = component.manifest, component.manifest.table
    if table.file is None:
        return {}
    found = read_all_arrays(component.directory, table.file, manifest.digests)
    for key, first in table.tied.items():
        found[key] = found[first]
    return found


def _with_arrays(described: Snapshot) -> Snapshot:
    waiting = {id(each): each for _, part in walk(described) for each in placed(part.state)}
    return _filled(described, loaded(waiting.values()))


def _filled(described: Snapshot, loaded: Mapping[int, Array]) -> Snapshot:
    return replace(
        described,
        state={name: map_arrays(value, lambda info: loaded[id(info)]) for name, value in described.state.items()},
        children={name: _filled(child, loaded) for name, child in described.children.items()},
    )
