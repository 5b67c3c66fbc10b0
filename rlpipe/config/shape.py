"""A composed config in the shape of the schema: what does not fit is noted, what is missing is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from rlpipe.config.findings import Findings
from rlpipe.config.keys import unknown_keys
from rlpipe.config.options import fits, type_fix, type_text
from rlpipe.config.schema import RootConfig
from rlpipe.config.values import described
from rlpipe.errors import listed

_MISSING = object()


def shaped(config: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The config with every key of the schema and no other, and with a harmless stand-in where a value does not fit.

    Args:
        config: The composed config, resolved, as plain dicts and lists.
        findings: Where faults are noted.
    """
    for unknown in unknown_keys(config):
        findings.add(unknown.key, expected=unknown.expected, found="a key that does not exist", fix=unknown.fix)
    return _node("", config, RootConfig(), findings)


def _node(key: str, value: Any, default: Any, findings: Findings) -> dict[str, Any]:
    hints = get_type_hints(type(default))
    if not isinstance(value, Mapping):
        if value is not _MISSING:
            fix = f"set the keys in it, such as {key}.{min(hints)}=..."
            findings.add(key, expected=f"a mapping with {listed(hints)}", found=described(value), fix=fix)
        value = {}
    return {
        name: _value(f"{key}.{name}".lstrip("."), value.get(name, _MISSING), hint, getattr(default, name), findings)
        for name, hint in hints.items()
    }


def _value(key: str, value: Any, annotation: Any, default: Any, findings: Findings) -> Any:
    if is_dataclass(annotation):
        return _node(key, value, default, findings)
    if value is _MISSING:
        return default
    if not fits(value, annotation):
        fix = type_fix(key, value, annotation)
        findings.add(key, expected=type_text(annotation), found=described(value), fix=fix)
        return default
    if get_origin(annotation) is dict and is_dataclass(item := get_args(annotation)[1]):
        return {name: _node(f"{key}.{name}", _given(one), item(), findings) for name, one in value.items()}  # type: ignore[operator]
    return value


def _given(value: Any) -> Any:
    """A name without anything behind it, as in YAML, stands for the defaults."""
    return _MISSING if value is None else value
