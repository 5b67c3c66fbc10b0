"""Which agent a policy plays, as far as that can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rlpipe.errors import NormalizerError
from rlpipe.importers.libraries.rllib.agents import agent_of, is_multi_agent
from rlpipe.importers.libraries.rllib.connectors import Connectors, agents_of, read_connectors
from rlpipe.importers.libraries.rllib.constructors import Constructor
from rlpipe.snapshot.spaces import Box
from tests.importers.rllib_folders import GOLDEN

TAKEN = Box.uniform(-1, 1, (3,))


class Spaces:
    """Stands for the pickled Dict of the spaces of several agents."""

    def __init__(self, spaces: Mapping[str, Any]) -> None:
        self.spaces = spaces

    def attribute(self, name: str) -> Any:
        return self.spaces if name == "spaces" else None


def connectors(kind: str, **agents: str) -> Connectors:
    """A piece that sees several agents, each with the space that an agent of the golden pair has."""
    golden = read_connectors(GOLDEN / "pair_filtered" / "env_runner")
    assert golden is not None
    spaces = agents_of(golden.observation_space)
    return Connectors(
        folder=golden.folder,
        observation_space=Spaces({agent: spaces[like] for agent, like in agents.items()}),
        before=(Constructor(f"ray.rllib.connectors.x.{kind}", (), {"multi_agent": True}),),
        after=None,
    )


def test_the_agent_whose_observations_fit_is_it() -> None:
    for kind in ("MeanStdFilter", "FlattenObservations"):
        found = connectors(kind, a="left", b="right")
        assert is_multi_agent(found)
        assert agent_of(TAKEN, found, "p", None) == "a"


def test_an_agent_of_the_policy_s_name_is_it() -> None:
    assert agent_of(TAKEN, connectors("MeanStdFilter", a="left", b="left"), "b", None) == "b"


def test_agents_that_see_alike_need_not_be_told_apart_but_for_their_statistics() -> None:
    assert agent_of(TAKEN, connectors("FlattenObservations", a="left", b="left"), "p", None) == "a"
    with pytest.raises(NormalizerError, match=r"source\.filter_agent\.p=a"):
        agent_of(TAKEN, connectors("MeanStdFilter", a="left", b="left"), "p", None)
    assert agent_of(TAKEN, connectors("MeanStdFilter", a="left", b="left"), "p", "b") == "b"


def test_no_agent_that_fits_is_refused() -> None:
    with pytest.raises(NormalizerError, match="nothing says which agent it plays"):
        agent_of(TAKEN, connectors("FlattenObservations", a="right", b="right"), "p", None)


def test_an_agent_that_is_not_there_is_refused() -> None:
    with pytest.raises(NormalizerError, match="names no agent"):
        agent_of(TAKEN, connectors("MeanStdFilter", a="left"), "p", "c")
