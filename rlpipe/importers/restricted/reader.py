"""Foreign pickles as plain values: the door of the restricted machine.

A pickle is a small program: it names classes and functions, and Python's own reader imports and calls them. This reader
is another machine for the same opcodes. It never imports a name and never calls what a file chooses: names are looked
up, exactly, in a closed table of functions written here; every other name stays a `Name`, and what the pickle would
have made with it an inert `Record`. Literals are taken only as long as the file has their bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from rlpipe.errors import RlpipeError, UnsafePayloadError
from rlpipe.importers.restricted.machine import Machine
from rlpipe.importers.restricted.values import Known, Record, RefusedError, Token

_MAX_DEPTH = 64
_MAX_CONTAINERS = 2_000_000
_BROKEN = (ValueError, TypeError, IndexError, KeyError, OverflowError, ArithmeticError, MemoryError)


def loads(data: bytes, *, subject: str, known: Known, persistent: Callable[[Any], Any] | None = None) -> Any:
    """The value of one whole pickle: plain Python values, numpy arrays and scalars, names and records.

    Args:
        data: The pickle, and nothing after it.
        subject: How errors name it.
        known: Names that mean something; `numpy_names.KNOWN` for arrays.
        persistent: Gives the value of a persistent id; without it, such ids are refused.

    Raises:
        UnsafePayloadError: The bytes are no pickle, are cut, ask for something that is not plain numbers and
            records, or go on after it.
    """
    return _load_whole(io.BytesIO(data), len(data), subject, known, persistent)


def load_file(path: Path, *, known: Known) -> Any:
    """The value of a file that is one whole pickle; literals are read from it one by one.

    Args:
        path: The file; errors name it by its base name.
        known: As for `loads`.

    Raises:
        UnsafePayloadError: As for `loads`.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return _load_whole(_Bounded(stream, size), size, path.name, known, None)


def _load_whole(stream: Any, size: int, subject: str, known: Known, persistent: Callable[[Any], Any] | None) -> Any:
    value = load_next(stream, subject=subject, known=known, persistent=persistent)
    if stream.tell() != size:
        raise _unsafe(subject, f"{size - stream.tell()} bytes after its end")
    return value


class _Bounded:
    """A file that makes no room for more bytes than it has, whatever a length field asks for."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._size = stream, size
        self.readline, self.tell = stream.readline, stream.tell

    def read(self, count: int) -> bytes:
        """At most so many bytes."""
        return self._stream.read(max(0, min(count, self._size - self.tell())))


def load_next(stream: IO[bytes], *, subject: str, known: Known, persistent: Callable[[Any], Any] | None = None) -> Any:
    """The value of the next pickle in a stream, which is left right behind it.

    Args:
        stream: Where the pickle starts.
        subject: How errors name it.
        known: As for `loads`.
        persistent: As for `loads`.

    Raises:
        UnsafePayloadError: As for `loads`.
    """
    try:
        return _Finisher().finish(Machine(known, persistent).run(stream))
    except RlpipeError:
        raise  # from behind a persistent id, which names its own trouble
    except RefusedError as error:
        raise _unsafe(subject, str(error)) from None
    except _BROKEN as error:
        raise _unsafe(subject, f"a broken pickle ({type(error).__name__}: {error})"[:200]) from None


def _unsafe(subject: str, found: str) -> UnsafePayloadError:
    return UnsafePayloadError(
        f"{subject} is not read",
        expected="a whole pickle of plain numbers, names and records",
        found=found,
        fix="save the file again with the library that made it",
    )


class _Finisher:
    """Puts values in the place of tokens, each shared part once, in place where that is possible."""

    def __init__(self) -> None:
        self.done: dict[int, Any] = {}
        self.open: set[int] = set()
        self.kept: list[Any] = []

    def finish(self, value: Any, depth: int = 0) -> Any:
        """The value with every token in it finished."""
        if not isinstance(value, (list, dict, tuple, Record, Token)):
            return value
        if id(value) not in self.done:
            self._enter(value, depth)
            if isinstance(value, Token):
                self.done[id(value)] = value.finish()
            elif isinstance(value, tuple):
                self._finish_tuple(value, depth)
            else:
                self._finish_inside(value, depth)
        return self.done[id(value)]

    def _enter(self, value: Any, depth: int) -> None:
        self.kept.append(value)  # ids stay unique only while their objects live
        if depth > _MAX_DEPTH:
            raise RefusedError(f"values nested more than {_MAX_DEPTH} deep")
        if len(self.kept) > _MAX_CONTAINERS:
            raise RefusedError(f"more than {_MAX_CONTAINERS} containers")

    def _finish_tuple(self, value: tuple[Any, ...], depth: int) -> None:
        if id(value) in self.open:
            raise RefusedError("a tuple that holds itself")
        self.open.add(id(value))
        self.done[id(value)] = tuple([self.finish(item, depth + 1) for item in value])

    def _finish_inside(self, value: Any, depth: int) -> None:
        self.done[id(value)] = value
        for container, key in _places(value):
            container[key] = self.finish(container[key], depth + 1)
        if isinstance(value, Record):
            value.args = self.finish(value.args, depth + 1)
            value.state = self.finish(value.state, depth + 1)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every place inside a list, a dict or a record."""
    if isinstance(value, Record):
        yield from _places(value.items)
        yield from _places(value.entries)
    else:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        yield from ((value, key) for key in keys)
