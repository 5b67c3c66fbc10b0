"""The zip that Stable-Baselines3 writes: which members it has, and what is read of them.

Layout: stable_baselines3/common/save_util.py. What is read is numbers, text and JSON; Python unpickles no member.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, UnsafePayloadError, listed
from rlpipe.importers.restricted.archive import Archive, is_zip
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import loads
from rlpipe.importers.restricted.torch_file import read_torch
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.state import Array

DATA, WEIGHTS, VARIABLES, VERSION = "data", "policy.pth", "pytorch_variables.pth", "_stable_baselines3_version"
COMPILED = "_orig_mod."
_MARKS = frozenset({DATA, WEIGHTS, VARIABLES, VERSION})
_TAKEN = frozenset({DATA, WEIGHTS, VERSION})
_PICKLED = ":serialized:"
_MAX_VALUES = 500_000
"""A JSON value takes up to a hundred times its bytes in memory."""


def is_saved_model(path: Path) -> bool:
    """Whether a file is a zip with at least two of the members that Stable-Baselines3 writes."""
    with path.open("rb") as stream:
        if not is_zip(stream.read(4)):
            return False
    try:
        return len(_MARKS & Archive(path, subject=path.name).names) >= 2
    except ForeignFormatError:
        return False
    except UnsafePayloadError:
        return True  # so that reading it says what is unsafe in it


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel:
    """What a zip holds, as far as a policy needs it.

    Attributes:
        name: Base name of the file.
        sha256: SHA-256 of the file, in hex.
        version: Version of Stable-Baselines3 that wrote it, or "unknown".
        data: The JSON of the algorithm's attributes; what JSON cannot hold is a pickle in base64 beside a text mirror.
        weights: The policy's state dict, float32 where it was of another float type.
        variables: Tensors of the algorithm itself, such as log_ent_coef.
        compiled: Whether torch.compile had put its name into the keys of the weights; it was taken out.
        skipped: (member, why it was not read).
    """

    name: str
    sha256: str
    version: str
    data: Mapping[str, Any]
    weights: Mapping[str, Array]
    variables: Mapping[str, Array]
    compiled: bool
    skipped: tuple[tuple[str, str], ...]

    @property
    def steps(self) -> int:
        """Steps of all environments together that the policy was trained for."""
        return self.whole("num_timesteps")

    def whole(self, field: str) -> int:
        """A positive whole number among the fields; 0 if there is none."""
        value = self.data.get(field)
        return value if type(value) is int and value > 0 else 0

    def mirror(self, field: str) -> Mapping[str, Any]:
        """The attributes of a field as JSON and text; {} for a field that is plain or absent."""
        value = self.data.get(field)
        return value if isinstance(value, dict) else {}

    def unpickled(self, field: str) -> Any:
        """The value of a field: plain JSON as it is, a pickle by the restricted reader; None if there is none.

        Raises:
            UnsafePayloadError: The pickle cannot be read safely, or is broken.
        """
        value = self.data.get(field)
        if not isinstance(value, dict) or _PICKLED not in value:
            return None if isinstance(value, dict) else value
        subject = f"the field {field} of {self.name}"
        try:
            raw = base64.b64decode(value[_PICKLED], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UnsafePayloadError(f"{subject} is not read", expected="base64", found="something else") from None
        return loads(raw, subject=subject, known=KNOWN)


def open_model(path: Path) -> SavedModel:
    """Read a zip of Stable-Baselines3.

    Raises:
        ForeignFormatError: A member is missing, damaged or not what it should be; it is named.
        UnsafePayloadError: A member asks for more than numbers.
    """
    if not path.is_file():
        raise ForeignFormatError(f"there is no file {path}", expected="a saved model", fix="check the path")
    archive = Archive(path, subject=path.name)
    if missing := sorted({DATA, WEIGHTS} - archive.names):
        raise ForeignFormatError(
            f"{path.name} has no member {listed(missing)}",
            expected=f"{DATA} (settings and spaces) and {WEIGHTS} (weights), as model.save() writes them",
            found=listed(archive.names),
            fix="save the model again with model.save(), without exclude=[...]",
        )
    tensors = _tensors(archive, WEIGHTS, path.name)
    variables = _tensors(archive, VARIABLES, path.name) if VARIABLES in archive.names else {}
    return SavedModel(
        name=path.name,
        sha256=sha256_of(path),
        version=_version(archive),
        data=_json(archive, path.name),
        weights=_weights(tensors, f"{WEIGHTS} in {path.name}"),
        variables=variables,
        compiled=any(COMPILED in key for key in tensors),
        skipped=tuple((name, _why_skipped(name)) for name in sorted(archive.names - _TAKEN - {VARIABLES})),
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _version(archive: Archive) -> str:
    if VERSION not in archive.names:
        return "unknown"
    return archive.read(VERSION)[:40].decode("ascii", "replace").strip() or "unknown"


def _json(archive: Archive, name: str) -> Mapping[str, Any]:
    raw = archive.read(DATA)
    values = sum(map(raw.count, b"[{,"))
    if values > _MAX_VALUES:
        raise UnsafePayloadError(
            f"the member {DATA} of {name} is not read",
            expected=f"settings of training, at most {_MAX_VALUES} values",
            found=f"about {values} values",
        )
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ForeignFormatError(
            f"the member {DATA} of {name} is not readable", expected="JSON", found=str(error)[:200]
        ) from None
    if not isinstance(data, dict):
        found = type(data).__name__
        raise ForeignFormatError(f"the member {DATA} of {name} is not readable", expected="an object", found=found)
    return data


def _tensors(archive: Archive, member: str, name: str) -> dict[str, Array]:
    subject = f"{member} in {name}"
    found = read_torch(archive.read(member), subject=subject)
    tensors = found if isinstance(found, dict) else {} if found is None else {"": found}
    strange = [f"{key!r}: {type(value).__name__}" for key, value in tensors.items() if not _is_tensor(key, value)]
    if strange:
        raise ForeignFormatError(
            f"{subject} is no state dict", expected="a name and a plain tensor in every place", found=listed(strange)
        )
    return tensors


def _is_tensor(key: object, value: object) -> bool:
    return isinstance(key, str) and isinstance(value, np.ndarray)


def _weights(tensors: Mapping[str, Array], subject: str) -> dict[str, Array]:
    """The weights without the name of torch.compile in their keys."""
    names: dict[str, list[str]] = {}
    for key in tensors:
        names.setdefault(key.replace(COMPILED, ""), []).append(key)
    if clashes := [" and ".join(sorted(keys)) for keys in names.values() if len(keys) > 1]:
        raise ForeignFormatError(
            f"{subject} has weights that are one by name",
            expected=f"each weight once, with or without {COMPILED}",
            found=listed(clashes),
            fix="save the model again, or take out the names that do not belong to it",
        )
    return {name: _as_float32(tensors[key]) for name, (key,) in names.items()}


def is_floating(array: Array) -> bool:
    """Whether the numbers are real floats of any width."""
    return logical_name(array.dtype).startswith(("float", "bfloat"))


def _as_float32(array: Array) -> Array:
    """Floats as float32, which is what Stable-Baselines3 itself makes of them when it loads a file."""
    return array.astype(np.float32) if is_floating(array) and array.dtype != np.float32 else array


def _why_skipped(member: str) -> str:
    if member.endswith("optimizer.pth"):
        return "state of an optimizer; only Stable-Baselines3 can train on with it"
    if member == "system_info.txt":
        return "facts about the machine that trained"
    return "not a member that Stable-Baselines3 writes"
