from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, flag, read_fields, whole, wholes


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2


def test_fields_become_a_dataclass() -> None:
    assert read_fields(Pair, {"left": 1}, where="pair") == Pair(1, 2)


@pytest.mark.parametrize(
    ("value", "named"),
    [([1], "pair is no mapping"), ({"right": 1}, "pair lacks left"), ({"left": 1, "rihgt": 2}, "did you mean right?")],
)
def test_other_fields_are_named(value: Any, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_fields(Pair, value, where="pair")
    assert named in str(caught.value)


def test_all_unknown_fields_are_in_one_error() -> None:
    with pytest.raises(SpecError) as caught:
        read_fields(Pair, {"left": 1, "a": 2, "b": 3}, where="pair")
    assert caught.value.found == "'a', 'b'"


@pytest.mark.parametrize("value", [1.0, True, "1", None, -1])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match="width"):
        whole(value, where="width", least=0)
    with pytest.raises(SpecError, match=r"widths\[1\]"):
        wholes([1, value], where="widths", least=0)


def test_values_come_back() -> None:
    assert whole(-3, where="x") == -3
    assert wholes([1, 2], where="x") == (1, 2)
    assert flag(False, where="x") is False  # noqa: FBT003 - it is the value under test
    assert choice("a", ("a", "b"), where="x") == "a"


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_what_is_no_flag_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match="double is no flag"):
        flag(value, where="double")


def test_the_closest_choice_is_named() -> None:
    with pytest.raises(SpecError, match="did you mean state"):
        choice("stat", ("state", "free"), where="log_std")
