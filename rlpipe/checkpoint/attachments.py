"""Files that travel with a component and are no part of its state, such as a policy exported for a robot.

They lie below `model/` in the component's directory, and its manifest lists each with its size and hash. Reading and
restoring never open them, and they are no part of what a policy is: the content and the inference hash do not know
them, the manifest's hash does. `verify` checks them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import xxhash

from rlpipe.backends.array_file import PIECE, Durability, write_all
from rlpipe.backends.ranges import damage, open_ranges
from rlpipe.backends.remote import is_url
from rlpipe.checkpoint.directory import sync_directory
from rlpipe.checkpoint.format import ATTACHMENTS, MAX_LISTED
from rlpipe.checkpoint.place import Place, place_of, size_of
from rlpipe.checkpoint.strict_json import MAX_INTEGER, Json, Strict
from rlpipe.errors import IdError, IntegrityError, UnsupportedStateError
from rlpipe.snapshot.ids import validate_file_paths
from rlpipe.snapshot.snapshot import Snapshot, component

_DIGEST_DIGITS = 32
_LARGEST_TEXT = 16 * 2**20


class Attachment(NamedTuple):
    """A file that travels with a component.

    Attributes:
        size: Its bytes.
        digest: xxh3-128 of them in hex.
    """

    size: int
    digest: str


def files_in(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """The files below a folder, which are to be attached.

    Returns:
        Path of each from the component's directory, such as "model/onnx/policy.onnx" -> where it is now; sorted.

    Raises:
        UnsupportedStateError: There is no folder, no file in it, or something that is neither file nor directory.
        IdError: A name that not every system can have.
    """
    root = Path(folder)
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found[f"{ATTACHMENTS}/{path.relative_to(root).as_posix()}"] = path
        elif not stat.S_ISDIR(mode):
            raise _not_attached(path, stat.filemode(mode))
    if not found:
        raise _not_attached(root, "a folder without files" if root.is_dir() else "no folder")
    if len(found) > MAX_LISTED:
        raise _not_attached(root, f"{len(found)} files, of which {MAX_LISTED} can be listed")
    validate_file_paths(found)
    return dict(sorted(found.items()))


def files_of(snapshot: Snapshot, folders: Mapping[str, str | os.PathLike[str]]) -> dict[str, Mapping[str, Path]]:
    """Component path -> the files to attach to it, out of component path -> folder.

    Raises:
        UnsupportedStateError: See `files_in`.
        IdError: See `files_in`.
        SelectionError: A component that is not in the snapshot.
    """
    for path in folders:
        component(snapshot, path)
    return {path: files_in(folder) for path, folder in folders.items()}


def _not_attached(path: Path, found: str) -> UnsupportedStateError:
    return UnsupportedStateError(
        f"{path} cannot be attached to a checkpoint",
        expected="a folder of regular files, in folders of their own or not",
        found=found,
        fix="give the folder that holds the files; copy what links lead to",
    )


def copy_in(directory: str, files: Mapping[str, Path], durability: Durability) -> dict[str, Attachment]:
    """Copy files into a component's directory.

    Args:
        directory: The directory, new.
        files: As `files_in` gives them.
        durability: "fsync": they are on the disk when this returns.

    Raises:
        OSError: The system cannot read or write one.
    """
    copied: dict[str, Attachment] = {}
    folders: list[str] = []
    for name, source in files.items():
        for above in reversed(Path(name).parents[:-1]):
            if above.as_posix() not in folders:
                folders.append(above.as_posix())
                os.mkdir(f"{directory}/{folders[-1]}")  # noqa: PTH102
        copied[name] = _copy(source, f"{directory}/{name}", durability)
    for folder in reversed(folders):
        sync_directory(f"{directory}/{folder}", durability=durability)
    return copied


def _copy(source: Path, target: str, durability: Durability) -> Attachment:
    digest, size = xxhash.xxh3_128(), 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with source.open("rb", buffering=0) as stream:
            while piece := stream.read(PIECE):
                digest.update(piece)
                write_all(descriptor, piece)
                size += len(piece)
        if durability == "fsync":
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Attachment(size, digest.hexdigest())


def parse_attachments(value: Json, strict: Strict) -> dict[str, Attachment]:
    """The field `attachments` of a manifest.

    Raises:
        ManifestError: It breaks the format.
    """
    members = strict.mapping(value, "attachments")
    if len(members) > MAX_LISTED:
        strict.fail("attachments", f"at most {MAX_LISTED} files", found=f"{len(members)}")
    if not members:
        return {}
    try:
        validate_file_paths(members)
    except IdError as error:
        strict.fail("attachments", "paths of files on every system", found=error.found)
    return {name: _attachment(name, pair, strict) for name, pair in members.items()}


def _attachment(name: str, value: Json, strict: Strict) -> Attachment:
    place = f"attachments.{name}"
    if not name.startswith(f"{ATTACHMENTS}/"):
        strict.fail("attachments", f"paths below {ATTACHMENTS}/", value=name)
    size, digest = strict.items(value, place, count=2)
    return Attachment(strict.integer(size, place, high=MAX_INTEGER), strict.digest(digest, place, _DIGEST_DIGITS))


def damaged_attachments(directory: str, attachments: Mapping[str, Attachment]) -> Iterator[tuple[str, str]]:
    """Read attachments in little memory: path and finding for each that is missing or not as it was."""
    for name, expected in sorted(attachments.items()):
        try:
            require_sound(directory, name, expected)
        except IntegrityError as error:
            yield (
                name,
                f"expected {error.expected}, found {error.found}"
                + ("" if error.fix == error.usual_fix else f"; {error.fix}"),
            )


def require_sound(directory: str, name: str, expected: Attachment) -> Place:
    """The place of an attachment, after a look at every byte of it.

    A text in which git put the line endings of Windows counts as it was.

    Raises:
        IntegrityError: It is missing, or not as it was.
    """
    place = f"{directory}/{name}"
    try:
        with open_ranges(place, expected.size) as ranges:
            found = ranges.digest(0, expected.size)
        if found != expected.digest:
            raise damage(place, "other bytes")
    except IntegrityError:
        if not _is_rewritten(place_of(place), expected):
            raise
    return place_of(place)


def _is_rewritten(place: Place, expected: Attachment) -> bool:
    # Each line feed becomes two bytes. No text is as large as models are.
    if not place.is_file() or not expected.size < size_of(place) <= min(2 * expected.size, _LARGEST_TEXT):
        return False
    data = place.read_bytes()
    text = data.replace(b"\r\n", b"\n")
    return b"\0" not in data and (len(text), xxhash.xxh3_128_hexdigest(text)) == expected


def unlisted_attachments(directory: str, attachments: Mapping[str, Attachment]) -> list[str]:
    """Paths of files below `model/` that the manifest does not list, sorted; a store is not asked."""
    if is_url(directory):
        return []
    folder = Path(directory, ATTACHMENTS)
    if not folder.is_dir():
        return []
    found = (each.relative_to(directory).as_posix() for each in folder.rglob("*") if not each.is_dir())
    return sorted(set(found) - attachments.keys())
