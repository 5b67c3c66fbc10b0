from __future__ import annotations

import unicodedata
from enum import Enum, StrEnum

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlpipe.errors import IdError
from rlpipe.snapshot.ids import validate_file_paths, validate_id, validate_ids, validate_policy_id

ALLOWED = st.text(st.characters(categories=["Lu", "Ll", "Lo", "Nd"], include_characters="_-"), min_size=1, max_size=49)


@pytest.mark.parametrize(
    "policy_id", ["p0", "default_policy", "a.b", "Pôle-7", "策略", "_", "-", "9", "x" * 200, "conx", "models"]
)
def test_good_ids_come_back_as_they_are(policy_id: str) -> None:
    assert validate_policy_id(policy_id) == policy_id


@pytest.mark.parametrize(
    ("policy_id", "part"),
    [
        ("", "empty"),
        ("a/b", "'/'"),
        ("a b", "' '"),
        ("a\\b", "'\\\\'"),
        ("a:b", "':'"),
        ("a\x00", "x00"),
        ("..", "dot"),
        (".a", "dot"),
        ("a.", "dot"),
        ("x" * 201, "201 bytes"),
        ("é" * 101, "202 bytes"),
        (unicodedata.normalize("NFD", "é"), "NFC"),
        ("²", "²"),
        ("🙂", "🙂"),
        ("a\u200b", "200b"),
        ("\ud800", "ud800"),
        ("CON", "device"),
        ("com1.x", "device"),
        ("manifest.json", "file"),
        ("Manifest.JSON", "file"),
        ("state.h5", "file"),
        ("state.pkl", "file"),
        ("model", "file"),
        (7, "int"),
        (None, "NoneType"),
    ],
)
def test_bad_ids_are_refused_with_what_is_wrong(policy_id: str, part: str) -> None:
    with pytest.raises(IdError) as caught:
        validate_policy_id(policy_id)
    assert part in caught.value.found


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(IdError) as caught:
        validate_id(".a b?", kind="module id")
    assert caught.value.subject.startswith("module id")
    assert "' ' '?'" in caught.value.found
    assert "dot" in caught.value.found
    assert "'a_b_'" in caught.value.fix


@pytest.mark.parametrize("ids", [("p0", "P0"), ("straße", "STRASSE"), ("p0", "p0"), ("É", "é")])
def test_ids_that_differ_only_in_case_are_refused(ids: tuple[str, str]) -> None:
    with pytest.raises(IdError) as caught:
        validate_ids(ids)
    assert repr(ids[0]) in caught.value.found
    assert repr(ids[1]) in caught.value.found


class Team(str, Enum):  # noqa: UP042  older code has them, and str() of a StrEnum is its text
    """A str that is written as another one."""

    RED = "red"


def test_a_str_that_is_written_as_another_one_is_refused() -> None:
    with pytest.raises(IdError) as caught:
        validate_ids([Team.RED, "blue"])
    assert "written 'Team.RED'" in caught.value.found
    assert validate_ids([StrEnum("Side", {"LEFT": "left"}).LEFT, np.str_("p1")]) == ("left", "p1")  # type: ignore[attr-defined]


def test_all_bad_ids_of_a_list_are_told_at_once() -> None:
    with pytest.raises(IdError) as caught:
        validate_ids(["ok", "a/b", "", "x", "X"])
    assert caught.value.found.count(",") == 2


def test_good_lists_come_back_in_order() -> None:
    assert validate_ids(iter(["p1", "p0"])) == ("p1", "p0")


@given(ALLOWED)
def test_composed_letters_and_digits_make_an_id(text: str) -> None:
    # Some letters are written as letter and mark even in composed form; marks are no letters.
    policy_id = "p-" + unicodedata.normalize("NFC", text)
    assume(not any(unicodedata.category(char).startswith("M") for char in policy_id))
    assert validate_id(policy_id) == policy_id


@pytest.mark.parametrize("paths", [(), ("model/a", "model/b/a"), ("model/.x y", "model/策略/🙂"), ("manifest.json",)])
def test_good_paths_of_files_come_back_as_they_are(paths: tuple[str, ...]) -> None:
    assert validate_file_paths(paths) == paths


@pytest.mark.parametrize(
    ("paths", "part"),
    [
        (("a", "A"), "one name"),
        (("a", "a/b"), "twice"),
        (("A/b", "a"), "twice"),
        (("",), "empty"),
        (("/a",), "empty"),
        (("a//b",), "empty"),
        (("../a",), "'..'"),
        (("a/./b",), "'.'"),
        (("C:/a",), "':'"),
        (("a\\b",), "characters"),
        (("a\0",), "x00"),
        (("a /b",), "'a '"),
        (("aux.h/x",), "aux.h"),
        (("\udcff",), "Unicode"),
        (("x" * 201,), "long"),
        (("/".join("x" * 100 for _ in range(11)),), "long"),
        ((unicodedata.normalize("NFD", "é"),), "NFC"),
    ],
)
def test_bad_paths_of_files_are_refused_with_what_is_wrong(paths: tuple[str, ...], part: str) -> None:
    with pytest.raises(IdError) as caught:
        validate_file_paths(paths)
    assert part in caught.value.found
