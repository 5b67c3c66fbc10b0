"""The stages before a module: what RLlib's connectors do to the observations of the agent that the policy plays."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rlpipe.errors import ForeignFormatError, NormalizerError, listed
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.libraries.rllib.connectors import FILTER, FLATTEN, Connectors, agents_of
from rlpipe.importers.libraries.rllib.constructors import Constructor
from rlpipe.importers.libraries.rllib.files import read_state
from rlpipe.importers.libraries.rllib.statistics import EPS, Statistics, statistics_of
from rlpipe.policies.dict_stages import keyed
from rlpipe.policies.stages import Cast, Concat, Flatten, Layout, Normalize, OneHot, PerKey, Stage, prepared_space
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Stages = tuple[Stage, ...]
_FLOAT32 = np.dtype(np.float32)


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
            raise _no_such_agent(policy_id, agent, ())
        return Observing(space=taken, stages=module_stages(taken))
    chosen = _agent(taken, connectors, policy_id, agent)
    agents = agents_of(connectors.observation_space) if _is_multi_agent(connectors) else {}
    given = connectors.observation_space if chosen is None else agents[chosen]
    space = space_of(given, subject=f"the observation space of {chosen or 'the environment'}")
    stages: Stages = ()
    statistics = None
    for piece in connectors.before:
        between = prepared_space(space, stages)
        if piece.class_name == FLATTEN:
            stages += _flattened(piece, between)
        elif piece.class_name == FILTER:
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


def module_stages(space: Space) -> Stages:
    """From a Box of any dtype to one row of float32, or to an image with its channels first.

    Raises:
        ForeignFormatError: The space is neither: RLlib's default modules take nothing else.
    """
    if isinstance(space, Box) and len(space.shape) in (1, 3):
        cast: Stages = () if space.dtype == _FLOAT32 else (Cast("float32"),)
        return cast if len(space.shape) == 1 else (*cast, Layout((2, 0, 1)))
    raise ForeignFormatError(
        "a module takes observations that cannot be imported",
        expected="a Box of one axis, or an image of three with the channels last",
        found=space.describe(),
        fix=f"train with the connector {FLATTEN}, or build an RLModule and load the weights into it",
    )


def _is_multi_agent(connectors: Connectors) -> bool:
    return any(piece.kwargs.get("multi_agent") is True for piece in connectors.before)


def _agent(taken: Space, connectors: Connectors, policy_id: str, given: str | None) -> str | None:
    """The agent whose observations a policy gets; None where there is but one."""
    if not _is_multi_agent(connectors):
        if given is not None:
            raise _no_such_agent(policy_id, given, ())
        return None
    agents = list(agents_of(connectors.observation_space))
    if given is not None:
        if given not in agents:
            raise _no_such_agent(policy_id, given, agents)
        return given
    fitting = [name for name in agents if _may_play(connectors, name, taken)]
    if policy_id in fitting:
        return policy_id
    if len(fitting) != 1:
        raise _which_agent(policy_id, fitting or agents)
    return fitting[0]


def _may_play(connectors: Connectors, agent: str, taken: Space) -> bool:
    space = space_of(agents_of(connectors.observation_space)[agent], subject=f"the observation space of {agent}")
    try:
        stages: Stages = ()
        for piece in connectors.before:
            if piece.class_name == FLATTEN:
                stages += _flattened(piece, prepared_space(space, stages))
        return _shape(prepared_space(space, stages)) == _shape(taken)
    except ForeignFormatError:
        return False


def _shape(space: Space) -> tuple[int, ...] | None:
    return space.shape if isinstance(space, Box) else None


def _which_agent(policy_id: str, agents: list[str]) -> NormalizerError:
    return NormalizerError(
        f"observations of {policy_id} were normalised agent by agent, and nothing says which agent it plays",
        expected=f"one of the agents {listed(agents)}",
        found="a mapping from agents to policies that is code",
        fix=f"say whose statistics it sees through: {_naming(policy_id, agents[0] if agents else 'agent')}",
    )


def _naming(policy_id: str, agent: str) -> str:
    """The override that names an agent."""
    if re.fullmatch(r"\w+", policy_id, re.ASCII):
        return f"source.filter_agent.{policy_id}={agent}"
    return f"'source.filter_agent={{{policy_id}: {agent}}}'"


def _no_such_agent(policy_id: str, given: str, agents: tuple[str, ...] | list[str]) -> NormalizerError:
    return NormalizerError(
        f"source.filter_agent.{policy_id} names no agent of this checkpoint",
        expected=f"one of {listed(agents)}" if agents else "nothing: it keeps statistics of no single agents",
        found=given,
        fix="name one of its agents" if agents else "leave it away",
    )


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


def _flattened(piece: Constructor, space: Space) -> Stages:
    """One row of float32: choices as one-hot, parts of a Dict in the order of their keys."""
    unknown = {name: piece.kwargs.get(name) for name in ("keys_to_remove", "agent_ids") if piece.kwargs.get(name)}
    if unknown:
        raise ForeignFormatError(
            f"{FLATTEN} leaves out parts of observations, which cannot be imported yet",
            expected="no keys_to_remove and no agent_ids",
            found=", ".join(f"{name}={value}" for name, value in unknown.items()),
        )
    return flat_stages(space)


def flat_stages(space: Space) -> Stages:
    """See `_flattened`: flatten_inputs_to_1d_tensor() in ray/rllib/utils/numpy.py.

    Raises:
        ForeignFormatError: A part that has no such form, such as Text.
    """
    if isinstance(space, Box | MultiBinary):
        cast = () if space.dtype == _FLOAT32 else (Cast("float32"),)
        return (*cast, *(() if len(space.shape) == 1 else (Flatten(),)))
    if isinstance(space, Discrete):
        return (OneHot((space.n,), (space.start,)),)
    if isinstance(space, MultiDiscrete):
        counts, starts = (tuple(numbers.reshape(-1).tolist()) for numbers in (space.nvec, space.start))
        return (OneHot(counts, starts),)
    if isinstance(space, Dict | Tuple):
        parts = keyed(space)
        return (PerKey({key: flat_stages(part) for key, part in parts.items()}), Concat(tuple(parts)))
    raise ForeignFormatError(f"{FLATTEN} took a part that cannot be imported", expected="numbers", found=str(space))


def _require_taken(made: Space, taken: Space, policy_id: str) -> None:
    if _shape(made) != _shape(taken):
        raise ForeignFormatError(
            f"the connectors do not lead to what the module {policy_id} takes",
            expected=taken.describe(),
            found=made.describe(),
            fix="the checkpoint is not whole, or its pieces are of different trainings",
        )
