"""An older checkpoint goes into a live algorithm that went on; everything is in step at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import restore_into
from rlpipe.errors import TieError
from rlpipe.snapshot.state import equal
from tests.algorithms.whole import TRUST, cartpole_policy, go, require_in_step, training, whole


@dataclass(frozen=True)
class Saved:
    """An algorithm that went on, its checkpoint, and its state when that was written."""

    made: Algorithm
    path: Path
    state: dict[str, Any]


Way = Callable[[Saved], object]
WHOLE: dict[str, Way] = {
    "set_state": lambda at: at.made.set_state(at.state),
    "restore_from_path": lambda at: at.made.restore_from_path(at.path),
    "restore_into": lambda at: restore_into(at.made, read_checkpoint(at.path)),
    "part by part": lambda at: [
        at.made.restore_from_path(at.path / name, component=name)
        for name in ("env_runner", "evaluation_runner", "learner", "policies")
    ],
}
ONE: dict[str, Way] = {
    "learner part": lambda at: at.made.restore_from_path(at.path / "learner/p1", component="learner/p1"),
    "learner part alone": lambda at: at.made.learner["p1"].restore_from_path(at.path / "learner/p1"),  # type: ignore[index]
    "policy of the learner": lambda at: at.made.restore_from_path(
        at.path / "learner/p1/policy", component="learner/p1/policy"
    ),
    "policy": lambda at: at.made.restore_from_path(at.path / "policies/p1", component="policies/p1"),
    "policy alone": lambda at: at.made.get_policy("p1").restore_from_path(at.path / "policies/p1"),
    "policy's set_state": lambda at: at.made.get_policy("p1").set_state(at.state["policies"]["p1"]),
    "part of a state": lambda at: at.made.set_state({"policies": {"p1": at.state["policies"]["p1"]}}),
    "part of the learner's state": lambda at: at.made.set_state({"learner": {"p1": at.state["learner"]["p1"]}}),
    "set_weights": lambda at: at.made.set_weights({"p1": at.state["policies"]["p1"]}),
    "module's set_state": lambda at: at.made.get_policy("p1").module.set_state(_module(at.state)),
}


def _module(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state["policies"]["p1"].items() if name != "observation"}


@pytest.fixture(name="saved")
def _saved(tmp_path: Path) -> Saved:
    made = whole(runners=2)
    go(made, 2)
    path = Path(made.save_to_path(tmp_path / "a"))
    state = made.get_state()
    go(made, 2)
    return Saved(made, path, state)


@pytest.mark.parametrize("way", WHOLE)
def test_the_whole_is_where_it_was(saved: Saved, way: str) -> None:
    made, state = saved.made, saved.state
    assert not equal(made.get_state(), state)
    WHOLE[way](saved)
    require_in_step(made)
    found = made.get_state()
    if way == "part by part":  # the root's own counters belong to none of the parts
        found["counters"] = state["counters"]
    assert equal(found, state)


@pytest.mark.parametrize("way", ONE)
def test_one_policy_is_where_it_was_and_the_rest_stays(saved: Saved, way: str) -> None:
    made, state = saved.made, saved.state
    later = made.get_state()
    ONE[way](saved)
    require_in_step(made)
    found = made.get_state()
    wanted = state["policies"]["p1"]
    if way == "module's set_state":
        wanted = {**wanted, "observation": later["policies"]["p1"]["observation"]}
    assert equal(found["policies"]["p1"], wanted)
    assert equal(found["policies"]["p0"], later["policies"]["p0"])
    assert equal(found["learner"]["p0"], later["learner"]["p0"])
    assert equal(found["learner"]["p1"]["policy"], found["policies"]["p1"])


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("way", WHOLE)
def test_another_number_of_runners_takes_over_the_state(tmp_path: Path, way: str, before: int, after: int) -> None:
    source = whole(runners=before)
    go(source, 1)
    path, state = Path(source.save_to_path(tmp_path / "a")), source.get_state()
    made = whole(runners=after)
    go(made, 2)
    WHOLE[way](Saved(made, path, state))
    require_in_step(made)
    assert made.runners is not None
    assert len(made.runners) == after
    assert all(equal(each.get_own_state(), source.runners.first.get_own_state()) for each in made.runners.runners)  # type: ignore[union-attr]
    go(made, 1)
    require_in_step(made)


def test_after_a_rollback_everything_repeats_itself(saved: Saved) -> None:
    made, path = saved.made, saved.path
    made.restore_from_path(path)
    first = go(made, 2)
    state = made.get_state()
    made.restore_from_path(path)
    assert go(made, 2) == first
    assert equal(made.get_state(), state)
    restored = Algorithm.from_checkpoint(path, trust=("tests.algorithms.training.*",))
    assert go(restored, 2) == first
    assert equal(restored.get_state(), state)


class Refusing(EnvRunner):
    """A runner that fails once when it has taken a state, if it is told to."""

    refuses = False

    def set_own_state(self, state: Any) -> None:
        super().set_own_state(state)
        refuses, self.refuses = self.refuses, False
        if refuses:
            raise RuntimeError("no")


@pytest.mark.parametrize("way", ["set_state", "restore_from_path", "restore_into"])
def test_where_the_last_component_refuses_everything_stays(tmp_path: Path, way: str) -> None:
    policies = {"p0": cartpole_policy(normalised=True)}
    last = Refusing(policies, env="CartPole-v1")
    made = Algorithm(
        policies,
        learner=Learner.for_policies(policies, training(), trust=TRUST),
        env_runner=EnvRunner(policies, env="CartPole-v1"),
        num_env_runners=2,
        evaluation_runner=last,
    )
    go(made, 1)
    saved = Saved(made, Path(made.save_to_path(tmp_path / "a")), made.get_state())
    go(made, 2)
    before = made.get_state()
    last.refuses = True
    with pytest.raises(RuntimeError, match="no"):
        WHOLE[way](saved)
    assert equal(made.get_state(), before)
    require_in_step(made)


@pytest.mark.parametrize("where", [("policies", "p1"), ("learner", "p1", "policy")])
def test_two_states_for_one_policy_are_refused(saved: Saved, where: tuple[str, ...]) -> None:
    made, state = saved.made, saved.state
    before = made.get_state()
    part: Any = state
    for name in where[:-1]:
        part = part[name]
    part[where[-1]] = before["policies"]["p1"]
    with pytest.raises(TieError, match=r"learner/p1/policy and policies/p1"):
        made.set_state(state)
    assert equal(made.get_state(), before)
