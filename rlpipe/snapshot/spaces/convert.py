"""Spaces to and from versioned JSON, gymnasium, and flat named arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpipe.errors import SpaceError, closest, listed
from rlpipe.snapshot.spaces.box import Box
from rlpipe.snapshot.spaces.composite import Dict, Tuple
from rlpipe.snapshot.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from rlpipe.snapshot.spaces.space import Batch, Leaf, Space
from rlpipe.snapshot.spaces.text import Text
from rlpipe.snapshot.spec import Json
from rlpipe.snapshot.state import Array

VERSION = 1
"""Version of the JSON form. A change needs a new number and a reader for every older one."""

_KINDS: tuple[type[Space], ...] = (Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple, Text)
_NAMES = {kind.__name__: kind for kind in _KINDS}


def to_json(space: Space) -> dict[str, Json]:
    """The space as plain JSON with its version; `from_json` gives back an equal space, bit for bit."""
    return {"version": VERSION, **space.node()}


def from_json(value: Json, *, where: str = "space") -> Space:
    """The space of its JSON, also as a person writes it: the version, "start" and "dtype" may be left out.

    Args:
        value: Such as {"type": "Box", "shape": [4], "low": -1, "high": "inf"}.
        where: How errors name it.

    Raises:
        SpaceError: No such space, a newer version, or a field that is missing, unknown or wrong.
    """
    if isinstance(value, Mapping) and value.get("version", VERSION) != VERSION:
        raise SpaceError(
            f"{where} was written by another rlpipe",
            expected=f"version {VERSION}",
            found=f"version {value['version']!r}",
            fix="update rlpipe",
        )
    node = {name: item for name, item in value.items() if name != "version"} if isinstance(value, Mapping) else value
    try:
        return _parse(node, where)
    except RecursionError:
        raise SpaceError(f"{where} is nested too deeply", expected="spaces within spaces, a few levels") from None


def _parse(node: Json, where: str) -> Space:
    kind = node.get("type") if isinstance(node, Mapping) else None
    if kind not in list(_NAMES):
        near = closest(str(kind), _NAMES)
        raise SpaceError(
            f"{where} is no space",
            expected=f'an object with "type": {listed(_NAMES)}',
            found=repr(node)[:80],
            fix=f"did you mean {' or '.join(near)}?" if near else "",
        )
    return _NAMES[str(kind)].of_node(node, where, _parse)


def to_gymnasium(space: Space) -> Any:
    """The same space as a `gymnasium.Space`."""
    from gymnasium import spaces

    return space.as_gymnasium(spaces)


def from_gymnasium(space: Any) -> Space:
    """The same space as rlpipe's; one that is rlpipe's already comes back as it is.

    Raises:
        SpaceError: A kind of space that rlpipe does not have.
    """
    from gymnasium import spaces

    if isinstance(space, Space):
        return space
    for name, kind in _NAMES.items():
        if isinstance(space, getattr(spaces, name)):
            return kind.of_gymnasium(space, from_gymnasium)
    raise SpaceError("this space is not supported", expected=listed(_NAMES), found=repr(space)[:80])


def flat_items(space: Space, prefix: str) -> list[tuple[str, Leaf]]:
    """The leaves of a space with their names: `prefix`, or `prefix.<key>` sorted at every level of a Dict or Tuple.

    Raises:
        SpaceError: Two leaves have the same name, because a key holds a dot.
    """
    items = list(space.leaves(prefix))
    names = [name for name, _ in items]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpaceError("two parts have one flat name", expected="keys without dots", found=listed(twice))
    return items


def flat_batch(space: Space, batch: Batch, prefix: str) -> dict[str, Array]:
    """The arrays of a batch under the names of `flat_items`, as they are.

    Raises:
        SpaceError: The batch has other keys or parts than the space.
    """
    return space.flat(batch, prefix)


def nested_batch(space: Space, arrays: Mapping[str, Array], prefix: str) -> Batch:
    """The batch whose arrays have the names of `flat_items`, the inverse of `flat_batch`."""
    return space.nest(arrays, prefix)


def describe(space: Space) -> str:
    """The space on one line, such as "Box(-4.8..4.8, (4,), float32)"."""
    return space.describe()
