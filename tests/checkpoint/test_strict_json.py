from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlpipe.checkpoint.strict_json import Strict, plain_text
from rlpipe.errors import ManifestError


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        '{"a":1} x',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "[1e999]",
        '{"a":1,"a":1}',
        "[" * 100_000,
        "[" + "[]," * 100_000 + "[]]",
        "\ufeff{}",
    ],
)
def test_what_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match=r"file\.json"):
        Strict("file.json").parse(text)


def test_doubled_names_are_named() -> None:
    with pytest.raises(ManifestError, match="twice: b"):
        Strict("file.json").parse('{"x":{"a":1,"b":1,"b":2}}')


def test_doubled_names_are_counted_in_one_go() -> None:
    with pytest.raises(ManifestError, match="twice: a"):
        Strict("file.json").parse("{" + '"a":"a value of some length",' * 100_000 + '"b":1}')


def test_good_json_is_its_value() -> None:
    assert Strict("file.json").parse('{"a":[1,2.5,null,true,"x"]}') == {"a": [1, 2.5, None, True, "x"]}


BAD: list[tuple[Any, Callable[[Strict, Any, str], Any]]] = [
    (1, Strict.text),
    ([], Strict.mapping),
    ({}, Strict.items),
    (True, Strict.integer),
    (1.0, Strict.integer),
    ("1", Strict.integer),
    (-1, Strict.integer),
    (2**60, Strict.integer),
    (None, Strict.integer),
    ("c", lambda ask, value, place: ask.choice(value, place, ("a", "b"))),
    (["a"], lambda ask, value, place: ask.choice(value, place, ("a", "b"))),
    ("ab", lambda ask, value, place: ask.digest(value, place, 4)),
    ("ABCD", lambda ask, value, place: ask.digest(value, place, 4)),
    ("xyzw", lambda ask, value, place: ask.digest(value, place, 4)),
    (1234, lambda ask, value, place: ask.digest(value, place, 4)),
    ({"a": 1}, lambda ask, value, place: ask.fields(value, place, ("a", "b"))),
    ({"a": 1, "b": 2, "c": 3}, lambda ask, value, place: ask.fields(value, place, ("a", "b"))),
]


@pytest.mark.parametrize(("value", "ask"), BAD)
def test_another_type_is_refused_with_its_place(value: Any, ask: Callable[[Strict, Any, str], Any]) -> None:
    with pytest.raises(ManifestError, match=r"file\.json, arrays\.w\.0") as caught:
        ask(Strict("file.json"), value, "arrays.w.0")
    assert caught.value.expected
    assert caught.value.found


def test_missing_and_unknown_fields_are_all_named() -> None:
    with pytest.raises(ManifestError, match=r"missing: b; unknown: c, d"):
        Strict("f").fields({"a": 1, "c": 1, "d": 1}, "", ("a", "b"))


def test_a_list_of_another_length_is_refused() -> None:
    with pytest.raises(ManifestError, match="a list of 2"):
        Strict("f").items([1], "x", count=2)


def test_fields_come_in_the_order_of_their_names() -> None:
    assert Strict("f").fields({"b": 2, "a": 1}, "", ("a", "b")) == [1, 2]


@pytest.mark.parametrize("value", [{"a": (1,)}, {"a": {1: 2}}, {"a": {1}}, {"a": float("inf")}, {1: 2}])
def test_what_json_would_change_is_not_plain(value: Any) -> None:
    with pytest.raises(ManifestError, match="metadata"):
        plain_text(value, "metadata")


def test_plain_json_is_plain() -> None:
    value = {"b": [1, 2.5, None, {"b": "ü"}], "a": {}}
    assert plain_text(value, "metadata") == '{"a":{},"b":[1,2.5,null,{"b":"\\u00fc"}]}'
    assert plain_text({}, "metadata") == "{}"
