"""Frozen dataclasses from plain config, strictly: an unknown, missing or unfit field is an error that names it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from rlpipe.errors import SpecError, closest, listed

T = TypeVar("T")


def read_fields(kind: type[T], value: Any, *, where: str) -> T:
    """The dataclass `kind` made of the fields in a plain mapping; its `__post_init__` checks the values.

    Raises:
        SpecError: The value is no mapping, or a field is unknown or missing.
    """
    if not isinstance(value, Mapping):
        raise SpecError(f"{where} is no mapping", expected=f"the fields of {kind.__name__}", found=repr(value)[:80])
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    refuse_unknown(value, known, where=where)
    needed = {name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING}
    if missing := needed - value.keys():
        raise SpecError(f"{where} lacks {listed(missing)}", expected=listed(needed), found=listed(map(str, value)))
    return kind(**value)


def refuse_unknown(names: Collection[Any], known: Collection[str], *, where: str) -> None:
    """Check that every name is known.

    Raises:
        SpecError: Some are not; the closest known names are in the message.
    """
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    near = dict.fromkeys(match for name in unknown for match in closest(str(name), known))
    raise SpecError(
        f"{where} has no field {listed(map(repr, unknown))}",
        expected=f"fields among {listed(known)}" if known else "no fields",
        found=listed(map(repr, unknown)),
        fix=f"did you mean {' or '.join(near)}?" if near else "leave it out",
    )


def whole(value: Any, *, where: str, least: int | None = None) -> int:
    """The value if it is an integer, at least `least`.

    Raises:
        SpecError: It is none.
    """
    if type(value) is not int or (least is not None and value < least):
        bound = "" if least is None else f", at least {least}"
        raise SpecError(f"{where} is no such number", expected=f"an integer{bound}", found=repr(value)[:80])
    return value


def wholes(value: Any, *, where: str, least: int | None = None) -> tuple[int, ...]:
    """The list or tuple of integers as a tuple.

    Raises:
        SpecError: It is none.
    """
    if not isinstance(value, (list, tuple)):
        raise SpecError(f"{where} is no list", expected="a list of integers", found=repr(value)[:80])
    return tuple(whole(item, where=f"{where}[{index}]", least=least) for index, item in enumerate(value))


def flag(value: Any, *, where: str) -> bool:
    """The value if it is true or false.

    Raises:
        SpecError: It is neither.
    """
    if type(value) is not bool:
        raise SpecError(f"{where} is no flag", expected="true or false", found=repr(value)[:80])
    return value


def choice(value: Any, options: Collection[str], *, where: str) -> str:
    """The value if it is one of the options.

    Raises:
        SpecError: It is not; the closest option is in the message.
    """
    if isinstance(value, str) and value in options:
        return value
    near = closest(str(value), options)
    raise SpecError(
        f"{where} is unknown",
        expected=f"one of {', '.join(options)}",
        found=repr(value)[:80],
        fix=f"did you mean {' or '.join(near)}?" if near else "",
    )
