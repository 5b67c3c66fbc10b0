"""Which dotted keys a config may have, read from the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import SequenceMatcher
from typing import Any, get_args, get_origin, get_type_hints

from rlpipe.config.findings import LOOK
from rlpipe.config.schema import RootConfig
from rlpipe.errors import closest, listed

_ALIKE = 0.6
"""From here on a name is meant, and those that are less like it are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """A key that the schema does not have.

    Attributes:
        key: Its whole dotted name.
        known: Whole dotted names of the keys beside it.
        deeper: Keys of that very name further down, where it may have been meant.
        whole: Keys that are like all of what was typed, where more was typed than this key.
    """

    key: str
    known: tuple[str, ...]
    deeper: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The keys that are there, the nearest first if one is near."""
        return f"one of {listed(self.known)}"

    @property
    def fix(self) -> str:
        """The nearest key as a question, if one is near."""
        near = self.deeper or self.whole or self._beside()
        return f"did you mean {' or '.join(near)}?" if near else f"leave it out, or {LOOK}"

    def _beside(self) -> tuple[str, ...]:
        parent, dot, name = self.key.rpartition(".")
        names = closest(name, (known.rpartition(".")[2] for known in self.known))
        nearest = [one for one in names if SequenceMatcher(None, name, one).ratio() >= _ALIKE]
        return tuple(f"{parent}{dot}{one}" for one in nearest or names)


def roots() -> tuple[str, ...]:
    """The first parts of all keys, sorted."""
    return tuple(sorted(field.name for field in fields(RootConfig)))


def is_declared(key: str) -> bool:
    """Whether the schema itself has this dotted key, so that every config has it."""
    annotation: Any = RootConfig
    for name in key.split("."):
        children = get_type_hints(annotation) if is_dataclass(annotation) else {}
        if name not in children:
            return False
        annotation = children[name]
    return True


def unknown_key(key: str) -> UnknownKey | None:
    """What is wrong with a dotted key that was typed, or None."""
    found: Any = True
    for name in reversed(key.split(".")):
        found = {name: found}
    unknown = next(iter(_unknown(found, RootConfig, ())), None)
    if unknown is None or unknown.key == key:
        return unknown
    return replace(unknown, whole=closest(key, _alike(unknown, key))[:1])


def _alike(unknown: UnknownKey, key: str) -> Iterator[str]:
    """Keys of the schema beside an unknown one, as long as what was typed, and alike in each part."""
    start, typed = unknown.key.count("."), key.split(".")
    for known in _leaves(RootConfig, ()):
        parts = known.split(".")
        is_beside = len(parts) == len(typed) and parts[:start] == typed[:start]
        if is_beside and all(map(_is_like, typed[start:], parts[start:])):
            yield known


def _is_like(typed: str, known: str) -> bool:
    return bool(closest(typed, [known]))


def _leaves(annotation: Any, path: Sequence[str]) -> Iterator[str]:
    """Dotted keys of the schema with nothing below; what only the user names is not known here."""
    if not is_dataclass(annotation):
        yield ".".join(path)
        return
    for name, inner in get_type_hints(annotation).items():
        yield from _leaves(inner, [*path, name])


def unknown_keys(config: Mapping[str, Any]) -> tuple[UnknownKey, ...]:
    """Every key of a composed config that the schema does not have."""
    return tuple(_unknown(config, RootConfig, ()))


def _unknown(value: Any, annotation: Any, path: Sequence[str]) -> Iterator[UnknownKey]:
    if not isinstance(value, Mapping):
        return
    if is_dataclass(annotation):
        children = get_type_hints(annotation)
        known = tuple(".".join([*path, name]) for name in children)
        for name in value:
            if name not in children:
                deeper = tuple(_ending_in(name, annotation, path))
                yield UnknownKey(key=".".join([*path, str(name)]), known=known, deeper=deeper)
            else:
                yield from _unknown(value[name], children[name], [*path, name])
    elif get_origin(annotation) is dict:
        for name, item in value.items():
            yield from _unknown(item, get_args(annotation)[1], [*path, str(name)])


def _ending_in(name: str, annotation: Any, path: Sequence[str]) -> Iterator[str]:
    """Keys of that name under a node of the schema; what only the user names is not known here."""
    if is_dataclass(annotation):
        for child, inner in get_type_hints(annotation).items():
            if child == name:
                yield ".".join([*path, child])
            yield from _ending_in(name, inner, [*path, child])
