"""States: nested dicts, lists and tuples of plain values and numpy arrays, and the keys that name their parts.

A **key** is the path of dict names to a value, joined with "/"; awkward characters inside a name are percent-escaped.
An **entry** is what a key names: a leaf, an empty dict, or a whole list or tuple (sequences are taken whole, so that
taking a part of a state never leaves a hole in one). An **array key** may go on into a sequence, by the index.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

import numpy as np

from rlpipe.errors import UnsupportedStateError
from rlpipe.snapshot.dtypes import logical_name

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
State: TypeAlias = dict[str, Any]
Nesting: TypeAlias = tuple[tuple[int, str, str | None], ...]
"""Names in the order in which they are put in: the number of the dict that each stands in, the name, and the key of the
entry; None for a new dict, which gets the next number."""

_PLAIN = (bool, int, float, str, bytes, type(None))
_EMPTY_NAME = "%"
_AWKWARD = re.compile(
    r"[/%\\\x00-\x1f\x7f-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\uf8ff\ufeff\ufff0-\uffff"
    r"\U000e0000-\U0010ffff]"
)
"""Characters that mean something in a key, or cannot be seen: the same ones in every version of Unicode, so that every
Python gives a name the same key."""


@lru_cache(maxsize=4096)
def escape(name: str) -> str:
    """A dict name as one component of a key: never empty, "." or "..", without "/", "%" and what cannot be seen."""
    # A member of an Enum may be a name too; formatted it would be another one.
    name = str.__str__(name)
    if name in ("", ".", ".."):
        return "".join(f"%{ord(char):02X}" for char in name) or _EMPTY_NAME
    if name.isalnum() and name.isascii():
        return name
    return _AWKWARD.sub(_escaped, name)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def unescape(component: str) -> str:
    """The dict name that `escape` turned into this component."""
    if "%" not in component:
        return component
    if component == _EMPTY_NAME:
        return ""
    return unquote_to_bytes(component).decode("utf-8", "surrogatepass")


def join(*names: str) -> str:
    """The key of a path of dict names."""
    return "/".join(map(escape, names))


def split(key: str) -> tuple[str, ...]:
    """The path of dict names of a key."""
    return tuple(map(unescape, key.split("/")))


def canonical(tree: Mapping[str, Any], *, where: str = "state") -> State:
    """The state as rlpipe keeps it: fresh containers, plain values, native byte order; arrays are not copied.

    Numpy scalars become 0-d arrays. A dict subclass becomes a dict, and names are sorted.

    Args:
        tree: Nested dicts with str names, lists, tuples; leaves are numpy arrays, bool, int, float, str, bytes, None.
        where: How errors name the root.

    Raises:
        UnsupportedStateError: A value or a name of another type, named by its path.
    """
    if not isinstance(tree, Mapping):
        raise _unsupported(where, tree, "a dict with str names")
    try:
        value: State = _canonical(tree, where)
    except RecursionError:
        raise UnsupportedStateError(
            f"{where} is nested too deep", expected="dicts, lists and tuples inside each other", found="no end of them"
        ) from None
    return value


def _canonical(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        return _canonical_dict(value, path)
    if isinstance(value, (list, tuple)):
        return _canonical_sequence(value, path)
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.ma.MaskedArray):  # a mask would be lost
        return _canonical_array(np.asarray(value), path)
    if type(value) in _PLAIN:
        return value
    raise _unsupported(path, value, "a numpy array, bool, int, float, str, bytes, None, dict, list or tuple")


def _canonical_dict(value: Mapping[Any, Any], path: str) -> State:
    for name in value:
        if not isinstance(name, str):
            raise _unsupported(f"{path}, name {name!r}", name, "names of type str")
    # Its text, as str() may say something else of a subclass: of a member of an Enum its name.
    names = {str.__str__(name): name for name in value}
    return {text: _canonical(value[names[text]], f"{path}/{escape(text)}") for text in sorted(names)}


def _canonical_sequence(value: list[Any] | tuple[Any, ...], path: str) -> list[Any] | tuple[Any, ...]:
    if type(value) not in (list, tuple):
        raise _unsupported(path, value, "a plain list or tuple")
    return type(value)(_canonical(item, f"{path}/{index}") for index, item in enumerate(value))


def _canonical_array(array: Array, path: str) -> Array:
    try:
        logical_name(array.dtype)
    except UnsupportedStateError as error:
        raise UnsupportedStateError(
            f"{path} has a dtype that cannot be stored", expected=error.expected, found=str(array.dtype), fix=error.fix
        ) from None
    native = array.dtype.newbyteorder("=")
    array = np.asarray(array)
    return array if array.dtype.isnative else array.astype(native)


def _unsupported(path: str, value: Any, expected: str) -> UnsupportedStateError:
    kind = type(value)
    return UnsupportedStateError(
        f"{path} cannot be kept in a state",
        expected=expected,
        found=f"{kind.__module__}.{kind.__qualname__}",
        fix="turn it into numbers, or leave it out of get_state()",
    )


def copied(state: State) -> State:
    """The state with every array copied, so that later changes to the original never reach it."""
    return {name: map_arrays(value, lambda array: array.copy()) for name, value in state.items()}


def map_arrays(value: Any, function: Callable[[Any], Any]) -> Any:
    """The value with `function` put over every leaf that is no plain value, containers rebuilt."""
    if isinstance(value, dict):
        return {name: map_arrays(item, function) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_arrays(item, function) for item in value)
    return value if type(value) in _PLAIN else function(value)


def entries(state: State) -> dict[str, Any]:
    """Key -> entry, sorted by key. `from_entries` is its inverse."""
    return dict(sorted(_walk_dicts(state, "")))


def _walk_dicts(value: State, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        key = prefix + escape(name)
        if isinstance(item, dict) and item:
            yield from _walk_dicts(item, key + "/")
        else:
            yield key, item


def from_entries(found: Mapping[str, Any]) -> State:
    """The state whose entries these are.

    Raises:
        UnsupportedStateError: One key names both a value and a dict of further values.
    """
    return nested(nesting(found), found)


def nesting(keys: Collection[str]) -> Nesting:
    """How a state with these entries is nested, for `nested`, which does the rest for each state alike.

    Raises:
        UnsupportedStateError: One key names both a value and a dict of further values.
    """
    steps: list[tuple[int, str, str | None]] = []
    dicts = {"": 0}
    for key in sorted(keys):
        above, _, name = key.rpartition("/")
        steps.append((_dict_at(above, keys, dicts, steps), unescape(name), key))
    return tuple(steps)


# No closure: one that calls itself would keep the arrays of `found` alive until the garbage collector comes by.
def _dict_at(key: str, keys: Collection[str], dicts: dict[str, int], steps: list[tuple[int, str, str | None]]) -> int:
    """The number of the dict at a key; it and those above it are made where they lack."""
    if key not in dicts:
        if key in keys:
            raise UnsupportedStateError(f"{key} goes on below a value", expected="a dict there", found="a value")
        above, _, name = key.rpartition("/")
        steps.append((_dict_at(above, keys, dicts, steps), unescape(name), None))
        dicts[key] = len(dicts)
    return dicts[key]


def nested(steps: Nesting, found: Mapping[str, Any]) -> State:
    """The state that is nested like this, with what is found under each key."""
    dicts: list[State] = [{}]
    for above, name, key in steps:
        if key is None:
            inside: State = {}
            dicts[above][name] = inside
            dicts.append(inside)
        else:
            dicts[above][name] = found[key]
    return dicts[0]


def arrays(state: State) -> dict[str, Array]:
    """Array key -> array, sorted, arrays inside lists and tuples included."""
    return dict(sorted(_walk_arrays(state, "")))


def _walk_arrays(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk_arrays(item, f"{key}/{escape(name)}" if key else escape(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk_arrays(item, f"{key}/{index}")
    elif type(value) not in _PLAIN:
        yield key, value


def from_dotted(flat: Mapping[str, Any]) -> State:
    """A torch state dict's flat names as a nested state: "a.0.weight" becomes {"a": {"0": {"weight": ...}}}."""
    return from_entries({join(*name.split(".")): value for name, value in flat.items()})


def to_dotted(state: State) -> dict[str, Any]:
    """The inverse of `from_dotted`: entries under dotted names."""
    return {".".join(split(key)): value for key, value in entries(state).items()}


def equal(left: Any, right: Any) -> bool:
    """Whether two states, or parts of states, are the same bit for bit and type for type."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, np.ndarray):
        alike = (left.dtype, left.shape) == (right.dtype, right.shape)
        return alike and bytes(left.tobytes()) == bytes(right.tobytes())
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return bool(left == right)
