"""Plain values and names come back exactly, also those that JSON, Python's decimal text or HDF5 cannot express."""

from __future__ import annotations

import math
import struct
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import restore_into, snapshot_of
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import StateMismatchError, UnsupportedStateError
from rlpipe.snapshot import diff
from rlpipe.snapshot.state import equal, from_entries

both = pytest.mark.parametrize("backend", ["hdf5", "pickle"])
BEYOND_DECIMAL_TEXT = 7**10_000


def test_one_number_is_too_long_for_decimal_text() -> None:
    with pytest.raises(ValueError, match="digits"):
        str(BEYOND_DECIMAL_TEXT)


INTEGERS = [0, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, -(2**63) - 1, 2**64, 10**400, BEYOND_DECIMAL_TEXT]
FLOATS = [
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, sys.float_info.max, sys.float_info.min, 0.1, 1e22),
    struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0],
    struct.unpack(">d", bytes.fromhex("fff8000000000000"))[0],
]
TEXTS = [
    *(
        "",
        "\0",
        "a\0b",
        "\x7f\x80\x9f",
        "ünï",
        "e\u0301",
        "\u00e9",
        "\U0001f600",
        "\ud800",
        "\udfff\ud800",
        "\ufeff",
        "\uffff",
    ),
    *("\u2028\u2029", "\r\n", "\\u0041", '"', "%2F", "x" * 100_000),
]
NAMES = [
    *(
        "",
        ".",
        "..",
        "/",
        "a/b",
        "//",
        "%",
        "%2F",
        "%25",
        "a\0b",
        "\0",
        "a.b",
        ".a",
        "a.",
        " ",
        "  a ",
        "\n",
        "\\",
        "C:",
        "con",
    ),
    *(
        "x" * 1000,
        "ü" * 1000,
        "\U0001f600" * 300,
        "\ud800",
        "e\u0301",
        "\u00e9",
        "manifest.json",
        "dict",
        "array",
        "0",
        "-1",
    ),
]


def read_back(path: Path, backend: str, value: Any) -> Any:
    write_checkpoint(snapshot_of(Arrays({"value": value, "array": np.arange(2)})), path, backend=backend)
    return read_checkpoint(path).state["value"]


@both
@pytest.mark.parametrize("values", [INTEGERS, FLOATS, TEXTS, [text.encode("utf-8", "surrogatepass") for text in TEXTS]])
def test_plain_values(tmp_path: Path, backend: str, values: list[Any]) -> None:
    assert equal(read_back(tmp_path / "ckpt", backend, values), values)


@both
def test_types_that_look_alike(tmp_path: Path, backend: str) -> None:
    value = {
        "bools and numbers": [True, 1, 1.0, False, 0, 0.0, -0.0, "1", b"1", None],
        "arrays and numbers": [np.array(1), np.array(1.0), np.ones((), bool), np.array([1])],
        "sequences": [[], (), [()], ([],), {}, [{}], ({},), {"a": {}}, [[[]]]],
        "lists of dicts": [{"a": 1, "b": [{"c": np.arange(2)}]}, {}, {"a": (1,)}],
    }
    assert equal(read_back(tmp_path / "ckpt", backend, value), value)


@both
def test_every_name(tmp_path: Path, backend: str) -> None:
    """As a name of an array, of a value, and of a dict with both; none meets another."""
    value = {name: {name: np.array(place), "plain": place} for place, name in enumerate(NAMES)}
    found = read_back(tmp_path / "ckpt", backend, value)
    assert equal(found, value)


@both
def test_a_dict_as_deep_as_it_may_be(tmp_path: Path, backend: str) -> None:
    value: Any = np.arange(2)
    for _ in range(60):
        value = {"a": value}
    assert equal(read_back(tmp_path / "ckpt", backend, value), value)
    for _ in range(10):
        value = {"a": value}
    with pytest.raises(UnsupportedStateError, match="too deep"):
        read_back(tmp_path / "deeper", backend, value)


def test_by_state() -> None:
    values = {"integers": INTEGERS, "floats": tuple(FLOATS), "texts": TEXTS, "names": dict.fromkeys(NAMES, 1)}
    source, target = Arrays(values), Arrays({**values, "integers": [0] * len(INTEGERS), "texts": [""] * len(TEXTS)})
    target.set_state(source.get_state())
    assert equal(target.state, source.state)


def test_numbers_beyond_decimal_text_break_no_message(tmp_path: Path) -> None:
    huge = snapshot_of(Arrays({"a": BEYOND_DECIMAL_TEXT, "b": [BEYOND_DECIMAL_TEXT]}))
    other = snapshot_of(Arrays({"a": 1.0, "b": [BEYOND_DECIMAL_TEXT, 1], "c": BEYOND_DECIMAL_TEXT}))
    assert diff(huge, other).mismatched == ("a (int expected, float found)", "b (list of 1 expected, list of 2 found)")
    with pytest.raises(StateMismatchError):
        restore_into(Arrays(huge.state), other)
    with pytest.raises(UnsupportedStateError):
        from_entries({"a": BEYOND_DECIMAL_TEXT, "a/b": 1})
    inspect_checkpoint(write_checkpoint(huge, tmp_path / "ckpt"))


class Kind(IntEnum):
    A = 1


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    "value",
    [
        {1},
        object(),
        len,
        np.datetime64("2020-01-01"),
        np.array(["a"]),
        np.array(["a"], np.dtypes.StringDType()),
        np.array([1, 2], object),
        np.zeros(2, "i4,f4"),
        np.zeros(2, ml_dtypes.int4),
        np.longdouble(1),
        np.array([{}]),
        Kind.A,
        Kind(1),
        Pair(1, 2),
        1j,
        np.ma.masked_array([1.0], [True]),
        range(3),
    ],
)
def test_what_no_checkpoint_holds_is_named(value: Any) -> None:
    with pytest.raises(UnsupportedStateError, match="state/here"):
        snapshot_of(Arrays({"here": value}))
