"""Lists of texts that a caller gives, such as ids and roles: checked as strictly as those of a config."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rlpipe.errors import ConfigError, listed


def require_texts(name: str, value: Any, *, of: str) -> tuple[str, ...]:
    """The value as different, non-empty texts, at least one.

    Args:
        name: Of the argument, for errors.
        value: What was given.
        of: What the texts are, in the plural.

    Raises:
        ConfigError: It is something else; a lone text is one too, as a list of its letters is what nobody means.
    """
    if not isinstance(value, Collection) or isinstance(value, (str, bytes, Mapping)):
        example = f"{name}=[{value!r}]" if isinstance(value, str) and value else f"{name}=[...]"
        raise ConfigError(name, expected=f"a list of {of}", found=_described(value), fix=f"write {example}")
    texts = tuple(value)
    if not texts:
        fix = f"leave {name} out, or name some"
        raise ConfigError(name, expected=f"at least one of {of}", found="an empty list", fix=fix)
    if wrong := [text for text in texts if not isinstance(text, str) or not text]:
        found, fix = ", ".join(map(_described, wrong)), f"take it out of {name}, or name something"
        raise ConfigError(name, expected=f"{of}, each a text", found=found, fix=fix)
    if twice := {text for text in texts if texts.count(text) > 1}:
        fix = f"write {name}={list(dict.fromkeys(texts))}"
        raise ConfigError(name, expected=f"{of}, each once", found=f"{listed(twice)} more than once", fix=fix)
    return texts


def _described(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}" if value else "an empty text"
    return "None" if value is None else f"{type(value).__name__} {value!r}"
