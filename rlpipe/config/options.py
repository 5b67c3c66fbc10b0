"""The options of a target, checked against the frozen dataclass that the target's file declares."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rlpipe.config.findings import LOOK, Findings
from rlpipe.config.values import described
from rlpipe.errors import RlpipeError, closest, listed


def read_options(key: str, value: Mapping[str, Any], cls: type, findings: Findings) -> Any:
    """An instance of `cls`, or None if there were findings.

    Args:
        key: Dotted key of the mapping.
        value: Option name -> value; what is missing keeps the default of `cls`.
        cls: A frozen dataclass.
        findings: Where faults are noted.
    """
    before = len(findings.found)
    value = {
        name: _nested(f"{key}.{name}", item, get_type_hints(cls).get(name), findings) for name, item in value.items()
    }
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for name, item in value.items():
        if name not in hints:
            near = closest(name, hints)
            fix = f"did you mean {key}.{near[0]}?" if near else f"leave it out, or {LOOK}"
            expected = f"one of {listed(hints)}"
            findings.add(f"{key}.{name}", expected=expected, found="an option that does not exist", fix=fix)
        elif not fits(item, hints[name]):
            fix = type_fix(f"{key}.{name}", item, hints[name])
            findings.add(f"{key}.{name}", expected=type_text(hints[name]), found=described(item), fix=fix)
        else:
            given[name] = tuple(item) if isinstance(item, list) else item
    needed = [one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING]
    for name in [name for name in needed if name not in value]:
        findings.add(f"{key}.{name}", expected=type_text(hints[name]), found="nothing", fix=f"give {key}.{name}=...")
    return _made(cls, given, findings) if len(findings.found) == before else None


def _nested(key: str, value: Any, annotation: Any, findings: Findings) -> Any:
    """A mapping where an option is a dataclass itself, as that; anything else as it is."""
    if isinstance(value, Mapping) and isinstance(annotation, type) and is_dataclass(annotation):
        return read_options(key, value, annotation, findings) or annotation()
    return value


def _made(cls: type, given: Mapping[str, Any], findings: Findings) -> Any:
    try:
        return cls(**given)
    except RlpipeError as error:
        findings.add_error(error, key=error.subject)
        return None


def fits(value: Any, annotation: Any) -> bool:
    """Whether a plain config value is one of an annotation's."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if annotation in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if annotation is float else origin or annotation)


def type_text(annotation: Any) -> str:
    """An annotation in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(type_text(argument) for argument in arguments)
    if origin is Literal:
        return f"one of {listed(map(str, arguments))}"
    if origin is tuple:
        return f"a list of {type_text(arguments[0])}"
    if origin is dict:
        return "a mapping"
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "null"}
    return words.get(annotation, str(annotation))


def type_fix(key: str, value: Any, annotation: Any) -> str:
    """What to type where a value is not one of an annotation's."""
    origin, kinds = get_origin(annotation), get_args(annotation) or (annotation,)
    if origin is Literal:
        return f"write {key}={(*closest(str(value), map(str, kinds)), kinds[0])[0]}"
    if origin is tuple:
        return f"write a list: '{key}=[...]'"
    if str in kinds and isinstance(value, (bool, int, float)):
        return f"if it is a name, quote it as it is spelt: '{key}=\"{value}\"'"
    if bool in kinds:
        return f"write {key}=true or {key}=false"
    if not {int, float}.isdisjoint(kinds):
        return f"write a number, such as {key}=1"
    return f"leave {key} out for its default"
