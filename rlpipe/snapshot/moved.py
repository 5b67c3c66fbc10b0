"""Classes that have moved: what was made under their old names is still found, and is still the same policy."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as json_text
from types import MappingProxyType
from typing import Any

MOVED: Mapping[str, str] = MappingProxyType({})
"""Old dotted path -> the one of today, for every class that has ever been renamed or moved.

Nothing is ever taken out, and a class that moves again has all its old paths changed to the new one. The oldest path
stands first: identities are made of it, so that fingerprints outlive names.
"""


def name_of_today(path: str) -> str:
    """The dotted path that a class has now."""
    return MOVED.get(path, path)


def with_names_of_today(value: Any) -> Any:
    """Plain JSON in which each string that is an old path is the one of today."""
    if not MOVED:
        return value
    if isinstance(value, dict):
        return {name: with_names_of_today(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_names_of_today(item) for item in value]
    return name_of_today(value) if isinstance(value, str) else value


def with_first_names(text: str) -> str:
    """JSON text in which each string that is the path of a class that has moved is the first one that it had."""
    first: dict[str, str] = {}
    for old, new in MOVED.items():
        text = text.replace(json_text(new), json_text(first.setdefault(new, old)))
    return text
