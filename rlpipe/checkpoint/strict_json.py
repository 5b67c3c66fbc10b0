"""JSON that is believed word by word: each value is asked for by its type, and each failure names its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from string import hexdigits
from typing import Any, NoReturn, TypeAlias

from rlpipe.errors import ManifestError, listed

Json: TypeAlias = Any

MAX_INTEGER = 2**53
"""Numbers beyond this are not exact in every JSON reader; no size or offset comes near."""

_MAX_VALUES, _BYTES_PER_VALUE = 100_000, 16
"""A value takes up to a hundred times its text in memory; those of an array take 16 bytes of text each."""


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value and where it stands.

    Attributes:
        value: The value.
        file: The file that it was read from.
        field: Its place in the file: names joined with ".".
    """

    value: Json
    file: str
    field: str = ""

    def fail(self, expected: str, *, found: str = "") -> NoReturn:
        """Raise the error that this value is not what was expected.

        Raises:
            ManifestError: Always.
        """
        raise ManifestError(
            f"{self.file}, {self.field or 'the whole'}: this is not what a manifest says",
            expected=expected,
            found=found or json.dumps(self.value)[:80],
            fix="take another copy of the checkpoint; manifests are not made to be edited",
        )

    def at(self, name: str | int, value: Json) -> Node:
        """The node of a value inside this one."""
        return Node(value, self.file, f"{self.field}.{name}" if self.field else str(name))

    def fields(self, *names: str, optional: Collection[str] = ()) -> dict[str, Node]:
        """The fields of an object that has exactly these, and perhaps the optional ones."""
        found = self.mapping()
        missing = set(names) - found.keys()
        unknown = found.keys() - {*names, *optional}
        if missing or unknown:
            parts = {"missing": missing, "unknown": unknown}
            text = "; ".join(f"{kind}: {listed(keys)}" for kind, keys in parts.items() if keys)
            self.fail(f"the fields {', '.join(names)}", found=text)
        return found

    def mapping(self) -> dict[str, Node]:
        """The members of an object with any names."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return {name: self.at(name, value) for name, value in self.value.items()}

    def items(self) -> list[Node]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.fail("a list")
        return [self.at(index, value) for index, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail("a string")
        return self.value

    def integer(self, *, low: int = 0, high: int = MAX_INTEGER) -> int:
        """A whole number in a closed range; true, false and 1.0 are none."""
        if type(self.value) is not int or not low <= self.value <= high:
            self.fail(f"a whole number from {low} to {high}")
        return int(self.value)

    def choice(self, choices: Collection[str]) -> str:
        """One of some strings."""
        if not isinstance(self.value, str) or self.value not in choices:
            self.fail(f"one of {listed(choices)}")
        return self.value

    def digest(self, digits: int) -> str:
        """A hash: so many hex digits in lower case."""
        text = self.value
        if not isinstance(text, str) or len(text) != digits or not set(text) <= set(hexdigits.lower()):
            self.fail(f"{digits} hex digits in lower case")
        return str(text)


def excess(text: str) -> str:
    """How many values a text holds, if they are too many to be parsed; else ""."""
    values = sum(map(text.count, "[{,"))
    limit = _MAX_VALUES + len(text) // _BYTES_PER_VALUE
    return f"about {values} values, where {limit} would do" if values > limit else ""


def parse(text: str, file: str) -> Node:
    """The root node of a text: JSON without doubled names, NaN, Infinity, endless nesting, or far too many values.

    Raises:
        ManifestError: The text is anything else.
    """
    if found := excess(text):
        Node(None, file).fail("fewer values", found=found)

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubled = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
            Node(None, file).fail("each name once", found=f"twice: {listed(doubled)}")
        return found

    def constant(name: str) -> NoReturn:
        Node(None, file).fail("numbers that JSON has", found=name)

    def number(digits: str) -> float:
        return float(digits) if isfinite(float(digits)) else constant(digits)

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=constant, parse_float=number)
    except RecursionError:
        Node(None, file).fail("less nesting", found="nesting without end")
    except MemoryError:
        Node(None, file).fail("fewer values", found="more than fit into memory")
    except ValueError as error:
        if isinstance(error, ManifestError):
            raise
        Node(None, file).fail("JSON", found=str(error))
    return Node(value, file)


def require_plain(value: Mapping[str, Json], what: str) -> None:
    """Check that a mapping is JSON that comes back as it is.

    Raises:
        ManifestError: It holds a tuple, a name that is no string, NaN, or anything else that JSON lacks.
    """
    try:
        is_same = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError, RecursionError) as error:
        Node(None, what).fail("plain JSON", found=str(error))
    if not is_same:
        Node(None, what).fail("plain JSON: lists and dicts with str names", found="tuples or other names")
