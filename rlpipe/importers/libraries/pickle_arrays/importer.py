"""A pickled dict of numpy arrays as bare arrays; nothing that the pickle names is imported or called."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, UnsafePayloadError, listed
from rlpipe.importers.bare_arrays import Options, count_bytes, imported, require_file
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import load_file
from rlpipe.importers.restricted.values import Name, Record
from rlpipe.snapshot.skeleton import MAX_DEPTH
from rlpipe.snapshot.state import State, escape

_DICT = re.compile(
    rb"(\x80[\x02-\x05])?(\x95.{8})?"
    rb"([}(]|ccollections\nOrderedDict\n|\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x94\x93)",
    re.DOTALL,
)
"""How a pickle of a dict begins: protocol, frame, and the opcode of a dict, or of a mark before its items."""

_HEAD = 2**20
_MAX_VALUES = 100_000
"""As many as a manifest can hold; twice as many take more than two seconds, and 64 MiB."""

_PLAIN = (bool, int, float, str, bytes, type(None), np.generic, np.ndarray)


def recognise(path: Path) -> bool:
    """Whether the file is a pickle that begins with a dict, names numpy early, and has its end."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - 1))
        return _DICT.match(head) is not None and b"numpy" in head and stream.read(1) == b"."


def read(path: Path, options: Options) -> ImportedFile:
    """The arrays and plain values in a pickle, under the names of its dicts.

    Raises:
        ForeignFormatError: It holds no arrays, or objects of other classes; all of them are named.
        UnsafePayloadError: It is broken or cut, or asks for more than numbers.
    """
    del options
    require_file(path)
    found = load_file(path, known=KNOWN)
    if type(found) is not dict:
        raise ForeignFormatError(
            f"{path.name} holds no dict of arrays",
            expected="a pickled dict",
            found=_kind(found),
            fix="name a file that its trainer's importer knows, or pickle a dict of its arrays",
        )
    plain = _Plain(path)
    state: State = plain.of(found, "")
    plain.require_clean()
    _require_no_more_than_the_file(path, state)
    notes = ("names that were whole numbers are text now",) if plain.has_numbers_for_names else ()
    return imported(path, "pickle_arrays", state, notes=notes)


class _Plain:
    """Turns what the restricted reader gives into a state, and collects what cannot be part of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[str] = []
        self.values = 0
        self.has_numbers_for_names = False

    def of(self, value: Any, key: str) -> Any:
        """The value as part of a state."""
        self.values += 1
        # Few bytes can hold one value in very many places, and one in itself.
        if self.values > _MAX_VALUES or key.count("/") > MAX_DEPTH:
            raise UnsafePayloadError(
                f"{self.path.name} is not read",
                expected=f"at most {_MAX_VALUES} values, nested at most {MAX_DEPTH} deep",
                found=f"more, at {key[:200]}",
            )
        container = _CONTAINERS.get(type(value))
        if container is not None:
            return container(self, value, key)
        if not isinstance(value, _PLAIN):
            self.findings.append(f"{key}: {_kind(value)}")
        return value

    def dict(self, value: Mapping[Any, Any], key: str) -> State:
        """A dict with text for names."""
        names = {name: self.name(name, key) for name in value}
        if len(set(names.values())) < len(names):
            self.findings.append(f"{key}: a name that is there as text and as a number")
        return {names[name]: self.of(item, f"{key}/{escape(names[name])}".lstrip("/")) for name, item in value.items()}

    def name(self, name: Any, key: str) -> str:
        """The name as text."""
        if type(name) is int:
            self.has_numbers_for_names = True
            return str(name)
        if type(name) is not str:
            self.findings.append(f"{key}: a name of type {type(name).__name__}")
        return str(name)

    def items(self, value: Any, key: str) -> Any:
        """A list or a tuple."""
        return type(value)([self.of(item, f"{key}/{index}") for index, item in enumerate(value)])

    def require_clean(self) -> None:
        """Check that nothing was found that cannot be part of a state."""
        if self.findings:
            raise ForeignFormatError(
                f"{self.path.name} holds more than arrays and plain values",
                expected="dicts with text for names, lists, tuples, numpy arrays and plain values",
                found=listed(self.findings),
                fix="pickle a dict of its arrays alone",
            )


_CONTAINERS: Mapping[type, Callable[[_Plain, Any, str], Any]] = MappingProxyType(
    {dict: _Plain.dict, list: _Plain.items, tuple: _Plain.items}
)


def _kind(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, Record):
        return f"an object of {value.class_path[:200]}"
    return f"the name {value.path[:200]}" if isinstance(value, Name) else f"a {type(value).__name__}"


def _require_no_more_than_the_file(path: Path, state: State) -> None:
    """Check that no bytes are there as many arrays: a small file could fill a disk."""
    size, needed = path.stat().st_size, count_bytes(state)
    if needed > size:
        raise UnsafePayloadError(
            f"{path.name} is not read",
            expected="arrays whose bytes are their own",
            found=f"arrays of {needed} bytes in a file of {size}",
        )
