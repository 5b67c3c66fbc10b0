"""How a checkpoint comes to be in a store, where nothing can be renamed: at a new path, its root's manifest last.

    stage    the whole checkpoint is written to a temporary directory of this machine (TMPDIR), as by any save
    claim    a small file at the path, which only one writer can create where the store knows "if it is not there yet"
    files    array files first, then manifests from the inside out
    commit   the root's manifest; before it, what lies there is no checkpoint for any reader
    killed   the claim and some files stay; the path is refused from then on

A store replaces files one by one, so that a reader would meet files of both: nothing is ever replaced there.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlpipe.backends.remote import Url, in_store
from rlpipe.checkpoint.directory import IfExists
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.errors import CheckpointError, CheckpointExistsError, ConfigError, listed

CLAIM_NAME = ".rlpipe-claim"


@contextmanager
def uploaded(url: Url, *, if_exists: IfExists) -> Iterator[Path]:
    """A directory of this machine to fill with a checkpoint; what is in it goes to the store at the end of the block.

    Args:
        url: The path in the store.
        if_exists: Only "error".

    Yields:
        The directory.

    Raises:
        ConfigError: `if_exists` is "replace".
        CheckpointExistsError: There is something at the path, or another process writes there.
        CheckpointError: The store cannot be reached, or refuses. What was uploaded is removed again, where that can be.
    """
    if if_exists == "replace":
        raise ConfigError(
            f"{url} lies in a store, where no checkpoint can be replaced in one step",
            expected="checkpoint.if_exists=error, and a new path for each checkpoint",
            found="checkpoint.if_exists=replace",
            fix="write to a new path, and choose with source.which=latest",
        )
    if url.holds_files():
        raise _used(url)
    try:
        with tempfile.TemporaryDirectory(prefix="rlpipe-") as folder:
            yield Path(folder)
            _upload(Path(folder), url)
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"the checkpoint {url} was not written",
            expected="a store, and a temporary directory here (TMPDIR), that can be written",
            found=str(error),
        ) from error


def _upload(folder: Path, url: Url) -> None:
    claim = _claim(url)
    done: list[Url] = []
    try:
        _require_alone(claim)
        for group in _in_order(folder):
            in_store(lambda name: _put(folder, url, name, done), group)
    except BaseException:
        _remove(*done, claim)
        raise
    _commit(folder, url)
    _remove(claim)


def _remove(*places: Url) -> None:
    """Remove what can be removed; the rest says nothing to readers."""
    for each in places:
        with suppress(FileNotFoundError, CheckpointError):
            each.remove()


def _claim(url: Url) -> Url:
    claim = url / CLAIM_NAME
    try:
        claim.create(secrets.token_hex(16).encode())
    except FileExistsError:
        raise CheckpointExistsError(
            f"another process writes to {url}, or died while it did",
            expected="one writer to a path",
            found=f"{claim}",
            fix="let one process write (rank 0 of a job), or choose another path",
        ) from None
    except FileNotFoundError:
        raise CheckpointError(
            f"nothing can be written to {url}",
            expected="a bucket, or the like, that exists",
            found="none",
            fix="make it, or check its name",
        ) from None
    return claim


def _require_alone(claim: Url) -> None:
    """Another writer may have been done between the first look and the claim."""
    if any(each != claim and each.holds_files() for each in claim.parent.iterdir()):
        raise _used(claim.parent)


def _used(url: Url) -> CheckpointExistsError:
    if (url / MANIFEST_NAME).is_file():
        found = "a checkpoint"
    else:
        found = "a file" if url.is_file() else f"a folder with {listed(each.name for each in url.iterdir())}"
    return CheckpointExistsError(
        f"there is something at {url}",
        expected="a path where nothing is",
        found=found,
        fix="choose another path: in a store nothing is replaced",
    )


def _in_order(folder: Path) -> Iterator[list[str]]:
    """Names of the files, grouped: all but manifests, then manifests from the inside out, without the root's."""
    names = [each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()]
    manifests = [name for name in names if name.endswith(f"/{MANIFEST_NAME}")]
    yield sorted(set(names) - {*manifests, MANIFEST_NAME})
    for depth in sorted({name.count("/") for name in manifests}, reverse=True):
        yield sorted(name for name in manifests if name.count("/") == depth)


def _put(folder: Path, url: Url, name: str, done: list[Url]) -> None:
    place = url / name
    done.append(place)
    place.upload(str(folder / name))


def _commit(folder: Path, url: Url) -> None:
    root = url / MANIFEST_NAME
    try:
        root.create((folder / MANIFEST_NAME).read_bytes())
    except FileExistsError:
        raise CheckpointExistsError(
            f"another process wrote {url} meanwhile",
            expected="the path as it was when this save began",
            found="another checkpoint, whose files may be mixed with those of this save",
            fix="verify it (task=verify), let one process write to a path, and save to another one",
        ) from None
