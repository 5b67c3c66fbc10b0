"""Stages as data: every kind, their JSON, and the spaces between them. No torch here before a stage is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, read_fields
from rlpipe.policies.action_stages import Affine, Argmax, Clip, MultiArgmax, Round, Tanh, Threshold, Unscale
from rlpipe.policies.array_stages import Cast, Flatten, Layout, Reshape
from rlpipe.policies.default_stages import (
    OutputKind,
    Stages,
    default_action_stages,
    default_observation_stages,
    masked_action_stages,
    parted_observation_stages,
)
from rlpipe.policies.dict_stages import Concat, PerKey, Pick
from rlpipe.policies.history_stages import FrameStack
from rlpipe.policies.mask_stages import Mask
from rlpipe.policies.observation_stages import Normalize, OneHot, Scale
from rlpipe.policies.part_stages import Parts
from rlpipe.policies.stage import Stage, through
from rlpipe.snapshot.spaces import Space
from rlpipe.snapshot.spec import Json

__all__ = [
    "Affine",
    "Argmax",
    "Cast",
    "Clip",
    "Concat",
    "Flatten",
    "FrameStack",
    "Layout",
    "Mask",
    "MultiArgmax",
    "Normalize",
    "OneHot",
    "OutputKind",
    "Parts",
    "PerKey",
    "Pick",
    "Reshape",
    "Round",
    "Scale",
    "Stage",
    "Stages",
    "Tanh",
    "Threshold",
    "Unscale",
    "default_action_stages",
    "default_observation_stages",
    "masked_action_stages",
    "parted_observation_stages",
    "prepared_space",
    "stages_from_json",
    "stages_to_json",
]

_EITHER = (Affine, Cast, Clip, Flatten, Layout, Reshape)
_OBSERVATION = (*_EITHER, Concat, FrameStack, Normalize, OneHot, PerKey, Pick, Scale)
_ACTION = (*_EITHER, Argmax, Mask, MultiArgmax, Parts, Round, Tanh, Threshold, Unscale)
_SIDES = MappingProxyType({"observation": _OBSERVATION, "action": _ACTION, "target": _EITHER})


def stages_to_json(stages: Iterable[Stage]) -> list[Json]:
    """Plain JSON, the inverse of `stages_from_json`."""
    return [stage.to_json() for stage in stages]


def stages_from_json(value: Any, *, side: str) -> Stages:
    """The stages of a list of mappings, each with a `type`.

    Args:
        value: Such as [{"type": "one_hot", "nvec": [3], "start": [0]}].
        side: "observation", "action" or "target": which kinds of stages may be in it, and how errors name it.

    Raises:
        SpecError: An unknown type or field, a missing field, or a value that does not fit.
    """
    if not isinstance(value, (list, tuple)):
        raise SpecError(f"{side} is no list of stages", expected="a list", found=repr(value)[:80])
    kinds = {kind.type: kind for kind in _SIDES[side.partition("[")[0]]}
    return tuple(_stage(item, kinds, f"{side}[{index}]") for index, item in enumerate(value))


def _stage(value: Any, kinds: Mapping[str, type[Stage]], where: str) -> Stage:
    if not isinstance(value, Mapping):
        raise SpecError(f"{where} is no stage", expected="a mapping with a type", found=repr(value)[:80])
    fields = dict(value)
    kind = kinds[choice(fields.pop("type", None), kinds, where=f"{where}.type")]
    if kind in (PerKey, Parts) and isinstance(fields.get("stages"), Mapping):
        parts = fields["stages"].items()
        fields["stages"] = {key: stages_from_json(stages, side=f"{where}.stages.{key}") for key, stages in parts}
    return read_fields(kind, fields, where=where)


def prepared_space(space: Space, stages: Iterable[Stage]) -> Space:
    """The space of what the module is given when an observation of `space` has gone through the stages.

    Raises:
        SpecError: A stage cannot take what comes to it.
    """
    return through(stages, space)
