"""Opening a component's directory: its manifest, checked against what its parent remembers, and nothing else."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.format import ATTACHMENTS, MANIFEST_NAME, MAX_MANIFEST_SIZE
from rlpipe.checkpoint.litter import is_litter
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.manifest_parser import parse_manifest
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.refusals import reason
from rlpipe.errors import (
    CheckpointError,
    CheckpointExistsError,
    CheckpointNotFoundError,
    IntegrityError,
    ManifestError,
    listed,
)

logger = logging.getLogger(__name__)

_AT_ONCE = 2**16
_ENDS = (b"}\n", b"}\r\n")
"""How manifests end."""

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Component(NamedTuple):
    """A component whose manifest was read, and those inside that were asked for.

    Attributes:
        path: From the root that was opened; "" for itself.
        directory: Where it lies.
        manifest: What its manifest says.
        manifest_hash: The hash of its manifest.
        children: Name -> component inside; perhaps not all that the manifest lists.
    """

    path: str
    directory: str
    manifest: Manifest
    manifest_hash: str
    children: Mapping[str, Component] = MappingProxyType({})

    @property
    def has_all_children(self) -> bool:
        """Whether all components inside were opened."""
        return self.children.keys() == self.manifest.children.keys()

    def walk(self) -> list[Component]:
        """Itself and all opened below, parents first."""
        found = [self]
        for _, child in sorted(self.children.items()):
            found += child.walk() if child.children else (child,)
        return found


def open_tree(path: Place, wanted: Callable[[str], bool] = lambda _: True) -> Component:
    """The component at a path and the wanted ones below; no array file is opened.

    Args:
        path: The directory that holds a checkpoint, or any component in one (see `steadily`).
        wanted: Whether to go into the component at a path from there.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        ManifestError: A manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
        IntegrityError: A component is missing, or is not the one that its parent lists.
    """
    return _open_tree(str(path), "", wanted)


def _open_tree(directory: str, path: str, wanted: Callable[[str], bool], data: bytes | None = None) -> Component:
    manifest, digest = open_manifest(directory, data)
    children = _open_children(directory, path, manifest.children, wanted) if manifest.children else {}
    for name in unlisted(directory, manifest):
        logger.warning("%s/%s is not listed by the checkpoint around it and was ignored", directory, name)
    return Component(path, directory, manifest, digest, children)


def _open_children(
    directory: str, path: str, names: Mapping[str, str], wanted: Callable[[str], bool]
) -> dict[str, Component]:
    inside = {name: f"{path}/{name}" if path else name for name in sorted(names)}
    chosen = {name: place for name, place in inside.items() if wanted(place)}
    fetched = fetch_manifests(directory, chosen)
    return {
        name: _open_child(f"{directory}/{name}", place, names[name], wanted, fetched.get(name))
        for name, place in chosen.items()
    }


def fetch_manifests(directory: str, names: Collection[str]) -> Mapping[str, bytes]:
    """The manifests of components in a store, asked for at once; one that is missing here is asked for alone."""
    if "://" not in directory or len(names) < 2:
        return {}
    found = Url(directory).read_each([f"{name}/{MANIFEST_NAME}" for name in names], MAX_MANIFEST_SIZE)
    return {name.removesuffix(f"/{MANIFEST_NAME}"): data for name, data in found.items()}


def _open_child(
    directory: str, path: str, expected: str, wanted: Callable[[str], bool], data: bytes | None
) -> Component:
    try:
        child = _open_tree(directory, path, wanted, data)
    except CheckpointNotFoundError:
        require_present(directory, path)
        raise
    require_listed(child, expected)
    return child


def require_present(directory: str, path: str) -> None:
    """Check that a listed component is there.

    Raises:
        IntegrityError: It is not, or nobody may look.
    """
    file = place_of(directory) / MANIFEST_NAME
    try:
        is_there = file.is_file()
    except OSError as error:
        subject = f"the component {path} cannot be read" if path else f"{directory} cannot be read"
        raise IntegrityError(subject, expected="a readable directory", found=reason(error)) from error
    if not is_there:
        raise IntegrityError(
            f"the component {path} is missing",
            expected=f"{file}, as the manifest above lists it",
            found="a directory without it" if file.parent.is_dir() else "nothing",
            fix="take another copy of the checkpoint, or select the components that are there",
        )


def require_listed(child: Component, expected: str) -> None:
    """Check that a component is the one that its parent lists.

    Raises:
        IntegrityError: It is another one.
    """
    if child.manifest_hash != expected:
        raise IntegrityError(
            f"the component {child.path} is not the one that was saved here",
            expected=f"a manifest with hash {expected[:12]}",
            found=f"{child.directory}/{MANIFEST_NAME} with hash {child.manifest_hash[:12]}",
            fix="put the original back, or read that directory alone: it is a whole checkpoint",
        )


def open_manifest(directory: str | os.PathLike[str], data: bytes | None = None) -> tuple[Manifest, str]:
    """The manifest of a directory, and its hash.

    Args:
        directory: Where it lies.
        data: Its bytes, if they have been read already.

    Raises:
        CheckpointNotFoundError: There is none.
        ManifestError: It breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
    """
    file = f"{directory}/{MANIFEST_NAME}"
    try:
        text = (_read(file) if data is None else data).decode("ascii")
    except (FileNotFoundError, NotADirectoryError):
        raise _not_found(place_of(directory)) from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"{file} is damaged", expected="ASCII text", found=str(error)) from None
    except OSError as error:
        raise ManifestError(f"{file} cannot be read", expected="a readable file", found=reason(error)) from error
    return parse_manifest(text, file)


def _read(file: str) -> bytes:
    return _read_remote(file) if "://" in file else _read_local(file)


def _read_remote(file: str) -> bytes:
    data = Url(file).read(0, MAX_MANIFEST_SIZE + 1)
    if len(data) > MAX_MANIFEST_SIZE:
        raise ManifestError(f"{file} is no manifest", expected=f"at most {MAX_MANIFEST_SIZE} bytes", found="more")
    return data


def _read_local(file: str) -> bytes:
    descriptor = os.open(file, _FLAGS)
    try:
        data = _read_at_once(descriptor)
        if data.endswith(_ENDS):
            return data
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_MANIFEST_SIZE:
            raise ManifestError(
                f"{file} is no manifest",
                expected=f"a regular file of at most {MAX_MANIFEST_SIZE} bytes",
                found=f"mode {stat.filemode(status.st_mode)}, {status.st_size} bytes",
            )
        data = os.read(descriptor, status.st_size)
        # A file that is cut or goes on is for the manifest's hash to tell.
        while len(data) < status.st_size and (more := os.read(descriptor, status.st_size - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _read_at_once(descriptor: int) -> bytes:
    """What the system gives of a file by one call, without a question about its kind and size; b"" if it gives none."""
    try:
        data = os.pread(descriptor, _AT_ONCE, 0) if hasattr(os, "pread") else b""
    except OSError:
        return b""
    return data if len(data) < _AT_ONCE else b""


def unlisted(directory: str, manifest: Manifest) -> list[str]:
    """Names of directories that look like components and that the manifest does not list.

    A store is not asked: it would cost a request for each component.
    """
    if "://" in directory:
        return []
    known = {*manifest.children, ATTACHMENTS} if manifest.attachments else manifest.children.keys()
    # Most file systems count a directory's links: its own two, and one from each directory in it. Asking that is ten
    # times as fast as listing it, and most components hold no others.
    if os.stat(directory).st_nlink == 2 + len(known):  # noqa: PTH116
        return []
    with os.scandir(directory) as found:
        names = sorted(each.name for each in found if each.name not in known and _is_directory(each))
    return [name for name in names if not is_litter(Path(name)) and Path(directory, name, MANIFEST_NAME).is_file()]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def refuse_part_of_another(path: Path) -> None:
    """Check that no checkpoint around a path lists what is there, as another one in its place would damage it.

    Args:
        path: A `real_path`.

    Raises:
        CheckpointExistsError: One does; the outermost is named.
    """
    outermost, above = path, path.parent
    while os.path.isfile(f"{above}/{MANIFEST_NAME}") and outermost.name in _listed_in(above):  # noqa: PTH113
        outermost, above = above, above.parent
    if outermost != path:
        raise CheckpointExistsError(
            f"{path} is a part of another checkpoint, which would be damaged",
            expected="a path outside of it",
            found=f"{path.relative_to(outermost).as_posix()}, a component that {outermost} lists",
            fix="write elsewhere; task=subset_restore puts a policy into a copy of a checkpoint",
        )


def _listed_in(directory: Path) -> Collection[str]:
    """Names of the components that a directory's manifest lists, if it can be read."""
    try:
        return open_manifest(directory)[0].children.keys()
    except CheckpointError:
        return ()


