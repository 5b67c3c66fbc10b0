"""What a pickle costs to read: a few bytes of one can ask for gigabytes, or for hours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rlpipe.importers.restricted.values import Name, RefusedError

_ROOM = 32 * 2**20
_ROOM_PER_BYTE = 7
"""Bytes that values may take: so many for any pickle, and so many more for each byte of it that was read."""

_LEAST = 56
"""What an opcode is charged at least, which bounds their number; a float of nine bytes must stay affordable."""

_CHARGES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), 96),
        **dict.fromkeys(("EMPTY_LIST", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"), 160),
        **dict.fromkeys(("EMPTY_DICT", "DICT", "GLOBAL", "STACK_GLOBAL"), 160),
        **dict.fromkeys(("REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "EMPTY_SET", "FROZENSET"), 320),
    }
)
"""Opcode -> bytes of what it makes, those for finishing it included."""


class Account:
    """Counts what the values of one pickle take, and stops where no honest file goes."""

    def __init__(self) -> None:
        self._spent = 0
        self._room = _ROOM

    def charge_opcode(self, name: str, read: int) -> None:
        """Count an opcode, after so many bytes of the pickle.

        Raises:
            RefusedError: There is no room left.
        """
        self._room = _ROOM + _ROOM_PER_BYTE * read
        self.charge(_CHARGES.get(name, _LEAST))

    def charge(self, size: int) -> None:
        """Count bytes.

        Raises:
            RefusedError: There is no room left.
        """
        self._spent += size
        if self._spent > self._room:
            raise RefusedError("more values, or more copies of them, than an honest file makes")


def size_of(value: Any) -> int:
    """Bytes that a copy of a value takes, its items left aside."""
    if isinstance(value, Name):
        return len(value.module) + len(value.name)
    if isinstance(value, list):
        return _LEAST * len(value)
    return len(value) if isinstance(value, (bytes, bytearray, str)) else 0
