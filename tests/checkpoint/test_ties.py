from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.manifest import TieMember
from rlpipe.checkpoint.ties import tree_ties
from rlpipe.snapshot import Snapshot, Spec
from rlpipe.snapshot.state import entries

A, B = np.arange(3), np.arange(3)


def of(state: Any, **children: Snapshot) -> Snapshot:
    return Snapshot(Spec("rlpipe.Any"), state, dict.fromkeys(entries(state), "inference"), children)


def test_inside_a_component() -> None:
    found = tree_ties(of({"x": A, "y": {"z": A}, "other": B}))
    assert found.inner == {"": (("x", "y/z"),)}
    assert found.outer == {}


def test_between_children() -> None:
    found = tree_ties(of({}, p=of({"x": A}), q=of({"y": A, "z": A}), r=of({"x": B})))
    assert found.inner == {"q": (("y", "z"),)}
    assert found.outer == {"": ((TieMember("p", "x"), TieMember("q", "y")),)}


def test_each_component_that_holds_two_members_lists_the_tie() -> None:
    found = tree_ties(of({}, learner=of({"w": A}), policies=of({}, p=of({"w": A}), q=of({"w": A}))))
    assert found.outer == {
        "": ((TieMember("learner", "w"), TieMember("policies/p", "w"), TieMember("policies/q", "w")),),
        "policies": ((TieMember("p", "w"), TieMember("q", "w")),),
    }


def test_a_parent_with_its_child() -> None:
    found = tree_ties(of({"w": A}, p=of({"w": A})))
    assert found.outer == {"": ((TieMember("", "w"), TieMember("p", "w")),)}


@pytest.mark.parametrize(
    ("left", "right"),
    [(A, A.copy()), (A, A[:2]), (A, A[::-1]), (np.zeros(0), np.zeros(0)), (A, A.view(np.uint64))],
)
def test_what_is_not_one(left: Any, right: Any) -> None:
    assert tree_ties(of({"x": left, "y": right})).inner == {}
