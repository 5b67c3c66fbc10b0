from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.snapshot.spec import canonical_json
from rlpipe.snapshot.spec_diff import ABSENT, changes, lines, shortened

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
JSONS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
    max_leaves=8,
)


@given(JSONS, JSONS)
def test_there_are_changes_exactly_where_the_texts_differ(old: Any, new: Any) -> None:
    assert bool(changes(old, new)) == (canonical_json(old) != canonical_json(new))


@given(JSONS, JSONS)
def test_each_change_holds_two_different_sides_and_the_way_back_is_the_reverse(old: Any, new: Any) -> None:
    there, back = changes(old, new), changes(new, old)
    assert all(change.old != change.new for change in there)
    assert [(change.name, change.new, change.old) for change in there] == [
        (change.name, change.old, change.new) for change in back
    ]


@given(st.text(), st.text())
def test_shortened_texts_differ_if_the_texts_do(old: str, new: str) -> None:
    shown = shortened(old, new)
    assert (shown[0] == shown[1]) == (old == new)
    assert all(len(text) <= 46 for text in shown)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c: 2 -> 3"]),
        ({"a": 1}, {"a": "1"}, ['a: 1 -> "1"']),
        ({"a": 1}, {}, [f"a: 1 -> {ABSENT}"]),
        ({"hidden": [64, 64]}, {"hidden": [32]}, ["hidden: [64,64] -> [32]"]),
        ({"s": [{"type": "clip", "low": 0}]}, {"s": [{"type": "clip", "low": 1}]}, ["s[0].low: 0 -> 1"]),
        ({"s": [{"type": "clip"}]}, {"s": []}, ["s: [clip] -> []"]),
        ({"s": [{"type": "cast"}, {"type": "clip"}]}, {"s": [{"type": "clip"}]}, ["s: [cast, clip] -> [clip]"]),
        ({"type": "mlp", "hidden": [1]}, {"type": "cnn", "filters": []}, ['type: "mlp" -> "cnn"']),
        ({"low": [0] * 400 + [1]}, {"low": [0] * 400 + [2]}, ["low: ...0,0,0,0,1] -> ...0,0,0,0,2]"]),
    ],
)
def test_only_what_differs_is_shown(old: Any, new: Any, shown: list[str]) -> None:
    assert [change.line() for change in changes(old, new)] == shown


def test_long_values_are_whole_for_programs_and_short_for_people() -> None:
    (change,) = changes({"low": list(range(500))}, {"low": list(range(1, 501))})
    assert json.loads(change.new) == list(range(1, 501))
    assert len(change.line()) < 110


def test_an_error_has_a_line_for_each_and_counts_the_rest() -> None:
    found = changes({str(number): 0 for number in range(15)}, {str(number): 1 for number in range(15)})
    text = lines(found)
    assert text.count("\n") == 11
    assert text.endswith("and 5 more")
