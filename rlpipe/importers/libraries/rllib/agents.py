"""Which agent of an environment with several a policy plays, as far as the connectors around it tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rlpipe.errors import ForeignFormatError, NormalizerError, listed
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.libraries.rllib.connectors import FILTER, Connectors, agents_of
from rlpipe.importers.libraries.rllib.reshaping import Stages, reshaping
from rlpipe.policies.stages import prepared_space
from rlpipe.snapshot.spaces import Box, Space


def is_multi_agent(connectors: Connectors) -> bool:
    """Whether they see the observations of several agents."""
    return any(piece.kwargs.get("multi_agent") is True for piece in connectors.before)


def agent_of(taken: Space, connectors: Connectors, policy_id: str, given: str | None) -> str | None:
    """The agent whose observations a policy gets; None where there is but one.

    Args:
        taken: Space of what its module takes.
        connectors: What stands before that.
        policy_id: The policy.
        given: The agent, where that was said.

    Raises:
        NormalizerError: There is no such agent; or several could be meant, and their observations differ.
    """
    if not is_multi_agent(connectors):
        if given is not None:
            raise no_such_agent(policy_id, given, ())
        return None
    agents = list(agents_of(connectors.observation_space))
    if given is not None:
        if given not in agents:
            raise no_such_agent(policy_id, given, agents)
        return given
    fitting = [name for name in agents if _may_play(connectors, name, taken)]
    if policy_id in fitting:
        return policy_id
    if fitting and len(_kinds(connectors, fitting)) == 1:
        return fitting[0]
    if len(fitting) != 1:
        raise _which_agent(policy_id, fitting or agents)
    return fitting[0]


def _kinds(connectors: Connectors, agents: Sequence[str]) -> Sequence[Any]:
    """What tells agents apart: each one's statistics, or without any their spaces alone."""
    if any(piece.class_name == FILTER for piece in connectors.before):
        return agents
    spaces = agents_of(connectors.observation_space)
    found = [space_of(spaces[name], subject=f"the observation space of {name}") for name in agents]
    return [space for index, space in enumerate(found) if space not in found[:index]]


def _may_play(connectors: Connectors, agent: str, taken: Space) -> bool:
    space = space_of(agents_of(connectors.observation_space)[agent], subject=f"the observation space of {agent}")
    try:
        stages: Stages = ()
        for piece in connectors.before:
            stages += reshaping(piece, prepared_space(space, stages))
        return shape_of_box(prepared_space(space, stages)) == shape_of_box(taken)
    except ForeignFormatError:
        return False


def _which_agent(policy_id: str, agents: list[str]) -> NormalizerError:
    return NormalizerError(
        f"observations of {policy_id} are prepared agent by agent, and nothing says which agent it plays",
        expected=f"one of the agents {listed(agents)}",
        found="a mapping from agents to policies that is code",
        fix=f"say whose observations it is given: {_naming(policy_id, agents[0] if agents else 'agent')}",
    )


def _naming(policy_id: str, agent: str) -> str:
    """The override that names an agent."""
    if re.fullmatch(r"\w+", policy_id, re.ASCII):
        return f"source.filter_agent.{policy_id}={agent}"
    return f"'source.filter_agent={{{policy_id}: {agent}}}'"


def no_such_agent(policy_id: str, given: str, agents: tuple[str, ...] | list[str]) -> NormalizerError:
    """The error about an agent that was named and is not there."""
    return NormalizerError(
        f"source.filter_agent.{policy_id} names no agent of this checkpoint",
        expected=f"one of {listed(agents)}" if agents else "nothing: it keeps statistics of no single agents",
        found=given,
        fix="name one of its agents" if agents else "leave it away",
    )


def shape_of_box(space: Space) -> tuple[int, ...] | None:
    """The shape of a Box, None for any other space."""
    return space.shape if isinstance(space, Box) else None
