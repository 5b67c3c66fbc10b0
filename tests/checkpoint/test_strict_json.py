from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlpipe.checkpoint.strict_json import Node, parse, require_plain
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
        parse(text, "file.json")


def test_doubled_names_are_named() -> None:
    with pytest.raises(ManifestError, match="twice: b"):
        parse('{"x":{"a":1,"b":1,"b":2}}', "file.json")


def test_doubled_names_are_counted_in_one_go() -> None:
    with pytest.raises(ManifestError, match="twice: a"):
        parse("{" + '"a":"a value of some length",' * 100_000 + '"b":1}', "file.json")


def test_good_json_is_its_value() -> None:
    assert parse('{"a":[1,2.5,null,true,"x"]}', "f").value == {"a": [1, 2.5, None, True, "x"]}


BAD: list[tuple[Any, Callable[[Node], Any]]] = [
    (1, Node.text),
    ([], Node.mapping),
    ({}, Node.items),
    (True, Node.integer),
    (1.0, Node.integer),
    ("1", Node.integer),
    (-1, Node.integer),
    (2**60, Node.integer),
    (None, Node.integer),
    ("c", lambda node: node.choice(("a", "b"))),
    (["a"], lambda node: node.choice(("a", "b"))),
    ("ab", lambda node: node.digest(4)),
    ("ABCD", lambda node: node.digest(4)),
    ("xyzw", lambda node: node.digest(4)),
    (1234, lambda node: node.digest(4)),
    ({"a": 1}, lambda node: node.fields("a", "b")),
    ({"a": 1, "b": 2, "c": 3}, lambda node: node.fields("a", "b")),
]


@pytest.mark.parametrize(("value", "ask"), BAD)
def test_another_type_is_refused_with_its_place(value: Any, ask: Callable[[Node], Any]) -> None:
    with pytest.raises(ManifestError, match=r"file\.json, arrays\.w\.0") as caught:
        ask(Node({"w": [value]}, "file.json", "arrays").mapping()["w"].items()[0])
    assert caught.value.expected
    assert caught.value.found


def test_missing_and_unknown_fields_are_all_named() -> None:
    with pytest.raises(ManifestError, match=r"missing: b; unknown: c, d"):
        Node({"a": 1, "c": 1, "d": 1}, "f").fields("a", "b")


@pytest.mark.parametrize("value", [{"a": (1,)}, {"a": {1: 2}}, {"a": {1}}, {"a": float("inf")}, {1: 2}])
def test_what_json_would_change_is_not_plain(value: Any) -> None:
    with pytest.raises(ManifestError, match="metadata"):
        require_plain(value, "metadata")


def test_plain_json_is_plain() -> None:
    require_plain({"a": [1, 2.5, None, {"b": "ü"}]}, "metadata")
