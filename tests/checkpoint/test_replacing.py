"""A component gets one state, and of several components all get theirs or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlpipe.checkpoint.following import follow
from rlpipe.errors import TieError
from rlpipe.snapshot.state import State, copied, equal
from tests.checkpoint.components import Net, Open, Team


class Refusing(Net):
    """Fails once when it has taken half of its state, if it is told to."""

    refuses = False

    def set_own_state(self, state: State) -> None:
        self.actor[...] = state["pi"]["weight"]
        refuses, self.refuses = self.refuses, False
        if refuses:
            raise RuntimeError("no")
        super().set_own_state(state)


class RefusingInPlace(Open, Refusing):
    """The same, whose memory is filled from outside."""


def filled(net: Any, value: float) -> Any:
    net.actor[:], net.critic[:], net.steps = value, value, int(value)
    return net


@pytest.mark.parametrize("kind", [Refusing, RefusingInPlace])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("way", ["file", "state"])
def test_where_one_refuses_all_stay_as_they_were(tmp_path: Path, kind: Any, place: int, way: str) -> None:
    nets: list[Any] = [filled(Net(), 1), filled(Open(), 2)]
    nets.insert(place, filled(kind(), 3))
    made = Team({f"p{index}": net for index, net in enumerate(nets)}, epsilon=0.1)
    path, state = made.save_to_path(tmp_path / "a"), made.get_state()
    for net in nets:
        filled(net, 9)
    made.epsilon = 0.7
    before = made.get_state()
    nets[place].refuses = True
    with pytest.raises(RuntimeError, match="no"):
        made.restore_from_path(path) if way == "file" else made.set_state(state)
    assert equal(made.get_state(), before)
    made.restore_from_path(path)
    assert equal(made.get_state(), state)


def test_where_a_copy_cannot_follow_all_stay_as_they_were() -> None:
    made = Team({"p0": filled(Net(), 1)})
    heard: list[int] = []

    class Follower:
        def copy(self) -> None:
            heard.append(made.nets["p0"].steps)
            if heard[-1] == 5:
                raise RuntimeError("no")

    follower = Follower()
    follow(made.nets["p0"], follower.copy)
    state = Team({"p0": filled(Net(), 5)}).get_state()
    before = made.get_state()
    with pytest.raises(RuntimeError, match="no"):
        made.set_state(state)
    assert equal(made.get_state(), before)
    assert heard == [5, 1]


class Stand(Net):
    """Stands for another net, with copies of its arrays."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def get_own_state(self) -> State:
        return copied(self.net.get_own_state())

    def set_own_state(self, state: State) -> None:
        self.net.set_own_state(state)

    def stands_for(self) -> Net:
        return self.net


def test_a_component_in_two_places_gets_one_state() -> None:
    net = filled(Net(), 1)
    made = Team({"p0": net, "p1": Stand(net)})
    state = made.get_state()
    other = filled(Net(), 2).get_state()
    with pytest.raises(TieError, match=r"p0 and p1 \(pi/weight differs\)"):
        made.set_state({**state, "p0": other})
    assert equal(made.get_state(), state)
    net.calls.clear()
    made.set_state({**state, "p0": other, "p1": other})
    assert equal(made.get_state()["p0"], other)
    assert net.calls == ["set"]
