"""Texts of manifests with anything in them, as someone who knows the format could write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpipe.checkpoint.manifest import FIELDS, seal


def fields_of(text: str) -> dict[str, Any]:
    """The fields of a manifest but for its hash."""
    fields: dict[str, Any] = json.loads(text)
    del fields["manifest_hash"]
    return fields


def sealed(fields: Mapping[str, Any]) -> str:
    """A manifest of these fields in the one layout, with a right hash; fields that it lacks or has too many stay so."""
    names = [name for name in FIELDS if name in fields] + [name for name in fields if name not in FIELDS]
    lines = (f"\n{_plain(name)}:{_text(name, fields[name])}" for name in names)
    return seal("{" + ",".join(lines))[0]


def resealed(file: Path, **changes: Any) -> None:
    """Change fields of a manifest on the disk and give it a right hash; `...` takes one away."""
    fields = {**fields_of(file.read_text()), **changes}
    file.write_text(sealed({name: value for name, value in fields.items() if value is not ...}))


def _text(name: str, value: Any) -> str:
    if name == "file" and isinstance(value, dict) and list(value)[-1:] == ["arrays"] and value["arrays"]:
        head = {key: item for key, item in value.items() if key != "arrays"}
        return _plain(head, sort=False)[:-1] + ("," if head else "") + '"arrays":' + _lines(value["arrays"]) + "}"
    return _lines(value) if name in ("children", "attachments", "entries", "xxh3") else _plain(value)


def _lines(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"{_plain(name)}:{_plain(value[name])}" for name in sorted(value)) + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(_plain, value)) + "\n]"
    return _plain(value)


def _plain(value: Any, *, sort: bool = True) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=sort)
