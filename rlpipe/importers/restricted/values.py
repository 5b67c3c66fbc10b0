"""What a foreign pickle turns into where it is not plain values: names, records, and tokens on the way to arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


class RefusedError(Exception):
    """Why a pickle is not read, in a few words; the reader turns it into an UnsafePayloadError."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that a pickle names: its module and its name, never imported."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """The dotted path."""
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Record:
    """An object of a class that is not known here: what the pickle said about it, as plain values.

    Attributes:
        class_path: Dotted path of its class, or of the function that would have made it.
        args: Arguments of the constructor.
        state: Its attributes, usually a dict.
        items: What was appended to it, for list-like classes.
        entries: What was set in it, for dict-like classes.
    """

    class_path: str
    args: tuple[Any, ...] = ()
    state: Any = None
    items: list[Any] = field(default_factory=list)
    entries: dict[Any, Any] = field(default_factory=dict)

    def attribute(self, name: str) -> Any:
        """An attribute by its name, or None."""
        return self.state.get(name) if isinstance(self.state, dict) else None


class Token:
    """A value that a later opcode may still fill in; `finish` gives the value itself."""

    def build(self, state: Any) -> None:
        """Take the state of a BUILD opcode."""
        raise RefusedError(f"a state of type {type(state).__name__} for a {type(self).__name__}")

    def finish(self) -> Any:
        """The value."""
        raise NotImplementedError


Constructor: TypeAlias = Callable[[tuple[Any, ...]], Any]
Known: TypeAlias = Mapping[tuple[str, str], Constructor]
"""(module, name) -> the function of ours that stands for it; it takes the tuple of arguments."""