def _not_found(directory: Place) -> CheckpointNotFoundError:
    subject, found, fix = f"there is no checkpoint at {directory}", "nothing", "check the path"
    if directory.is_dir():
        try:
            inside = listed(each.name for each in directory.iterdir())
            is_half = is_half_written(directory)
        except PermissionError:
            inside, is_half = "what this user may not see", False
        found = f"a directory with {inside}" if inside else "an empty directory"
        if is_half:
            subject, fix = f"the checkpoint at {directory} is not whole", "take another copy, or save it again"
    elif directory.exists():
        found, fix = "a file", "give the directory of the checkpoint"
    return CheckpointNotFoundError(subject, expected=f"a directory with {MANIFEST_NAME}", found=found, fix=fix)


def lost_its_manifest(directory: Place) -> bool:
    """Whether what lies there is a checkpoint but for its manifest; a folder of checkpoints, each a root, is none."""
    inside: list[Place] = list(directory.iterdir())
    return any(each.name.startswith("state.") for each in inside) or any(map(_is_part, inside))


def _is_part(directory: Place) -> bool:
    try:
        return open_manifest(directory)[0].origin is None
    except CheckpointError:
        return False


def is_half_written(directory: Place) -> bool:
    """Whether what lies there is what a save leaves before its manifest."""
    inside: list[Place] = list(directory.iterdir())
    return any(each.name.startswith("state.") for each in inside) or any(
        (each / MANIFEST_NAME).is_file() for each in inside
    )
