"""Spaces of a zip: from pickles, from the text beside them, and missing ones."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.stable_baselines3 import Options, read
from rlpipe.importers.libraries.stable_baselines3.container import open_model
from rlpipe.importers.libraries.stable_baselines3.spaces import read_space, without_start
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from tests.importers.sb3_zips import GOLDEN, rewritten

NOISE = base64.b64encode(b"not a pickle at all").decode()


def space_in(tmp_path: Path, mirror: Any) -> tuple[Space, tuple[str, ...]]:
    def change(data: dict[str, Any]) -> None:
        data["observation_space"] = mirror

    return read_space(open_model(rewritten("ppo_discrete", tmp_path / "model.zip", data=change)), "observation_space")


def mirror(kind: str, **attributes: Any) -> dict[str, Any]:
    return {":type:": f"<class 'gymnasium.spaces.x.{kind}'>", ":serialized:": NOISE, **attributes}


@pytest.mark.parametrize("name", ["ppo_discrete", "ppo_box", "a2c_choices", "a2c_switches", "sac"])
@pytest.mark.parametrize("field", ["observation_space", "action_space"])
def test_the_text_says_the_same_as_the_pickle(name: str, field: str, tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data[field][":serialized:"] = NOISE

    by_pickle, notes = read_space(open_model(GOLDEN / f"{name}.zip"), field)
    assert not notes
    by_text, notes = read_space(open_model(rewritten(name, tmp_path / "model.zip", data=change)), field)
    assert by_text == by_pickle
    assert "read from text" in notes[0]


def test_a_discrete_space_without_start_begins_at_0(tmp_path: Path) -> None:
    found, _ = space_in(tmp_path, {":type:": "<class 'gym.spaces.discrete.Discrete'>", "n": 4})
    assert found == Discrete(4)


def test_uniform_bounds_are_one_number(tmp_path: Path) -> None:
    text = {"low": "[[-2. -2. ... -2.]]", "high": "[[...]]", "low_repr": "-2.0", "high_repr": "inf"}
    found, _ = space_in(tmp_path, mirror("Box", dtype="float32", _shape=[40, 50], **text))
    assert found == Box.uniform(-2, np.inf, (40, 50))


def test_other_kinds_are_read_from_text(tmp_path: Path) -> None:
    assert space_in(tmp_path, mirror("MultiDiscrete", nvec="[3 2]", start="[0 1]"))[0] == MultiDiscrete(
        np.array([3, 2]), np.array([0, 1])
    )
    assert space_in(tmp_path, mirror("MultiBinary", n=5))[0] == MultiBinary((5,))


@pytest.mark.parametrize(
    "broken",
    [
        mirror("Box", dtype="float32", _shape=[2000], low="[-1. -2. ... 0.]", high="[...]", low_repr=None),
        mirror("Box", dtype="object", _shape=[1], low="[0]", high="[1]"),
        mirror("Box", dtype="float32", _shape=[2**62, 2**62], low_repr="0.0", high_repr="1.0"),
        mirror("Box"),
        mirror("Discrete"),
        mirror("MultiDiscrete", nvec="many"),
        mirror("Dict", spaces="{}"),
        {":type:": "<class 'mine.Space'>", ":serialized:": NOISE},
        {":type:": "<class 'mine.Space'>"},
        "Box(4,)",
        7,
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_field(broken: Any, tmp_path: Path) -> None:
    with pytest.raises(ForeignFormatError) as caught:
        space_in(tmp_path, broken)
    assert "observation_space" in str(caught.value)


@pytest.mark.parametrize("field", ["observation_space", "action_space"])
def test_a_missing_space_is_named_with_what_there_is(field: str, tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        del data[field]

    with pytest.raises(ForeignFormatError) as caught:
        read(rewritten("ppo_discrete", tmp_path / "model.zip", data=change), Options())
    assert caught.value.subject == f"model.zip has no {field}"
    assert "policy_kwargs" in caught.value.found or "and" in caught.value.found
    assert "custom_objects" in caught.value.fix


def test_choices_are_counted_from_0() -> None:
    assert without_start(Discrete(3, 2)) == Discrete(3)
    assert without_start(MultiDiscrete(np.array([3, 2]), np.array([1, 5]))) == MultiDiscrete(np.array([3, 2]))
    assert without_start(MultiBinary((2,))) == MultiBinary((2,))
