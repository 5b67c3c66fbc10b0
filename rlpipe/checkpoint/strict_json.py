"""JSON that is believed word by word: each value is asked for by its type, and each failure names its place.

Nothing is built for a value that is right, so that asking costs little; the words of an error are made when it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn, TypeAlias

from rlpipe.errors import ManifestError, RlpipeError, listed
from rlpipe.snapshot.skeleton import MAX_DEPTH
from rlpipe.snapshot.spec import canonical_json

Json: TypeAlias = Any

MAX_INTEGER = 2**53
"""Numbers beyond this are not exact in every JSON reader; no size or offset comes near."""

MAX_VALUES, _BYTES_PER_VALUE = 100_000, 16
"""Any text may hold so many values, and one more for so many bytes of it.

A value takes up to a hundred times its text in memory; a hash has 36 bytes of text.
"""

_HEX = re.compile("[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Strict:
    """Asks for values of one file. Each question takes the value and its place, names joined with "."; "" is the whole.

    Attributes:
        file: How errors name the file.
    """

    file: str

    def fail(self, place: str, expected: str, *, found: str = "", value: Json = None) -> NoReturn:
        """Raise the error that a value is not what was expected.

        Raises:
            ManifestError: Always.
        """
        raise ManifestError(
            f"{self.file}, {place or 'the whole'}: this is not what a manifest says",
            expected=expected,
            found=found or json.dumps(value)[:80],
            fix="take another copy of the checkpoint; manifests are not made to be edited",
        )

    def fields(self, value: Json, place: str, names: Collection[str]) -> list[Json]:
        """The values of an object that has exactly these fields, in the order of the names."""
        found = self.mapping(value, place)
        if found.keys() != set(names):
            parts = {"missing": set(names) - found.keys(), "unknown": found.keys() - set(names)}
            text = "; ".join(f"{kind}: {listed(keys)}" for kind, keys in parts.items() if keys)
            self.fail(place, f"the fields {', '.join(names)}", found=text)
        return [found[name] for name in names]

    def mapping(self, value: Json, place: str) -> dict[str, Json]:
        """An object with any names."""
        if type(value) is not dict:
            self.fail(place, "an object", value=value)
        return value

    def plain(self, value: Json, place: str) -> dict[str, Json]:
        """An object with any names and any JSON in it, but not so deep that some program could not follow."""
        level: list[Json] = [self.mapping(value, place)]
        depth = 0
        while level:
            depth += 1
            if depth > MAX_DEPTH:
                self.fail(place, f"at most {MAX_DEPTH} levels", found="more")
            inside = [item for each in level for item in (each.values() if type(each) is dict else each)]
            level = [item for item in inside if type(item) is dict or type(item) is list]
        return value

    def items(self, value: Json, place: str, *, count: int | None = None) -> list[Json]:
        """A list, perhaps of a certain length."""
        if type(value) is not list:
            self.fail(place, "a list", value=value)
        if count is not None and len(value) != count:
            self.fail(place, f"a list of {count}", found=f"{len(value)}")
        return value

    def text(self, value: Json, place: str) -> str:
        """A string."""
        if type(value) is not str:
            self.fail(place, "a string", value=value)
        return value

    def integer(self, value: Json, place: str, *, low: int = 0, high: int = MAX_INTEGER) -> int:
        """A whole number in a closed range; true, false and 1.0 are none."""
        if type(value) is not int or not low <= value <= high:
            self.fail(place, f"a whole number from {low} to {high}", value=value)
        return value

    def choice(self, value: Json, place: str, choices: Collection[str]) -> str:
        """One of some strings."""
        if type(value) is not str or value not in choices:
            self.fail(place, f"one of {listed(choices)}", value=value)
        return value

    def digest(self, value: Json, place: str, digits: int) -> str:
        """A hash: so many hex digits in lower case."""
        if type(value) is not str or len(value) != digits or not _HEX.fullmatch(value):
            self.fail(place, f"{digits} hex digits in lower case", value=value)
        return value

    def parse(self, text: str) -> Json:
        """The value of a text: JSON without doubled names, NaN, Infinity, or endless nesting."""
        if found := excess(text):
            self.fail("", "fewer values", found=found)
        with self.reading():
            value, end = scan(text, 0)
        if end != len(text):
            self.fail("", "JSON", found=f"more after its end, at {end}")
        return value

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A block that calls `scan`, and whose errors name the file."""
        try:
            yield
        except RecursionError:
            self.fail("", "less nesting", found="nesting without end")
        except MemoryError:
            self.fail("", "fewer values", found="more than fit into memory")
        except _BrokenError as error:
            self.fail("", *error.args[:1], found=error.args[1])
        except ValueError as error:
            if isinstance(error, RlpipeError):
                raise
            self.fail("", "JSON", found=str(error))


def are_digests(values: Collection[Json], digits: int) -> bool:
    """Whether all are what `Strict.digest` takes, asked of all at once."""
    try:
        return {*map(len, values)} <= {digits} and _HEX.fullmatch("".join(values)) is not None
    except TypeError:
        return False


def excess(text: str) -> str:
    """How many values a text holds, if they are too many to be parsed; else ""."""
    if len(text) <= MAX_VALUES:
        return ""
    values = sum(map(text.count, "[{,/"))  # A key of many names stands for as many dicts.
    limit = MAX_VALUES + len(text) // _BYTES_PER_VALUE
    return f"about {values} values, where {limit} would do" if values > limit else ""


class _BrokenError(ValueError):
    """What was expected, and what was found, where the file is not known."""


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        doubled = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        raise _BrokenError("each name once", f"twice: {listed(doubled)}")
    return found


def _constant(name: str) -> NoReturn:
    raise _BrokenError("numbers that JSON has", name)


def _number(digits: str) -> float:
    return float(digits) if isfinite(float(digits)) else _constant(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_constant, parse_float=_number)

scan = _DECODER.raw_decode
"""The value that starts at a position of a text, and the position after it. To be called while `Strict.reading`."""


def plain_text(value: Mapping[str, Json], what: str) -> str:
    """The canonical text of a mapping that comes back from it as it is.

    Raises:
        ManifestError: It holds a tuple, a name that is no string, NaN, or anything else that JSON lacks.
    """
    if not value:
        return "{}"
    try:
        text = canonical_json(value)
        is_same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        Strict(what).fail("", "plain JSON", found=str(error))
    if not is_same:
        Strict(what).fail("", "plain JSON: lists and dicts with str names", found="tuples or other names")
    Strict(what).plain(value, "")
    return text
