from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlpipe.algorithms.masks import allowed_now, info_of, require_width
from rlpipe.errors import EnvironmentMismatchError


class Silent(gymnasium.Env[Any, Any]):
    """Says nothing."""


class Saying(Silent):
    """Says what it allows."""

    def action_masks(self) -> Any:
        return [True, False]


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (np.array([1, 0, 2], np.int8), [True, False, True]),
        ([True, False], [True, False]),
        (np.array([[True], [False]]), [True, False]),
        ((np.array([1, 0]), np.array([0, 1, 1])), [True, False, False, True, True]),
    ],
)
def test_an_info_says_it_as_flags_of_one_choice_or_of_several(value: Any, row: list[bool]) -> None:
    found = allowed_now(Silent(), {"action_mask": value, "other": 1})
    assert found is not None
    assert (found.dtype.name, found.tolist()) == ("bool", row)


def test_an_environment_that_says_it_itself_counts_before_its_info() -> None:
    found = allowed_now(Saying(), {"action_mask": [False, True]})
    assert found is not None
    assert found.tolist() == [True, False]
    assert allowed_now(Silent(), {}) is None


def test_infos_of_environments_that_are_stepped_together() -> None:
    infos = {"action_mask": np.array([[1, 0], [0, 0]]), "_action_mask": np.array([True, False])}
    assert info_of(infos, 0)["action_mask"].tolist() == [1, 0]
    assert info_of(infos, 1) == {}
    assert info_of({}, 0) == {}


def test_a_row_has_a_flag_for_each_choice() -> None:
    row = np.ones(3, bool)
    assert require_width(row, 3, "Env-v0") is row
    with pytest.raises(EnvironmentMismatchError, match="Env-v0") as caught:
        require_width(row, 2, "Env-v0")
    assert caught.value.found == "3"
