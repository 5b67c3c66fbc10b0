"""States: types come back exactly, keys name parts, and what cannot be kept is refused by its path."""

from __future__ import annotations

import gc
import json
import unicodedata
import weakref
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import ManifestError, UnsupportedStateError
from rlpipe.snapshot.skeleton import MAX_DEPTH, decode, encode, put_together, take_apart
from rlpipe.snapshot.state import (
    State,
    arrays,
    canonical,
    copied,
    entries,
    equal,
    escape,
    from_dotted,
    from_entries,
    join,
    split,
    to_dotted,
    unescape,
)
from tests.snapshot.strategies import names, states


class Pair(NamedTuple):
    """A tuple with a class of its own."""

    x: int


@given(names | st.text())
def test_escaped_names_are_safe_and_come_back(name: str) -> None:
    component = escape(name)
    assert unescape(component) == name
    assert component not in ("", ".", "..")
    assert not set(component) & {"/", "\0", "\\"}
    assert all(unicodedata.category(char) not in ("Cc", "Cs", "Co", "Zl", "Zp") for char in component)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("a.b-c_d e", "a.b-c_d e"), ("ü策🙂", "ü策🙂"), ("100%", "100%25"), ("a/b\\c", "a%2Fb%5Cc"), ("", "%")),
        *((".", "%2E"), ("..", "%2E%2E"), ("\0\n\x7f\x80", "%00%0A%7F%C2%80"), ("\u200b\xa0", "%E2%80%8B%C2%A0")),
        # Not a character in any version of Unicode so far, and so not printable in any Python: still itself.
        *(("\u0378\U0003ffff", "\u0378\U0003ffff"), ("\udc80\ue000", "%ED%B2%80%EE%80%80")),
    ],
)
def test_a_name_has_the_same_key_in_every_python(name: str, key: str) -> None:
    assert escape(name) == key


def test_a_lone_surrogate_in_a_name_comes_back() -> None:
    assert unescape(escape("a\udc80")) == "a\udc80"


@given(st.lists(names, min_size=1, max_size=4))
def test_a_key_splits_into_its_names(path: list[str]) -> None:
    assert split(join(*path)) == tuple(path)


@given(names, names)
def test_two_names_never_share_a_component(left: str, right: str) -> None:
    assert (escape(left) == escape(right)) == (left == right)


@given(states)
def test_entries_rebuild_the_state(state: State) -> None:
    assert equal(from_entries(entries(state)), state)


@given(states)
def test_a_state_is_taken_apart_and_put_together_through_json_text(state: State) -> None:
    parts = take_apart(state)
    plain = json.loads(json.dumps(parts.plain, allow_nan=False))
    assert parts.arrays.keys() == arrays(state).keys()
    assert list(parts.arrays) == sorted(parts.arrays)
    assert equal(put_together(parts.arrays, plain), state)


@given(states)
def test_an_entry_has_one_typed_json(state: State) -> None:
    parts = take_apart(state)
    for key, typed in parts.plain.items():
        assert encode(decode(typed, key, dict(parts.arrays)), key) == typed


def test_typed_json_holds_no_array_bytes() -> None:
    assert "12345" not in json.dumps(take_apart({"w": [np.full(100, 12345)]}).plain)


@pytest.mark.parametrize(
    "bad",
    [
        {"array": None},
        [{"array": None}],
        {"object": "os.system"},
        {"int": 3},
        {"int": "0x1", "float": "0"},
        {"float": "zz"},
        {"bytes": "*"},
        {"dict": []},
        {"tuple": {}},
        {},
    ],
)
def test_json_that_is_not_typed_is_refused(bad: object) -> None:
    with pytest.raises(ManifestError):
        put_together({}, {"w": bad})


def test_deep_nesting_is_refused_before_python_gives_up() -> None:
    deep: object = 1
    for _ in range(500):
        deep = {"dict": {"a": deep}}
    with pytest.raises(ManifestError, match="nested too deep"):
        put_together({}, {"w": deep})


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1])
@pytest.mark.parametrize("leaf", [1, np.zeros(1), {}])
@pytest.mark.parametrize("nest", [lambda value: {"a": value}, lambda value: [value]])
def test_what_is_taken_apart_can_be_put_together(depth: int, leaf: Any, nest: Any) -> None:
    value = leaf
    for _ in range(depth - 1):
        value = nest(value)
    if depth > MAX_DEPTH:
        with pytest.raises(UnsupportedStateError, match="too deep"):
            take_apart({"x": value})
    else:
        parts = take_apart({"x": value})
        assert equal(put_together(*parts), {"x": value})


