"""What an environment makes of an action, and of what an observation is made: terms, as Isaac Lab and mjlab call them.

Source: process_actions in isaaclab/envs/mdp/actions/joint_actions.py: raw * scale + offset, then clipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from rlpipe.importers.libraries.rsl_rl.settings import inside, real, reals, texts
from rlpipe.snapshot.spec import Json

Numbers = tuple[float, ...]

TARGETS = ("JointPositionAction", "JointVelocityAction", "JointEffortAction")
"""Actions whose result is the target of an actuator itself, and no step away from where the joint is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTerm:
    """Some elements of the action.

    Attributes:
        name: The environment's name for it.
        kind: Name of its class.
        joints: Joints that it moves, in the order of the elements; () if unknown.
        scale: A factor for each element; None if unknown.
        offset: What is added to each; None if unknown.
        clip: (least, most) of each result; () for no bounds; None if unknown.
    """

    name: str
    kind: str
    joints: tuple[str, ...] = ()
    scale: Numbers | None = None
    offset: Numbers | None = None
    clip: tuple[tuple[float, float], ...] | None = ()

    def to_json(self) -> dict[str, Json]:
        """What is known, as plain JSON."""
        parts: dict[str, Any] = {
            "name": self.name,
            "type": self.kind,
            "joint_names": list(self.joints),
            "scale": _listed(self.scale),
            "offset": _listed(self.offset),
            # JSON knows no infinity.
            "clip": [[end if isfinite(end) else None for end in pair] for pair in self.clip or ()],
        }
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTerm:
    """Some elements of the observation.

    Attributes:
        group: Its observation group.
        name: The environment's name for it.
        elements: A name for each element.
        facts: Units, scale and the like, as plain JSON.
    """

    group: str
    name: str
    elements: tuple[str, ...]
    facts: Mapping[str, Json]

    def to_json(self) -> dict[str, Json]:
        """Plain JSON."""
        return {"group": self.group, "name": self.name, "size": len(self.elements), **self.facts}


def _listed(numbers: Numbers | None) -> list[float] | None:
    return None if numbers is None else list(numbers)


def spread(value: Any, size: int) -> Numbers | None:
    """One number for all elements, or one for each; a table has a row for each environment, all alike."""
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        value = value[0]
    number = real(value)
    numbers = reals(value) if number is None else (number,) * size
    return numbers if numbers is not None and len(numbers) == size else None


def described_actions(descriptors: Mapping[str, Any]) -> tuple[ActionTerm, ...]:
    """The action terms of an IO descriptor, in the order of the action."""
    return tuple(_described_action(item) for item in _mappings(descriptors.get("actions")))


def _described_action(item: Mapping[str, Any]) -> ActionTerm:
    joints = texts(item.get("joint_names"))
    size = _size(item) or len(joints)
    return ActionTerm(
        name=_text(item, "name"),
        kind=_text(item, "full_path").rpartition(".")[2],
        joints=joints if len(joints) == size else (),
        scale=spread(item.get("scale"), size),
        offset=spread(item.get("offset"), size),
        clip=_bounds(item.get("clip"), size),
    )


def _bounds(value: Any, size: int) -> tuple[tuple[float, float], ...] | None:
    if value is None:
        return ()
    pairs = [bounds for item in value if (bounds := _pair(item))] if isinstance(value, list) else []
    return tuple(pairs) if len(pairs) == size and isinstance(value, list) and len(value) == size else None


def _pair(value: Any) -> tuple[float, float] | None:
    """(least, most); an infinite bound is none."""
    if not isinstance(value, list) or len(value) != 2 or any(type(end) not in (int, float) for end in value):
        return None
    least, most = (float(end) if isinstance(end, float) or abs(end) < 1e300 else nan for end in value)
    return (least, most) if least <= most else None


def described_observations(descriptors: Mapping[str, Any], groups: Iterable[str]) -> tuple[ObservationTerm, ...]:
    """The observation terms of some groups of an IO descriptor, in the order of the observation."""
    return tuple(
        _described_observation(item, group)
        for group in groups
        for item in _mappings(inside(descriptors, "observations", group))
    )


def _described_observation(item: Mapping[str, Any], group: str) -> ObservationTerm:
    name, size = _text(item, "name"), _size(item)
    joints = texts(item.get("joint_names"))
    axes = texts(inside(item, "extras", "axes"))
    parts = next((names for names in (joints, axes) if len(names) == size), None)
    one = (name,) if size == 1 else tuple(f"{name}.{part}" for part in parts or range(size))
    overloads = item.get("overloads") or {}
    history = inside(overloads, "history_length")
    steps = history if type(history) is int and 1 < history < 10_000 else 1
    elements = one if steps == 1 else tuple(f"{each}@{step - steps + 1}" for step in range(steps) for each in one)
    facts: dict[str, Any] = {
        "units": _text(item.get("extras") or {}, "units"),
        "joint_names": list(joints),
        "scale": inside(overloads, "scale"),
        "clip": inside(overloads, "clip"),
        "history": steps if steps > 1 else None,
    }
    kept = {key: value for key, value in facts.items() if value and is_plain(value)}
    return ObservationTerm(group=group, name=name, elements=elements, facts=kept)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _size(item: Mapping[str, Any]) -> int:
    """Elements of a term, by its shape; 0 where that says nothing."""
    shape = item.get("shape")
    is_row = isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int and 0 <= shape[0] < 1_000_000
    return shape[0] if is_row else 0  # type: ignore[index]


def _text(item: Any, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def is_plain(value: Any, depth: int = 4) -> bool:
    """Whether a value is texts, finite numbers and truth values, in lists that are not deep."""
    if isinstance(value, list):
        return depth > 0 and len(value) < 10_000 and all(is_plain(item, depth - 1) for item in value)
    return isinstance(value, (str, bool)) or real(value) is not None
