from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.libraries.rsl_rl.settings import find_settings, inside, real, reals, texts


def laid(folder: Path, **files: str) -> Path:
    """A checkpoint with files beside it; `__` in a name is a slash."""
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder / "model_1.pt"


def test_settings_lie_in_params_or_beside(tmp_path: Path) -> None:
    found = find_settings(laid(tmp_path, params__agent="seed: 1", env="decimation: 4"), "auto")
    assert (found.agent, found.env, found.descriptors) == ({"seed": 1}, {"decimation": 4}, {})
    assert [name for name, _ in found.files] == ["params/agent.yaml", "env.yaml"]


def test_those_in_params_come_first(tmp_path: Path) -> None:
    found = find_settings(laid(tmp_path, params__agent="seed: 1", agent="seed: 2"), "auto")
    assert found.agent == {"seed": 1}


@pytest.mark.parametrize(
    "place", ["io_descriptors__IO_descriptors", "exported__IO_descriptors", "walk_v0_IO_descriptors"]
)
def test_descriptors_have_several_places(tmp_path: Path, place: str) -> None:
    assert find_settings(laid(tmp_path, **{place: "actions: []"}), "auto").descriptors == {"actions": []}


def test_the_same_descriptor_twice_is_one(tmp_path: Path) -> None:
    path = laid(tmp_path, io_descriptors__IO_descriptors="actions: []", exported__IO_descriptors="actions: []")
    assert len(find_settings(path, "auto").files) == 1


def test_nothing_is_read_where_none_is_wanted(tmp_path: Path) -> None:
    found = find_settings(laid(tmp_path, params__agent="["), "none")
    assert (found.agent, found.files) == ({}, ())


@pytest.mark.parametrize("content", ["", "- 1", "text", "3"])
def test_a_file_without_settings_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ForeignFormatError, match="holds no settings"):
        find_settings(laid(tmp_path, params__agent=content), "auto")


def test_a_file_that_is_no_yaml_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UnsafePayloadError, match=r"agent\.yaml"):
        find_settings(laid(tmp_path, params__agent="a: ["), "auto")


def test_a_file_that_goes_on_for_ever_is_not_read_for_ever(tmp_path: Path) -> None:
    path = laid(tmp_path, params__agent="a: 1")
    os.truncate(tmp_path / "params" / "agent.yaml", 2**33)  # a hole, no bytes on the disk
    with pytest.raises(UnsafePayloadError, match="bytes"):
        find_settings(path, "auto")


@pytest.mark.parametrize("value", [None, 3, "x", [], {"a": 3}, {"a": {"c": 1}}])
def test_what_is_not_there_is_none(value: Any) -> None:
    assert inside(value, "a", "b") is None


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_number(value: Any) -> None:
    assert real(value) is None
    assert reals([1, value]) is None


def test_lists() -> None:
    assert reals([1, 2.5]) == (1.0, 2.5)
    assert (reals("12"), texts("ab"), texts(["a", 1]), texts(["a"])) == (None, (), (), ("a",))
