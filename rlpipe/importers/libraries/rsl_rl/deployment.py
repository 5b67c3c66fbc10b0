"""What deployment needs beyond the policy: names of elements, and how an action becomes the target of an actuator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

from rlpipe.errors import ConfigError, ForeignFormatError, listed
from rlpipe.importers.libraries.rsl_rl.agent import Agent
from rlpipe.importers.libraries.rsl_rl.environment import actions_of
from rlpipe.importers.libraries.rsl_rl.settings import DESCRIPTORS, Settings, inside, real, reals, texts
from rlpipe.importers.libraries.rsl_rl.terms import (
    TARGETS,
    ActionTerm,
    Numbers,
    ObservationTerm,
    described_actions,
    described_observations,
)
from rlpipe.snapshot.spec import Json

_GROUPS = ("actor", "policy", "student")
_GAINS = {"default_joint_pos": "default_joint_pos", "default_joint_stiffness": "kp", "default_joint_damping": "kd"}


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller says; None for what is left to the settings.

    Attributes:
        observation_names: A name for each element of the observation.
        joint_names: Joints that the action moves, an element each.
        action_scale: A factor for all elements of the action, or for each.
        action_offset: What is added to all, or to each.
    """

    observation_names: tuple[str, ...] | None = None
    joint_names: tuple[str, ...] | None = None
    action_scale: float | Numbers | None = None
    action_offset: float | Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is known; () and None for what is not.

    Attributes:
        observation_names: A name for each element of the observation.
        joint_names: A joint for each element of the action.
        scale: Target of the actuator = scale * action + offset, for each element.
        offset: See `scale`.
        clip: (least, most) of each target; () for no bounds.
        facts: Free facts, as plain JSON.
        notes: What was left out, and why.
    """

    observation_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    scale: Numbers | None
    offset: Numbers | None
    clip: tuple[tuple[float, float], ...]
    facts: Mapping[str, Json]
    notes: tuple[str, ...]


def deployment_of(settings: Settings, agent: Agent, given: Given, *, inputs: int, actions: int) -> Deployment:
    """What the settings and the caller say about a policy of so many inputs and actions.

    Raises:
        ConfigError: The caller gives another count of names or numbers than there are elements.
        ForeignFormatError: The settings describe an action of another width.
    """
    _require_counts(given, inputs, actions)
    seen, notes = _observations(settings, agent, inputs)
    terms = _actions(settings, given, actions)
    joints = given.joint_names or _joints(terms, actions)
    names = given.observation_names or tuple(name for term in seen for name in term.elements)
    scale, offset, clip = _target(terms, given, actions)
    if terms and scale is None:
        notes = (*notes, _no_target(terms, joints))
    facts = {
        "observations": [term.to_json() for term in seen],
        "actions": [term.to_json() for term in terms],
        "joint_names": list(joints),
        **_robot(settings.descriptors),
        **_rates(settings),
    }
    return Deployment(
        observation_names=names,
        joint_names=joints,
        scale=scale,
        offset=offset,
        clip=clip,
        facts={name: value for name, value in facts.items() if value},
        notes=notes,
    )


def _require_counts(given: Given, inputs: int, actions: int) -> None:
    counts: dict[str, tuple[Any, int]] = {
        "source.observation_names": (given.observation_names, inputs),
        "source.joint_names": (given.joint_names, actions),
        "source.action_scale": (given.action_scale, actions),
        "source.action_offset": (given.action_offset, actions),
    }
    wrong = {key: (len(value), size) for key, (value, size) in counts.items() if _has_other_length(value, size)}
    if wrong:
        raise ConfigError(
            f"{' and '.join(sorted(wrong))} do not fit the policy",
            expected=listed(f"{size} for {key}" for key, (_, size) in wrong.items()),
            found=listed(f"{found} for {key}" for key, (found, _) in wrong.items()),
            fix="give one for each element",
        )


def _has_other_length(value: Any, size: int) -> bool:
    return isinstance(value, tuple) and len(value) != size


def _observations(settings: Settings, agent: Agent, inputs: int) -> tuple[tuple[ObservationTerm, ...], tuple[str, ...]]:
    """The terms of the observation, if they add up to what the policy takes."""
    known = inside(settings.descriptors, "observations")
    groups = agent.groups or tuple(name for name in _GROUPS if inside(known, name))[:1]
    terms = described_observations(settings.descriptors, groups)
    size = sum(len(term.elements) for term in terms)
    if not terms or size == inputs:
        return terms, ()
    note = f"{DESCRIPTORS} describes {size} elements of {' and '.join(groups)}, the policy takes {inputs}: not used"
    return (), (note,)


def _actions(settings: Settings, given: Given, actions: int) -> tuple[ActionTerm, ...]:
    terms = described_actions(settings.descriptors)
    if not terms:
        return actions_of(settings.env, given.joint_names or (), actions)
    sizes = [len(term.scale or term.joints) for term in terms]
    if 0 not in sizes and sum(sizes) != actions:
        raise ForeignFormatError(
            f"{DESCRIPTORS} does not belong to the policy",
            expected=f"{actions} elements of the action",
            found=f"{sum(sizes)} in {listed(term.name for term in terms)}",
            fix="source.params=<folder of the right one>, or source.params=none",
        )
    return terms


def _joints(terms: Sequence[ActionTerm], actions: int) -> tuple[str, ...]:
    joints = tuple(joint for term in terms for joint in term.joints)
    return joints if len(joints) == actions else ()


_Target: TypeAlias = tuple[Numbers | None, Numbers | None, tuple[tuple[float, float], ...]]
"""Scale, offset and bounds of the targets."""


def _target(terms: Sequence[ActionTerm], given: Given, actions: int) -> _Target:
    """What the caller gives comes first, then what the settings say; of two, one that nobody knows does nothing."""
    is_target = bool(terms) and all(term.kind in TARGETS for term in terms)
    scale = _whole([term.scale for term in terms], actions) if is_target else None
    offset = _whole([term.offset for term in terms], actions) if is_target else None
    clip = _bounds(terms) if is_target else ()
    if given.action_scale is None and given.action_offset is None:
        is_known = scale is not None and offset is not None and clip is not None
        return (scale, offset, clip or ()) if is_known else (None, None, ())
    factors = scale or (1.0,) * actions if given.action_scale is None else _spread(given.action_scale, actions)
    added = offset or (0.0,) * actions if given.action_offset is None else _spread(given.action_offset, actions)
    return factors, added, clip or ()


def _whole(parts: Sequence[Numbers | None], actions: int) -> Numbers | None:
    """The numbers of all terms, if each has its own and they are as many as the action has elements."""
    numbers = tuple(number for part in parts for number in part or ())
    return numbers if None not in parts and len(numbers) == actions else None


def _bounds(terms: Sequence[ActionTerm]) -> tuple[tuple[float, float], ...] | None:
    """The bounds of all elements; () for none, None where a term has some that are not known."""
    if any(term.clip is None for term in terms):
        return None
    if not any(term.clip for term in terms):
        return ()
    return tuple(pair for term in terms for pair in term.clip or ((-inf, inf),) * len(term.scale or ()))


def _spread(value: float | Numbers, size: int) -> Numbers:
    return value if isinstance(value, tuple) else (value,) * size


def _no_target(terms: Sequence[ActionTerm], joints: Sequence[str]) -> str:
    kinds = listed(f"{term.name} ({term.kind or 'of an unknown class'})" for term in terms)
    by_name = not joints and len(terms) == 1 and terms[0].kind in TARGETS
    keys = f"{'source.joint_names=[...], or ' if by_name else ''}source.action_scale and source.action_offset"
    return (
        f"the settings do not say how the action {kinds} becomes a target of the actuators; where needed, give {keys}"
    )


def _robot(descriptors: Mapping[str, Any]) -> dict[str, Json]:
    """Joints of the robot with where they rest and their gains, for a scene with one robot."""
    robots = descriptors.get("articulations")
    if not isinstance(robots, dict) or len(robots) != 1:
        return {}
    ((name, robot),) = robots.items()
    joints = texts(inside(robot, "joint_names"))
    found = {ours: reals(inside(robot, theirs)) for theirs, ours in _GAINS.items()}
    numbers: dict[str, Any] = {
        key: list(value) for key, value in found.items() if value is not None and len(value) == len(joints)
    }
    return {"robot": {"name": str(name), "joint_names": list(joints), **numbers}} if joints else {}


def _rates(settings: Settings) -> dict[str, Json]:
    """How often the policy acts, in Hz."""
    step = real(inside(settings.descriptors, "scene", "dt"))
    if step is None:
        physics = real(inside(settings.env, "sim", "dt") or inside(settings.env, "sim", "mujoco", "timestep"))
        repeats = real(settings.env.get("decimation"))
        step = physics * repeats if physics is not None and repeats is not None else None
    return {"rate_hz": round(1.0 / step, 6)} if step is not None and step > 1e-6 else {}
