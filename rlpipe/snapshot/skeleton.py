"""The typed JSON of a state without its array bytes: every Python type comes back exactly.

Plain JSON values stand for themselves. What JSON lacks is an object with one name: {"dict": {...}}, {"tuple": [...]},
{"int": hex}, {"float": hex of the 8 bytes}, {"bytes": base64}, and {"array": null}, whose key follows from its path.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from rlpipe.errors import ManifestError
from rlpipe.snapshot.state import State, escape, unescape

Json: TypeAlias = Any
"""None, bool, int, float, str, list of Json, or dict of str to Json."""

_SAFE_INT = 2**53
MAX_DEPTH = 64


def skeleton(state: State) -> Json:
    """The state as typed JSON; arrays, or whatever stands for them, are left out and marked."""
    return _encode(state)


def _encode(value: Any) -> Json:
    encoder = _ENCODERS.get(type(value))
    return encoder(value) if encoder else {"array": None}


def _encode_int(value: int) -> Json:
    return value if -_SAFE_INT <= value <= _SAFE_INT else {"int": hex(value)}


def _encode_float(value: float) -> Json:
    return value if np.isfinite(value) else {"float": struct.pack(">d", value).hex()}


def _encode_str(value: str) -> Json:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"str": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


_ENCODERS: Mapping[type, Callable[[Any], Json]] = MappingProxyType(
    {
        dict: lambda value: {"dict": {escape(name): _encode(item) for name, item in value.items()}},
        list: lambda value: [_encode(item) for item in value],
        tuple: lambda value: {"tuple": [_encode(item) for item in value]},
        bool: lambda value: value,
        int: _encode_int,
        float: _encode_float,
        str: _encode_str,
        bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
        type(None): lambda value: value,
    }
)


def from_skeleton(json: Json, arrays: Mapping[str, Any]) -> State:
    """The state of a skeleton, with arrays filled in by array key.

    Args:
        json: What `skeleton` made.
        arrays: Array key -> array; each key of the skeleton must be there.

    Raises:
        ManifestError: The JSON is no skeleton, or names an array that is not there.
    """
    value = _decode(json, "", arrays, 0)
    if not isinstance(value, dict):
        raise ManifestError("the state is no dict", expected='{"dict": {...}}', found=type(json).__name__)
    return value


def _decode(json: Json, key: str, arrays: Mapping[str, Any], depth: int) -> Any:
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
        return _decode_dict(body, key, arrays, depth)
    if kind == "tuple" and isinstance(body, list):
        return tuple(_decode_items(body, key, arrays, depth))
    if kind == "array" and body is None and key in arrays:
        return arrays[key]
    return _decode_scalar(kind, body, key)


def _decode_dict(body: dict[str, Json], key: str, arrays: Mapping[str, Any], depth: int) -> State:
    prefix = f"{key}/" if key else ""
    return {unescape(name): _decode(item, prefix + name, arrays, depth + 1) for name, item in body.items()}


def _decode_items(body: list[Json], key: str, arrays: Mapping[str, Any], depth: int) -> list[Any]:
    return [_decode(item, f"{key}/{index}", arrays, depth + 1) for index, item in enumerate(body)]


_SCALARS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "int": lambda text: int(text, 16),
        "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
        "str": lambda text: base64.b64decode(text, validate=True).decode("utf-8", "surrogatepass"),
        "bytes": lambda text: base64.b64decode(text, validate=True),
    }
)


def _decode_scalar(kind: str, body: Json, key: str) -> Any:
    try:
        return _SCALARS[kind](body)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error, binascii.Error):
        found = f"{kind}: {str(body)[:60]}"
        raise ManifestError(f"{key or 'state'} is no typed value", expected="a known type", found=found) from None
