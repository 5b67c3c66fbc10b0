"""The stages before a module: what RLlib's connectors do to the observations of the agent that the policy plays."""

from __future__ import annotations

from dataclasses import dataclass

from rlpipe.errors import ForeignFormatError, NormalizerError
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.libraries.rllib.agents import agent_of, is_multi_agent, no_such_agent, shape_of_box
from rlpipe.importers.libraries.rllib.connectors import FILTER, FLATTEN, Connectors, agents_of
from rlpipe.importers.libraries.rllib.files import read_state
from rlpipe.importers.libraries.rllib.reshaping import Stages, module_stages, reshaping
from rlpipe.importers.libraries.rllib.statistics import EPS, Statistics, statistics_of
from rlpipe.policies.stages import (
    Normalize,
    prepared_space,
)
from rlpipe.snapshot.spaces import Box, Space


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Observing:
    """How a policy sees.

    Attributes:
        space: What the environment gives.
        stages: From there to what the module takes.
        statistics: Of the stage `normalize`, or None.
        notes: Sentences for people.
    """

    space: Space
    stages: Stages
    statistics: Statistics | None = None
    notes: tuple[str, ...] = ()


def observe(taken: Space, connectors: Connectors | None, policy_id: str, agent: str | None) -> Observing:
    """How a module sees whose observation space is `taken`.

    Args:
        taken: Space of what the module takes.
        connectors: What stands before it, or None if that is not known.
        policy_id: The policy.
        agent: The agent that it plays, where that was said.

    Raises:
        NormalizerError: There are statistics of several agents, and nothing tells which are the policy's.
        ForeignFormatError: The connectors do not lead to what the module takes.
    """
    if connectors is None or not connectors.before:
        if agent is not None:
            raise no_such_agent(policy_id, agent, ())
        return Observing(space=taken, stages=module_stages(taken))
    chosen = agent_of(taken, connectors, policy_id, agent)
    agents = agents_of(connectors.observation_space) if is_multi_agent(connectors) else {}
    given = connectors.observation_space if chosen is None else agents[chosen]
    space = space_of(given, subject=f"the observation space of {chosen or 'the environment'}")
    stages: Stages = ()
    statistics = None
    for piece in connectors.before:
        between = prepared_space(space, stages)
        stages += reshaping(piece, between)
        if piece.class_name == FILTER:
            statistics = _statistics(connectors, chosen, between, has_some=statistics is not None)
            stages += (Normalize("std_eps", EPS, statistics.clip),)
    made = prepared_space(space, stages)
    _require_taken(made, taken, policy_id)
    stages += module_stages(made)
    notes = (f"{policy_id} sees through the statistics of agent {chosen}",) if agents and statistics else ()
    return Observing(space=space, stages=stages, statistics=statistics, notes=notes)


def seen_by(observing: Observing) -> Box:
    """The space of what a module takes behind `module_stages`."""
    space = prepared_space(observing.space, observing.stages)
    if not isinstance(space, Box):
        raise TypeError(f"a module takes {space.describe()}")
    return space


def _statistics(connectors: Connectors, agent: str | None, space: Space, *, has_some: bool) -> Statistics:
    if has_some:
        raise ForeignFormatError("observations go through two MeanStdFilters", expected="one", found="two")
    if not isinstance(space, Box):
        raise ForeignFormatError(
            f"{FILTER} normalises observations that cannot be imported yet",
            expected=f"a Box, so that {FLATTEN} stands before {FILTER}",
            found=space.describe(),
        )
    state = {str(name): value for name, value in read_state(connectors.folder / FILTER, "state").items()}
    subject = f"{FILTER} for agent {agent}" if agent else FILTER
    found = statistics_of(state.get(str(agent)), subject=subject)
    if found.mean.shape != space.shape:
        expected, shape = f"statistics of shape {space.shape}", str(found.mean.shape)
        raise NormalizerError(f"{subject} does not fit the observations", expected=expected, found=shape)
    return found


def _require_taken(made: Space, taken: Space, policy_id: str) -> None:
    if shape_of_box(made) != shape_of_box(taken):
        raise ForeignFormatError(
            f"the connectors do not lead to what the module {policy_id} takes",
            expected=taken.describe(),
            found=made.describe(),
            fix="the checkpoint is not whole, or its pieces are of different trainings",
        )
