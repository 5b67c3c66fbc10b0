"""A reader of checkpoints that knows rlpipe's description of the format, and not one line of rlpipe."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import ml_dtypes
import numpy as np
import xxhash

FIELDS = (
    *("format", "version", "spec", "metadata", "origin", "children", "ties", "attachments", "entries", "file", "xxh3"),
    *("content_hash", "inference_hash", "manifest_hash"),
)


def read(directory: Path) -> dict[str, Any]:
    """What a component's directory holds: manifest, arrays by key, state, and children; every hash is checked."""
    text = (directory / "manifest.json").read_bytes().decode("ascii")
    manifest = json.loads(text)
    assert tuple(manifest) == FIELDS
    before = text[: text.rindex(',\n"manifest_hash":')]
    assert hashlib.sha256(before.encode()).hexdigest() == manifest["manifest_hash"]
    children = {name: read(directory / name) for name in manifest["children"]}
    assert {name: child["manifest"]["manifest_hash"] for name, child in children.items()} == manifest["children"]
    for name, (size, digest) in manifest["attachments"].items():
        data = (directory / name).read_bytes()
        assert (len(data), xxhash.xxh3_128_hexdigest(data)) == (size, digest)
    arrays = {} if manifest["file"] is None else arrays_of(directory, manifest)
    return {"manifest": manifest, "arrays": arrays, "state": state_of(manifest, dict(arrays)), "children": children}


def arrays_of(directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    file, found, places = manifest["file"], {}, set()
    data = (directory / file["name"]).read_bytes()
    assert len(data) == file["size"]
    for (key, dtype, shape, _, offset), digest in zip(file["arrays"], manifest["xxh3"], strict=True):
        extended = getattr(ml_dtypes, dtype, None)
        raw = np.dtype(dtype if extended is None else f"u{np.dtype(extended).itemsize}").newbyteorder("<")
        end = offset + prod(shape) * raw.itemsize
        assert xxhash.xxh3_128_hexdigest(data[offset:end]) == digest
        array = np.frombuffer(data[offset:end], raw).reshape(shape)
        found[key] = array if extended is None else array.view(extended)
        places |= {(offset, end)} if end > offset else set()
    assert all(offset % 64 == 0 for offset, _ in places)
    stops = [0, *(stop for place in sorted(places) for stop in place), len(data)]
    frame = b"".join(data[start:end] for start, end in zip(stops[::2], stops[1::2], strict=True))
    assert xxhash.xxh3_128_hexdigest(frame) == file["frame"]
    assert list(found) == sorted(found)
    return found


def state_of(manifest: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    values = {key: value_of(typed, key, rest) for key, (_, typed) in manifest["entries"].items()}
    state: dict[str, Any] = {}
    for key, value in (values | rest).items():
        *above, name = map(name_of, key.split("/"))
        node = state
        for each in above:
            node = node.setdefault(each, {})
        node[name] = value
    return state


def name_of(escaped: str) -> str:
    return "" if escaped == "%" else unquote_to_bytes(escaped).decode("utf-8", "surrogatepass")


def value_of(typed: Any, key: str, rest: dict[str, Any]) -> Any:
    """The value of typed JSON at a key; the arrays in it are taken out of the rest."""
    if isinstance(typed, list):
        return [value_of(each, f"{key}/{index}", rest) for index, each in enumerate(typed)]
    if not isinstance(typed, dict):
        return typed
    [(kind, body)] = typed.items()
    if kind == "array":
        return rest.pop(key)
    if kind == "dict":
        return {name_of(name): value_of(each, f"{key}/{name}", rest) for name, each in body.items()}
    return tuple(value_of(body, key, rest)) if kind == "tuple" else SCALARS[kind](body)


SCALARS: dict[str, Any] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "str": lambda text: base64.b64decode(text, validate=True).decode("utf-8", "surrogatepass"),
}
