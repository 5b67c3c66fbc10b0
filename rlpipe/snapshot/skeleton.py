"""A state taken apart in one walk: its arrays by key, and typed JSON of its other entries.

Every Python type comes back exactly. Plain JSON values stand for themselves. What JSON lacks is an object with one
name: {"dict": {...}}, {"tuple": [...]}, {"int": hex}, {"float": hex of the 8 bytes, big end first}, {"bytes": base64},
{"str": base64 of text that is no UTF-8 for its lone surrogates, written like other characters}, and {"array": null} for
an array in a list or tuple, whose key goes on from that of the entry by index and escaped name. Names in {"dict": ...}
are escaped as in keys. A dict with something in it is no entry but for those inside a list or tuple.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from numpy import ndarray  # asking the module for it takes as long as all the rest of a step of the loops here

from rlpipe.errors import ManifestError, UnsupportedStateError
from rlpipe.snapshot.state import State, escape, from_entries, unescape

Json: TypeAlias = Any
"""None, bool, int, float, str, list of Json, or dict of str to Json."""

MAX_DEPTH = 64
"""Dicts, lists and tuples inside each other, in a state that can be kept."""

_SAFE_INT = 2**53


class Parts(NamedTuple):
    """A state taken apart.

    Attributes:
        arrays: Array key -> array, or what stands for it; sorted.
        plain: Entry key -> typed JSON, of the entries that are no array; sorted.
    """

    arrays: dict[str, Any]
    plain: dict[str, Json]


def take_apart(state: State) -> Parts:
    """The arrays and the plain entries of a state.

    Raises:
        UnsupportedStateError: It is nested too deep.
    """
    parts = Parts({}, {})
    _take_dict(state, "", parts, 1)
    return Parts(_by_key(parts.arrays), _by_key(parts.plain))


def _by_key(found: dict[str, Any]) -> dict[str, Any]:
    keys = list(found)
    ordered = sorted(keys)
    return found if ordered == keys else {key: found[key] for key in ordered}


def _take_dict(node: State, prefix: str, parts: Parts, depth: int) -> None:
    if depth > MAX_DEPTH and node:
        raise _too_deep(prefix.removesuffix("/"))
    for name, value in node.items():
        kind = type(value)
        if kind is ndarray:
            parts.arrays[prefix + escape(name)] = value
        elif kind is dict and value:
            _take_dict(value, f"{prefix}{escape(name)}/", parts, depth + 1)
        else:
            _take_entry(value, prefix + escape(name), parts, depth)


def _take_entry(value: Any, key: str, parts: Parts, depth: int) -> None:
    json = _encode(value, key, parts.arrays, depth)
    if key not in parts.arrays:
        parts.plain[key] = json


def _encode(value: Any, key: str, arrays: dict[str, Any], depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise _too_deep(key)
    kind = type(value)
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if kind not in _CONTAINERS:
        arrays[key] = value
        return {"array": None}
    if kind is dict:
        inside = {escape(name): item for name, item in value.items()}
        return {"dict": {name: _encode(item, f"{key}/{name}", arrays, depth + 1) for name, item in inside.items()}}
    items = [_encode(item, f"{key}/{index}", arrays, depth + 1) for index, item in enumerate(value)]
    return items if kind is list else {"tuple": items}


def _too_deep(key: str) -> UnsupportedStateError:
    return UnsupportedStateError(f"{key[:80]} is nested too deep", expected=f"at most {MAX_DEPTH} levels", found="more")


def _encode_int(value: int) -> Json:
    return value if -_SAFE_INT <= value <= _SAFE_INT else {"int": hex(value)}


def _encode_float(value: float) -> Json:
    return value if isfinite(value) else {"float": struct.pack(">d", value).hex()}


def _encode_str(value: str) -> Json:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"str": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


_CONTAINERS = frozenset({dict, list, tuple})

_SCALARS: Mapping[type, Callable[[Any], Json]] = MappingProxyType(
    {
        bool: lambda value: value,
        int: _encode_int,
        float: _encode_float,
        str: _encode_str,
        bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
        type(None): lambda value: value,
    }
)


def put_together(arrays: Mapping[str, Any], plain: Mapping[str, Json]) -> State:
    """The inverse of `take_apart`.

    Raises:
        ManifestError: A value that is no typed JSON, or an array that is not there.
        UnsupportedStateError: One key names both a value and a dict of further values.
    """
    if not plain:
        return from_entries(arrays)
    rest = dict(arrays)
    values = {key: decode(json, key, rest) for key, json in plain.items()}
    return from_entries(rest | values)


def encode(value: Any, key: str) -> Json:
    """The typed JSON of the value at a key that is no array; the inverse of `decode`.

    Raises:
        UnsupportedStateError: It is nested too deep.
    """
    return _encode(value, key, {}, key.count("/") + 1)


def decode(json: Json, key: str, arrays: dict[str, Any]) -> Any:
    """The value of a plain entry; the arrays in it are taken out of `arrays`.

    Raises:
        ManifestError: It is no typed JSON, or names an array that is not there.
    """
    return _decode(json, key, arrays, key.count("/") + 1)


def _decode(json: Json, key: str, arrays: dict[str, Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ManifestError(f"{key} is nested too deep", expected=f"at most {MAX_DEPTH} levels", found="more")
    if isinstance(json, list):
        return _decode_items(json, key, arrays, depth)
    if not isinstance(json, dict):
        return json
    if len(json) != 1:
        raise ManifestError(f"{key} is no typed value", expected="an object with one name", found=str(sorted(json)))
    ((kind, body),) = json.items()
    if kind == "dict" and isinstance(body, dict):
        return {unescape(name): _decode(item, f"{key}/{name}", arrays, depth + 1) for name, item in body.items()}
    if kind == "tuple" and isinstance(body, list):
        return tuple(_decode_items(body, key, arrays, depth))
    if kind == "array" and body is None and key in arrays:
        return arrays.pop(key)
    return _decode_scalar(kind, body, key)


def _decode_items(body: list[Json], key: str, arrays: dict[str, Any], depth: int) -> list[Any]:
    return [_decode(item, f"{key}/{index}", arrays, depth + 1) for index, item in enumerate(body)]


_DECODERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "int": lambda text: int(text, 16),
        "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
        "str": lambda text: base64.b64decode(text, validate=True).decode("utf-8", "surrogatepass"),
        "bytes": lambda text: base64.b64decode(text, validate=True),
    }
)


def _decode_scalar(kind: str, body: Json, key: str) -> Any:
    try:
        return _DECODERS[kind](body)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error, binascii.Error):
        found = f"{kind}: {str(body)[:60]}"
        raise ManifestError(f"{key or 'state'} is no typed value", expected="a known type", found=found) from None
