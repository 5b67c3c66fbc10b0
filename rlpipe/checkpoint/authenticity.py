r"""One number for all of a checkpoint, to be compared with a value that comes from elsewhere.

The hashes in a manifest say that nothing was damaged. They do not say who made it: whoever changes the arrays can write
fitting manifests. For that there is this number, kept apart from the checkpoint: in a release note, a database, a
signed message.

It is SHA-256 over the lines that `sha256sum` prints for the files of the checkpoint, sorted by path as bytes. In its
directory, where nothing else lies there, this gives the same:

    find * -type f | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum

Files are the manifests, and the array files and attachments that they list; what else lies there does not count. Line
endings of manifests count as those of Unix. So copies of one checkpoint agree, wherever they lie, whatever their
directory is called, and after git rewrote line endings. Two saves do not agree, even of equal policies: the time of the
save is part of the root's manifest. What compares policies is `content_hash` and `inference_hash`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.component import Component, open_tree
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.refusals import reason
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import ConfigError, IntegrityError
from rlpipe.snapshot.snapshot import below


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 over everything in a checkpoint, as this module defines it.

    Args:
        path: A checkpoint's directory, or that of any component in one; what lies above it does not count.

    Returns:
        64 hex digits.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at the path.
        ManifestError: A manifest breaks the format.
        FormatVersionError: It was written by a newer rlpipe.
        IntegrityError: A listed component or file is missing, or cannot be read.
    """
    return steadily(path, _sha256)


def _sha256(directory: Place) -> str:
    lines = [f"{digest}  {name}\n" for name, digest in sorted(_files(open_tree(directory)))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def require_sha256(value: str) -> str:
    """The value in lower case, if it is a SHA-256.

    Raises:
        ConfigError: It is none.
    """
    text = value.strip().lower()
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise ConfigError("this is no SHA-256", expected="64 hex digits", found=repr(value)[:80])
    return text


def _files(root: Component) -> Iterator[tuple[str, str]]:
    """Path of each file from the root, and its SHA-256."""
    for each in root.walk():
        place = place_of(each.directory)
        text = (place / MANIFEST_NAME).read_bytes().replace(b"\r\n", b"\n")
        yield below(each.path, MANIFEST_NAME), hashlib.sha256(text).hexdigest()
        file = each.manifest.table.file
        for name in [*each.manifest.attachments, *([] if file is None else [file.name])]:
            yield below(each.path, name), _hash(place / name)


def _hash(path: Place) -> str:
    try:
        if not path.is_file():
            raise FileNotFoundError(f"no regular file at {path}")
        with path.open() if isinstance(path, Url) else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise IntegrityError(
            f"{path} is damaged", expected="the file that its manifest lists", found=reason(error)
        ) from error
