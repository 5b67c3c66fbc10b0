from __future__ import annotations

import gc
from pathlib import Path

from rlpipe.checkpoint.following import everything_in, follow, quietly, tell
from tests.checkpoint.components import Team, team


class Listener:
    def __init__(self) -> None:
        self.heard = 0

    def hear(self) -> None:
        self.heard += 1


def followed() -> tuple[Team, Listener]:
    made, listener = team(1, 2), Listener()
    for component in everything_in(made):
        follow(component, listener.hear)
        follow(component, listener.hear)
    return made, listener


def test_every_way_of_restoring_is_heard_once(tmp_path: Path) -> None:
    made, listener = followed()
    path = made.save_to_path(tmp_path / "a")
    made.restore_from_path(path)
    made.set_state(made.get_state())
    made.nets["p0"].set_state(made.nets["p0"].get_state())
    made.restore_from_path(f"{path}/p1", component="p1")
    assert listener.heard == 4
    made.get_state()
    assert listener.heard == 4


def test_quietly_nobody_hears() -> None:
    made, listener = followed()
    with quietly():
        made.set_state(made.get_state())
    assert listener.heard == 0
    made.set_state(made.get_state())
    assert listener.heard == 1


def test_following_keeps_nothing_alive() -> None:
    made, listener = followed()
    del listener
    gc.collect()
    tell(everything_in(made))


def test_all_is_set_before_anybody_hears() -> None:
    made = team(1, 2)
    seen: list[float] = []

    class Reader:
        def read(self) -> None:
            seen.extend([made.epsilon, *(net.steps for net in made.nets.values())])

    reader = Reader()
    for component in everything_in(made):
        follow(component, reader.read)
    state = {**team(5, 6).get_state(), "epsilon": 0.25}
    made.set_state(state)
    assert seen == [0.25, 5, 6]
