"""The files of an RLlib checkpoint as plain values: pickles, torch files, msgpack and JSON; nothing in them is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.msgpack_file import read_msgpack
from rlpipe.importers.restricted.archive import is_zip
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import load_file
from rlpipe.importers.restricted.torch_file import read_torch

PICKLE, MSGPACK = "pickle", "msgpack"
_ENDINGS = ((".pkl", PICKLE), (".msgpack", MSGPACK), (".msgpck", MSGPACK), (".pt", PICKLE))
_MOST_JSON = 2**20
_AGAIN = "copy the checkpoint again, or save it again with RLlib"


def state_file(folder: Path, stem: str) -> tuple[Path, str] | None:
    """A state file of a folder with its encoding, whichever RLlib wrote; None if there is none."""
    for ending, encoding in _ENDINGS:
        if (path := folder / f"{stem}{ending}").is_file():
            return path, encoding
    return None


def required_state(folder: Path, stem: str) -> tuple[Path, str]:
    """A state file of a folder with its encoding.

    Raises:
        ForeignFormatError: There is none.
    """
    found = state_file(folder, stem)
    if found is None:
        raise ForeignFormatError(
            f"{folder.name} has no state", expected=f"{stem}.pkl or {stem}.msgpack", found="neither", fix=_AGAIN
        )
    return found


def read_state(folder: Path, stem: str) -> Mapping[Any, Any]:
    """The dict in a state file of a folder.

    Raises:
        ForeignFormatError: There is no such file, or no dict in it.
        UnsafePayloadError: It is broken, or asks for more than plain values.
        MissingDependencyError: It is msgpack, and that package is not installed.
    """
    path, encoding = required_state(folder, stem)
    return _dict(_unpickled(path) if encoding == PICKLE else read_msgpack(path), path)


def read_pickle(path: Path) -> Mapping[Any, Any]:
    """The dict in a pickle, with inert stand-ins for everything that is no plain value.

    Raises:
        ForeignFormatError: There is no such file, or no dict in it.
        UnsafePayloadError: It is broken.
    """
    if not path.is_file():
        raise ForeignFormatError(
            f"{path.parent.name} has no {path.name}", expected=path.name, found="no such file", fix=_AGAIN
        )
    return _dict(load_file(path, known=KNOWN), path)


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; {} where there is no such file.

    Raises:
        ForeignFormatError: It is no JSON object, or absurdly large.
    """
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_MOST_JSON))
    except (ValueError, RecursionError) as error:
        raise ForeignFormatError(
            f"{path.name} is not readable", expected="JSON", found=str(error)[:200], fix=_AGAIN
        ) from None
    return _dict(found, path)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unpickled(path: Path) -> Any:
    """A pickle, or what torch.save wrote: a file called `.pt` was either over time."""
    with path.open("rb") as stream:
        is_torch = is_zip(stream.read(4))
    return read_torch(path.read_bytes(), subject=path.name) if is_torch else load_file(path, known=KNOWN)


def _dict(found: Any, path: Path) -> Mapping[Any, Any]:
    if type(found) is not dict:
        kind = type(found).__name__
        raise ForeignFormatError(f"{path.name} holds no dict", expected="a dict", found=f"a {kind}", fix=_AGAIN)
    return found
