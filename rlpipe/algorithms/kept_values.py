"""Values of optimizers and schedulers as a state keeps them, and back with their exact types.

Tensors become arrays and come back as tensors of their own memory. A dict with names that are no text, such as the
milestones of a schedule, becomes a list of pairs that says what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch

from rlpipe.errors import UnsupportedStateError
from rlpipe.modules.torch.tensors import Arrays, tensor_of

Place: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""Puts a tensor that was read where it belongs."""

_PAIRS = "%pairs"
_KIND = "%kind"
_KINDS: MappingProxyType[str, Callable[[Any], Any]] = MappingProxyType({"dict": dict, "Counter": Counter})


def kept(value: Any, where: str) -> Any:
    """The value as a state keeps it; arrays are views of CPU tensors.

    Raises:
        UnsupportedStateError: Something that no checkpoint can hold, named by its place.
    """
    if isinstance(value, torch.Tensor):
        return Arrays().of(value, where)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return _kept_mapping(value, where)
    if isinstance(value, (list, tuple)):
        return _plain_sequence(value)(kept(item, f"{where}[{index}]") for index, item in enumerate(value))
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    raise UnsupportedStateError(
        f"{where} cannot be kept in a state",
        expected="tensors, numbers, text, None, and lists, tuples and dicts of them",
        found=f"{type(value).__module__}.{type(value).__qualname__}",
    )


def _plain_sequence(value: Any) -> type:
    return list if isinstance(value, list) else tuple


def _kept_mapping(value: Mapping[Any, Any], where: str) -> dict[str, Any]:
    if type(value) is not Counter and all(isinstance(name, str) for name in value):
        return {name: kept(item, f"{where}.{name}") for name, item in value.items()}
    pairs = [[kept(name, where), kept(item, f"{where}.{name}")] for name, item in value.items()]
    return {_KIND: "Counter" if isinstance(value, Counter) else "dict", _PAIRS: pairs}


def given_back(value: Any, place: Place) -> Any:
    """What `kept` was given."""
    if isinstance(value, np.ndarray):
        # A clone: what was read is shared with others, or read-only.
        return place(tensor_of(value).clone())
    if isinstance(value, dict) and value.keys() == {_KIND, _PAIRS}:
        return _KINDS[value[_KIND]]({name: given_back(item, place) for name, item in value[_PAIRS]})
    if isinstance(value, dict):
        return {name: given_back(item, place) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(given_back(item, place) for item in value)
    return value
