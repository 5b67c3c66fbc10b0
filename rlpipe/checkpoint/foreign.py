"""What lies in the directory of a checkpoint and is no part of it: whoever removes the checkpoint leaves it alone.

Notes, videos, a checkpoint of another run: no manifest lists them, so nobody but their owner knows what they are worth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.component import open_manifest, open_tree
from rlpipe.checkpoint.directory import is_manifest
from rlpipe.checkpoint.format import ATTACHMENTS, MANIFEST_NAME
from rlpipe.checkpoint.litter import is_litter
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.place import Place
from rlpipe.errors import CheckpointError, CheckpointExistsError, listed

_OWN = re.compile(r"manifest\.json$|state\.[a-z0-9]+$")


def foreign_in(place: Place) -> list[str]:
    """Paths below a checkpoint of what no save puts there, sorted.

    Below a manifest that cannot be read every component counts as a part, as nobody can tell.

    Raises:
        CheckpointError: Of a store: it does not answer, or a manifest there cannot be read.
    """
    return sorted(_in_store(place) if isinstance(place, Url) else _below(str(place), ""))


def refuse_to_lose(directory: Path) -> None:
    """Check that nothing else goes when a checkpoint is replaced.

    Raises:
        CheckpointExistsError: Something would.
    """
    if is_manifest(directory / MANIFEST_NAME) and (found := foreign_in(directory)):
        raise CheckpointExistsError(
            f"the checkpoint at {directory} is not replaced, as that would remove what else lies there",
            expected="nothing in its directory but the checkpoint",
            found=listed(found),
            fix="move that away, or choose another path",
        )


def unlisted_in(names: Collection[str], path: str, manifest: Manifest) -> list[str]:
    """What a component's manifest does not list, as `unlisted` and `unlisted_attachments` tell it of a directory.

    Args:
        names: Paths of all files from the root.
        path: Path of the component from there.
        manifest: What it lists.
    """
    inside = [name.removeprefix(f"{path}/") for name in names if not path or name.startswith(f"{path}/")]
    heads = {name.partition("/")[0] for name in inside if name.count("/") == 1 and name.endswith(f"/{MANIFEST_NAME}")}
    attached = {name for name in inside if name.startswith(f"{ATTACHMENTS}/")}
    return [*sorted(heads - manifest.children.keys() - {ATTACHMENTS}), *sorted(attached - manifest.attachments.keys())]


def _below(directory: str, inside: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as found:
            entries = {each.name: each.is_dir(follow_symlinks=False) for each in found}
    except FileNotFoundError:  # replaced meanwhile
        return
    folders = [name for name, is_folder in entries.items() if is_folder and not is_litter(Path(name))]
    yield from (inside + name for name, is_folder in entries.items() if not is_folder and not _OWN.match(name))
    if not folders:
        return
    children, attachments = _listed(directory, folders)
    for name in folders:
        if name == ATTACHMENTS:
            yield from (inside + each for each in _files(directory, name) if each not in attachments)
        elif name in children:
            yield from _below(f"{directory}/{name}", f"{inside}{name}/")
        else:
            yield inside + name


def _listed(directory: str, folders: Iterable[str]) -> tuple[Collection[str], Mapping[str, object]]:
    """Components and attachments of the manifest there."""
    try:
        manifest, _ = open_manifest(directory)
    except CheckpointError:
        parts = [name for name in folders if Path(directory, name, MANIFEST_NAME).is_file()]
        return parts, dict.fromkeys(_files(directory, ATTACHMENTS))
    return manifest.children.keys(), manifest.attachments


def _files(directory: str, name: str) -> list[str]:
    found = Path(directory, name).rglob("*")
    return [each.relative_to(directory).as_posix() for each in found if each.is_symlink() or not each.is_dir()]


def _in_store(place: Url) -> Iterator[str]:
    parts: set[str] = set()
    for each in open_tree(place).walk():
        prefix, file = f"{each.path}/" if each.path else "", each.manifest.table.file
        own = [MANIFEST_NAME, *([file.name] if file else []), *each.manifest.attachments]
        parts.update(prefix + name for name in own)
    # The claim of a writer that could not remove it.
    return (name for name in place.sizes_below() if name not in parts and not name.startswith(".rlpipe-"))