def test_numpy_scalars_become_arrays_without_axes_and_big_endian_becomes_native() -> None:
    state = canonical({"scalar": np.float32(1.5), "swapped": np.array([1, 256], ">i4")})
    assert state["scalar"].shape == ()
    assert state["swapped"].dtype.isnative
    assert state["swapped"].tolist() == [1, 256]


class Column(str, Enum):  # noqa: UP042  older code has them, and str() of a StrEnum is its text
    """A name as libraries have them for the columns of batches."""

    OBS = "obs"


def test_a_name_is_its_text_whatever_class_of_str_it_has() -> None:
    state = canonical({Column.OBS: {Column.OBS: 1}, np.str_("b"): 2})
    assert list(map(type, state)) == [str, str]
    assert entries(state) == {"b": 2, "obs/obs": 1}
    assert type(escape(Column.OBS)) is str
    assert list(take_apart({"obs": {"x": np.zeros(1)}}).arrays) == ["obs/x"]


def test_a_state_that_holds_itself_is_refused() -> None:
    circle: State = {}
    circle["again"] = [circle]
    with pytest.raises(UnsupportedStateError, match="nested too deep"):
        canonical(circle)


def test_bfloat16_is_kept_as_it_is() -> None:
    array = np.ones(2, ml_dtypes.bfloat16)
    assert canonical({"w": array})["w"].dtype == array.dtype


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"a": {"b": [1, object()]}}, "state/a/b/1"),
        ({"a": {3: 1}}, "state/a, name 3"),
        ({"a": np.array(["text"])}, "state/a"),
        ({"a": np.array([None])}, "state/a"),
        ({"a": Pair(1)}, "state/a"),
        ({"a": {1, 2}}, "state/a"),
        ({"a": np.zeros(1, np.longdouble)}, "state/a"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(tree: State, path: str) -> None:
    with pytest.raises(UnsupportedStateError) as caught:
        canonical(tree)
    assert path in caught.value.subject


def test_bool_int_and_float_are_told_apart() -> None:
    assert not equal({"a": True}, {"a": 1})
    assert not equal({"a": 1}, {"a": 1.0})
    assert not equal({"a": 0.0}, {"a": -0.0})
    assert not equal({"a": (1,)}, {"a": [1]})
    assert not equal({"a": np.zeros(2, "f4")}, {"a": np.zeros(2, "i4")})


def test_copies_do_not_share_memory() -> None:
    array = np.zeros(3)
    copy = copied({"a": {"b": array}, "c": [array]})
    array += 1
    assert copy["a"]["b"].tolist() == [0, 0, 0]
    assert copy["c"][0].tolist() == [0, 0, 0]


def test_dotted_names_nest_and_come_back() -> None:
    flat = {"encoder.0.weight": 1, "encoder.0.bias": 2, "vf.weight": 3}
    nested = from_dotted(flat)
    assert nested == {"encoder": {"0": {"bias": 2, "weight": 1}}, "vf": {"weight": 3}}
    assert to_dotted(nested) == flat


def test_a_name_that_is_a_value_and_a_dict_is_refused() -> None:
    with pytest.raises(UnsupportedStateError, match="below a value"):
        from_dotted({"a": 1, "a.b": 2})


def test_nothing_holds_an_array_once_its_state_is_let_go() -> None:
    array = np.zeros(3)
    held = weakref.ref(array)
    gc.disable()  # What only the garbage collector finds would keep gigabytes until it comes by.
    try:
        state = from_entries({"a/b/c": array, "a/d": 1})
        del array
        assert entries(state).keys() == {"a/b/c", "a/d"}
        with pytest.raises(UnsupportedStateError):
            from_entries({"a/b/c": held(), "a/b": 1})
        del state
        assert held() is None
    finally:
        gc.enable()
