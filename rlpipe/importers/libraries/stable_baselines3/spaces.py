"""The spaces in a zip: exactly from their pickles, or from the text beside them where a pickle is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, SpaceError, UnsafePayloadError, listed
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.libraries.stable_baselines3.container import SavedModel
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from rlpipe.snapshot.state import Array

_CLASS_TEXT = re.compile(r"<class '(?:gym|gymnasium)\.spaces\.\w+\.(\w+)'>")
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_SIGNS = str.maketrans("[](),", "     ")


def read_space(model: SavedModel, field: str) -> tuple[Space, tuple[str, ...]]:
    """A space of the zip, and what people should know about how it was read.

    Raises:
        ForeignFormatError: The zip has no such space, or one that cannot be read or is not supported.
    """
    if model.data.get(field) is None:
        raise ForeignFormatError(
            f"{model.name} has no {field}",
            expected=f"{field} among the fields of data",
            found=listed(model.data),
            fix=f"load it with Stable-Baselines3, passing custom_objects={{'{field}': ...}}, and save it again",
        )
    try:
        value = model.unpickled(field)
    except UnsafePayloadError as error:
        return _from_text(model, field, error)
    if value is None:
        return _from_text(model, field, None)
    return space_of(value, subject=f"the {field} of {model.name}"), ()


def without_start(space: Space) -> Space:
    """The space as Stable-Baselines3 takes it: it counts choices from 0, whatever `start` says."""
    if isinstance(space, Discrete):
        return replace(space, start=0)
    return replace(space, start=np.zeros_like(space.nvec)) if isinstance(space, MultiDiscrete) else space


def as_acted_in(space: Space) -> Space:
    """The action space as BasePolicy.predict() acts in it: it leaves real numbers as they are, whatever the dtype."""
    if not isinstance(space, Box) or space.dtype in _REAL:
        return space
    dtype = np.dtype(np.float32 if space.dtype.kind == "f" else np.float64)
    return Box(space.low.astype(dtype), space.high.astype(dtype), dtype)


def departures_of(space: Space) -> tuple[str, ...]:
    """Notes on a space that Stable-Baselines3 takes otherwise than it says."""
    if without_start(space) != space:
        return (f"{space.describe()}: counted from 0 all the same, as Stable-Baselines3 does",)
    return ()


def _from_text(model: SavedModel, field: str, error: UnsafePayloadError | None) -> tuple[Space, tuple[str, ...]]:
    mirror = model.mirror(field)
    match = _CLASS_TEXT.fullmatch(str(mirror.get(":type:")))
    maker = _KINDS.get(match[1]) if match else None
    try:
        if maker is not None:
            return maker(mirror), (f"{field} was read from text, because its pickle was not readable",)
        reason = f"a {match[1] if match else mirror.get(':type:')} whose pickle is not readable"
    except (KeyError, ValueError, TypeError, SpaceError) as broken:
        reason = f"text that says too little: {broken}"
    raise ForeignFormatError(
        f"the {field} of {model.name} cannot be read",
        expected="a pickled gym or gymnasium space, or its attributes as text",
        found=f"{error.found}; {reason}" if error else reason,
        fix=f"load it with Stable-Baselines3, passing custom_objects={{'{field}': ...}}, and save it again",
    )


def _box(mirror: Mapping[str, Any]) -> Space:
    dtype, shape = np.dtype(str(mirror["dtype"])), tuple(int(size) for size in mirror["_shape"])
    return Box(_bound(mirror, "low", shape), _bound(mirror, "high", shape), dtype)


def _bound(mirror: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """A bound: its short text if that is one number for all elements, else the numbers as numpy prints them."""
    texts = [str(mirror.get(key)) for key in (f"{name}_repr", name)]
    for numbers in map(_numbers, texts):
        if numbers.size == 1:
            return np.broadcast_to(numbers[0], shape)
        if numbers.size == np.prod(shape):
            return numbers.reshape(shape)
    raise ValueError(f"{name} is shortened to {texts[-1][:40]!r}")


def _numbers(text: str) -> Array:
    """The numbers in a text; none if it is shortened or holds anything else."""
    try:
        return np.array([float(word) for word in text.translate(_SIGNS).split()])
    except ValueError:
        return np.empty(0)


def _discrete(mirror: Mapping[str, Any]) -> Space:
    return Discrete(int(mirror["n"]), int(mirror.get("start", 0)))


def _multi_discrete(mirror: Mapping[str, Any]) -> Space:
    nvec = _numbers(str(mirror["nvec"])).astype(np.int64)
    if not nvec.size:
        raise ValueError(f"nvec is {mirror['nvec']!r}")
    start = _numbers(str(mirror.get("start"))).astype(np.int64)
    return MultiDiscrete(nvec, start if start.size else np.zeros_like(nvec))


def _multi_binary(mirror: Mapping[str, Any]) -> Space:
    return MultiBinary(tuple(_numbers(str(mirror["n"])).astype(np.int64).tolist()))


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Space]] = MappingProxyType(
    {"Box": _box, "Discrete": _discrete, "MultiDiscrete": _multi_discrete, "MultiBinary": _multi_binary}
)
