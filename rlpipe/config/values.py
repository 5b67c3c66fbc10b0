"""Readers of single values: each gives the typed value, or notes a finding and gives a harmless stand-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rlpipe.config.findings import Findings
from rlpipe.errors import RlpipeError, closest, listed

Name = TypeVar("Name", bound=str)
KINDS = {str: "the text", bool: "the truth value", int: "the number", float: "the number", type(None): "null"}


def text_list(key: str, value: Any, findings: Findings, *, of: str) -> tuple[str, ...] | None:
    """A list of different, non-empty texts; null stays None.

    Args:
        key: Dotted key of the list.
        value: The value in the config.
        findings: Where faults are noted.
        of: What the texts are, in the plural.
    """
    if value is None:
        return None
    example = f"'{key}=[{value}]'" if isinstance(value, str) and value else f"'{key}=[...]'"
    if not isinstance(value, list):
        findings.add(key, expected=f"a list of {of}", found=described(value), fix=f"write {example}")
        return ()
    if not value:
        findings.add(key, expected=f"at least one of {of}", found="an empty list", fix=f"leave {key} out, or name some")
    for index, item in enumerate(value):
        _check_item(f"{key}[{index}]", item, findings, key=key)
    texts = [item for item in value if isinstance(item, str)]
    twice = sorted({text for text in texts if texts.count(text) > 1})
    if twice:
        once = f"write '{key}=[{','.join(dict.fromkeys(texts))}]'"
        findings.add(key, expected=f"{of}, each once", found=f"{listed(twice)} more than once", fix=once)
    return tuple(texts)


def _check_item(place: str, item: Any, findings: Findings, *, key: str) -> None:
    if isinstance(item, list):
        inside = ",".join(str(one) for one in item)
        findings.add(place, expected="a text", found=f"a list in the list: {item}", fix=f"write '{key}=[{inside}]'")
    elif not isinstance(item, str):
        fix = f"if it is a name, quote it as it is spelt: '{key}=[\"...\"]'"
        findings.add(place, expected="a text", found=described(item), fix=fix)
    elif not item:
        findings.add(place, expected="a text", found="an empty text", fix=f"take it out of {key}, or name something")


def choice(key: str, value: Any, findings: Findings, *, among: Sequence[Name]) -> Name:
    """One of some names."""
    if value in among:
        return among[among.index(value)]
    near = closest(str(value), among)
    fix = f"did you mean {key}={near[0]}?" if near else f"choose one, such as {key}={among[0]}"
    findings.add(key, expected=f"one of {listed(among)}", found=described(value), fix=fix)
    return among[0]


def choices(key: str, value: Any, findings: Findings, *, among: Sequence[Name], of: str) -> tuple[Name, ...] | None:
    """A list of some names; null stays None."""
    texts = text_list(key, value, findings, of=of)
    for text in texts or ():
        if text not in among:
            near = closest(text, among)
            meant = ",".join(near[0] if each == text and near else each for each in texts or ())
            fix = f"did you mean '{key}=[{meant}]'?" if near else f"choose some, such as '{key}=[{among[0]}]'"
            findings.add(key, expected=f"some of {listed(among)}", found=repr(text), fix=fix)
    return None if texts is None else tuple(among[among.index(text)] for text in texts if text in among)


def text(key: str, value: Any, findings: Findings) -> str | None:
    """A text that is not empty; null stays None."""
    if value is not None and not (isinstance(value, str) and value):
        findings.add(key, expected="a text", found=described(value), fix=f"leave {key} out for its default")
    return value if isinstance(value, str) else None


def integer(key: str, value: Any, findings: Findings, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    fix = f"write a number, such as {key}={max(least, 1)}"
    findings.add(key, expected=f"a whole number of at least {least}", found=described(value), fix=fix)
    return least


def checked_id(key: str, value: Any, findings: Findings, *, check: Callable[[Any], Any]) -> None:
    """Note what `check` raises about an id, or about several."""
    try:
        check(value)
    except RlpipeError as error:
        findings.add_error(error, key=key, value=repr(value) if isinstance(value, str) else "")


def described(value: Any) -> str:
    """A value with the kind that the config took it for."""
    if isinstance(value, Mapping):
        return f"a mapping with {listed(map(str, value))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"the list {value}"
    return "null" if value is None else f"{KINDS.get(type(value), 'the value')} {value!r}"
