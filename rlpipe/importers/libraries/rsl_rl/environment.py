"""What `params/env.yaml` says about actions: scales and offsets, given by patterns over names of joints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rsl_rl.settings import ENV, inside, real, texts
from rlpipe.importers.libraries.rsl_rl.spelling import require_spelt
from rlpipe.importers.libraries.rsl_rl.terms import ActionTerm, Numbers

_TERM = ("class_type", "clip", "joint_names", "offset", "preserve_order", "scale", "use_default_offset")
_PATTERN = re.compile(r"[\w.\-*+?|()\[\]^$\\/]{1,100}")
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_REPEATS = re.compile(r"[*+]")
_MAX_REPEATS = 3
_MAX_TRIALS = 10_000
_PLAIN_NAME = re.compile(r"[\w\-/]+")


def actions_of(env: Mapping[str, Any], joints: Sequence[str], size: int) -> tuple[ActionTerm, ...]:
    """The action terms that settings describe.

    A term's joints are in the order of the robot, which the settings do not know. So names have to be given, unless the
    term is the only one and its numbers are the same for all joints, or it names each joint in an order that is kept.

    Args:
        env: The settings of the environment.
        joints: Names of the joints, an element of the action each; () if unknown.
        size: Elements of the action.

    Raises:
        ForeignFormatError: A name is misspelt, a pattern fits no joint, or is none that can be tried safely, or several
            fit one joint.
    """
    actions = env.get("actions")
    terms = (
        {name: term for name, term in actions.items() if isinstance(term, dict)} if isinstance(actions, dict) else {}
    )
    if len(terms) != 1:
        return tuple(ActionTerm(name=str(name), kind=_kind(term), clip=None) for name, term in terms.items())
    ((name, term),) = terms.items()
    require_spelt(term, _TERM, where=f"{ENV}: actions.{name}")
    names = tuple(joints) or _named(term, size)
    for patterns in (
        term.get("scale"),
        term.get("offset"),
        term.get("clip"),
        dict.fromkeys(_patterns(term)),
    ):
        _require_all_fit(patterns, names)
    return (
        ActionTerm(
            name=str(name),
            kind=_kind(term),
            joints=names,
            scale=_numbers(term.get("scale"), names, size, default=1.0),
            offset=_offset(env, term, names, size),
            clip=_clip(term.get("clip"), names, size),
        ),
    )


def _kind(term: Mapping[str, Any]) -> str:
    """Name of the class of a term; newer settings of mjlab do not say it."""
    path = term.get("class_type")
    return re.split(r"[.:]", path)[-1] if isinstance(path, str) else ""


def _patterns(term: Mapping[str, Any]) -> tuple[str, ...]:
    """Which joints a term moves; mjlab names them after their actuators."""
    return texts(term.get("joint_names")) or texts(term.get("actuator_names"))


def _named(term: Mapping[str, Any], size: int) -> tuple[str, ...]:
    names = _patterns(term)
    is_sure = term.get("preserve_order") is True or size == 1
    return names if is_sure and len(names) == size and all(map(_PLAIN_NAME.fullmatch, names)) else ()


def _offset(env: Mapping[str, Any], term: Mapping[str, Any], names: Sequence[str], size: int) -> Numbers | None:
    """What is added: the joints' places at rest, if the term says so, else its own numbers."""
    if term.get("use_default_offset") is not True:
        return _numbers(term.get("offset"), names, size, default=0.0)
    field = {"JointPositionAction": "joint_pos", "JointVelocityAction": "joint_vel"}.get(_kind(term))
    robot = term.get("asset_name") or term.get("entity_name")
    if field is None or not isinstance(robot, str):
        return None
    places = (("scene", robot), ("scene", "entities", robot))
    rest = next((found for place in places if (found := inside(env, *place, "init_state", field)) is not None), None)
    return _numbers(rest, names, size, default=0.0)


def _numbers(value: Any, names: Sequence[str], size: int, default: float | None = None) -> Numbers | None:
    """A number for all, or a mapping of patterns; joints that no pattern fits have the default."""
    number = real(value)
    if number is not None:
        return (number,) * size
    if not isinstance(value, dict):
        return None
    found = {str(pattern): real(item) for pattern, item in value.items()}
    if not names:
        same = set(found.values()) if ".*" in found else {None}
        only = same.pop()
        return (only,) * size if only is not None and not same else None
    numbers = [_fitting(name, found, default) for name in names]
    return None if None in numbers else tuple(item for item in numbers if item is not None)


def _require_all_fit(patterns: Any, names: Sequence[str]) -> None:
    """Check that each pattern fits a joint, as the trainer itself does: a name with a typo has no other sign."""
    if not names or not isinstance(patterns, dict):
        return
    idle = [str(one) for one in patterns if not any(_matches(str(one), name, len(patterns)) for name in names)]
    if idle:
        raise ForeignFormatError(
            f"{ENV} speaks of other joints",
            expected=f"a joint for {' and '.join(sorted(idle))}",
            found=", ".join(names),
            fix="give the names as the robot has them: source.joint_names=[...]",
        )


def _fitting(name: str, found: Mapping[str, float | None], default: float | None) -> float | None:
    fits = [pattern for pattern in found if _matches(pattern, name, len(found))]
    if len(fits) > 1:
        raise ForeignFormatError(
            f"{ENV} says several things about the joint {name}",
            expected="one pattern for each joint",
            found=" and ".join(sorted(fits)),
            fix="give the numbers yourself: source.action_scale=[...] source.action_offset=[...]",
        )
    return found[fits[0]] if fits else default


def _matches(pattern: str, name: str, trials: int) -> bool:
    """Whether a pattern of a file fits a name; only patterns that cannot take long are tried."""
    is_cheap = _PATTERN.fullmatch(pattern) and not _REPEATED_GROUP.search(pattern) and len(name) <= 100
    if not is_cheap or len(_REPEATS.findall(pattern)) > _MAX_REPEATS or trials > _MAX_TRIALS // 100:
        raise ForeignFormatError(
            f"{ENV} has a pattern over names of joints that is not tried",
            expected=f"letters, dots and at most {_MAX_REPEATS} repeats",
            found=pattern[:100],
            fix="give the numbers yourself: source.action_scale=[...] source.action_offset=[...]",
        )
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


def _clip(value: Any, names: Sequence[str], size: int) -> tuple[tuple[float, float], ...] | None:
    if value is None:
        return ()
    if not isinstance(value, dict):
        return None
    ends = [{pattern: _end(pair, index) for pattern, pair in value.items()} for index in (0, 1)]
    lows, highs = (_numbers(end, names, size) for end in ends)
    if lows is None or highs is None or any(low > high for low, high in zip(lows, highs, strict=True)):
        return None
    return tuple(zip(lows, highs, strict=True))


def _end(pair: Any, index: int) -> Any:
    return pair[index] if isinstance(pair, list) and len(pair) == 2 else None
