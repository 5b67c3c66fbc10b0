"""Spaces as the old stack keeps them: pickled, or as the dict that gym_space_to_dict() makes of them.

Source: ray/rllib/utils/serialization.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, SpaceError
from rlpipe.importers.foreign_spaces import require_few_parts, space_of
from rlpipe.importers.libraries.rllib.packed import unpacked
from rlpipe.importers.restricted.values import Record
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple


def original_space(space: Any, made: Space, *, subject: str) -> Space:
    """The environment's own space, where a preprocessor made another one of it."""
    given = space.get("original_space") if isinstance(space, dict) else None
    given = space.attribute("original_space") if isinstance(space, Record) else given
    return made if given is None else read_space(given, subject=subject)


def read_space(value: Any, *, subject: str) -> Space:
    """A space as pickled, or as the dict that gym_space_to_dict() made of it.

    Raises:
        ForeignFormatError: It is neither, or of a kind that rlpipe does not have.
    """
    require_few_parts(value, subject=subject)
    return _read(value, subject)


def _read(value: Any, subject: str) -> Space:
    if isinstance(value, dict) and isinstance(value.get("space"), dict):
        value = value["space"]
    if not isinstance(value, dict):
        return space_of(value, subject=subject)
    try:
        return _SPACES[str(value.get("space"))](value, subject)
    except (SpaceError, KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"{type(error).__name__}: {error}"[:120]
        raise ForeignFormatError(f"{subject} cannot be read", expected="a space", found=found) from None


def _box(fields: Mapping[str, Any], subject: str) -> Space:
    del subject
    low, high = (unpacked(fields[name]) for name in ("low", "high"))
    dtype = np.dtype(fields["dtype"])
    return Box(low.astype(dtype), high.astype(dtype), dtype)


_SPACES: Mapping[str, Callable[[Mapping[str, Any], str], Space]] = MappingProxyType(
    {
        "box": _box,
        "discrete": lambda fields, _: Discrete(int(fields["n"]), int(fields.get("start", 0))),
        "multi-discrete": lambda fields, _: MultiDiscrete(unpacked(fields["nvec"]).astype(np.int64)),
        "multi-binary": lambda fields, _: MultiBinary(tuple(np.atleast_1d(fields["n"]).tolist())),
        "dict": lambda fields, subject: Dict(
            {str(key): _read(part, subject) for key, part in fields["spaces"].items()}
        ),
        "tuple": lambda fields, subject: Tuple(tuple(_read(part, subject) for part in fields["spaces"])),
    }
)
