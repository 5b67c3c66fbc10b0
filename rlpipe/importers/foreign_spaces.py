"""Spaces of gym and gymnasium, as a restricted reader left them, as rlpipe's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, SpaceError
from rlpipe.importers.restricted.values import Record
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple


def space_of(value: Any, *, subject: str) -> Space:
    """The space of a record of a gym or gymnasium space.

    Args:
        value: What the restricted reader gave.
        subject: How errors name it.

    Raises:
        ForeignFormatError: It is no space of a kind that rlpipe has, one that is broken, or one of absurdly many parts.
    """
    require_few_parts(value, subject=subject)
    return _space_of(value, subject)


def require_few_parts(value: Any, *, subject: str) -> None:
    """Check that a space has no more parts than an honest one: a few shared ones can stand for endlessly many.

    Raises:
        ForeignFormatError: It has.
    """
    waiting, seen = [value], 0
    while waiting:
        parts = _parts(waiting.pop())
        seen += 1 + len(parts)
        if seen > _MOST_PARTS:
            raise ForeignFormatError(
                f"{subject} is broken", expected=f"a space of at most {_MOST_PARTS} parts", found="more"
            )
        waiting.extend(parts)


def _parts(value: Any) -> list[Any]:
    """The spaces in a space, whether it is a record or plain data; none in anything else."""
    spaces = value.attribute("spaces") if isinstance(value, Record) else None
    if isinstance(value, dict):
        inner = value.get("space")
        spaces = value.get("spaces") if not isinstance(inner, dict) else [inner]
    if isinstance(spaces, dict):
        return list(spaces.values())
    return list(spaces) if isinstance(spaces, (list, tuple)) else []


def _space_of(value: Any, subject: str) -> Space:
    kind = value.class_path.rpartition(".")[2] if isinstance(value, Record) else type(value).__name__
    library = value.class_path.partition(".")[0] if isinstance(value, Record) else ""
    if library not in ("gym", "gymnasium") or kind not in _KINDS:
        found = value.class_path if isinstance(value, Record) else kind
        raise ForeignFormatError(
            f"{subject} is no space that can be read",
            expected=f"a gym or gymnasium space: {', '.join(_KINDS)}",
            found=found,
            fix="wrap the environment so that it has such a space, and train again",
        )
    try:
        return _KINDS[kind](value, subject)
    except (SpaceError, TypeError, ValueError, AttributeError, KeyError) as error:
        raise ForeignFormatError(f"{subject} is broken", expected=f"a whole {kind}", found=str(error)[:200]) from None


def _box(record: Record, subject: str) -> Space:
    del subject
    return Box(_array(record, "low"), _array(record, "high"), _array(record, "low").dtype)


def _array(record: Record, name: str) -> Any:
    value = record.attribute(name)
    if not isinstance(value, np.ndarray):
        raise SpaceError(f"no array {name}")
    return value


def _discrete(record: Record, subject: str) -> Space:
    del subject
    start = record.attribute("start")  # absent before gym 0.21
    return Discrete(int(record.attribute("n")), 0 if start is None else int(start))


def _multi_discrete(record: Record, subject: str) -> Space:
    del subject
    start = record.attribute("start")
    nvec = np.asarray(_array(record, "nvec"), np.int64)
    return MultiDiscrete(nvec, np.zeros_like(nvec) if start is None else np.asarray(start, np.int64))


def _multi_binary(record: Record, subject: str) -> Space:
    del subject
    n = record.attribute("n")
    return MultiBinary(tuple(int(size) for size in np.atleast_1d(np.asarray(n)).tolist()))


def _dict(record: Record, subject: str) -> Space:
    parts = record.attribute("spaces")
    return Dict({str(key): _space_of(part, f"{subject}, key {key}") for key, part in parts.items()})


def _tuple(record: Record, subject: str) -> Space:
    parts = record.attribute("spaces")
    return Tuple(tuple(_space_of(part, f"{subject}, index {index}") for index, part in enumerate(parts)))


_MOST_PARTS = 10_000


_KINDS: Mapping[str, Callable[[Record, str], Space]] = MappingProxyType(
    {
        "Box": _box,
        "Discrete": _discrete,
        "MultiDiscrete": _multi_discrete,
        "MultiBinary": _multi_binary,
        "Dict": _dict,
        "Tuple": _tuple,
    }
)
