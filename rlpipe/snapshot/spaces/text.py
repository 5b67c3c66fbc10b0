"""Strings over a character set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpaceError
from rlpipe.snapshot.dtypes import DType
from rlpipe.snapshot.spaces.space import Batch, Finding, Leaf, Parse, Space, Use, differ, fields, whole
from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from rlpipe.snapshot.spec import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text(Leaf):
    """Strings with a length and characters from a set.

    Attributes:
        min_length: Shortest length, at least 0.
        max_length: Longest length.
        charset: The characters in order, each once; the order numbers them.

    Raises:
        SpaceError: A field that is none of that.
    """

    min_length: int
    max_length: int
    charset: str

    def __post_init__(self) -> None:
        shortest = whole(self.min_length, "min_length of Text", at_least=0)
        longest = whole(self.max_length, "max_length of Text", at_least=shortest)
        if not isinstance(self.charset, str) or len(set(self.charset)) < len(self.charset):
            raise SpaceError("charset of Text is wrong", expected="a str, each once", found=repr(self.charset)[:80])
        object.__setattr__(self, "min_length", shortest)
        object.__setattr__(self, "max_length", longest)

    @property
    def shape(self) -> tuple[int, ...]:
        """(): one value is one string."""
        return ()

    @property
    def dtype(self) -> DType:
        """A numpy str dtype of the longest length."""
        return np.dtype(f"<U{self.max_length}")

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """(n,) strings of random length and characters."""
        lengths = rng.integers(self.min_length, self.max_length, size=n, endpoint=True)
        return self._written(lengths, lambda length: rng.integers(len(self.charset), size=length))

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """(n,) strings of the shortest or the longest length, all of the first or all of the last character."""
        lengths = np.where(rng.random(n) < 0.5, self.min_length, self.max_length)
        return self._written(lengths, lambda length: np.full(length, rng.choice([0, len(self.charset) - 1])))

    def _written(self, lengths: Array, choose: Callable[[int], Array]) -> Array:
        rows = ["".join(self.charset[i] for i in choose(length)) if self.charset else "" for length in lengths]
        return np.array(rows, dtype=self.dtype)

    def contains(self, batch: Batch) -> bool:
        """Whether the array is (n,) of such strings."""
        array = np.asarray(batch)
        return array.ndim == 1 and array.dtype.kind == "U" and all(map(self._has, array.tolist()))

    def _has(self, text: str) -> bool:
        return self.min_length <= len(text) <= self.max_length and set(text) <= set(self.charset)

    def describe(self) -> str:
        """Such as "Text(1..8, 62 characters)"."""
        return f"Text({self.min_length}..{self.max_length}, {len(self.charset)} characters)"

    def node(self) -> dict[str, Json]:
        """Lengths and characters."""
        lengths = {"min_length": self.min_length, "max_length": self.max_length}
        return {"type": "Text", **lengths, "charset": self.charset}

    @classmethod
    def of_node(cls, node: Mapping[str, Json], where: str, parse: Parse) -> Text:
        """The space of its JSON."""
        del parse
        fields(node, where, required=("min_length", "max_length", "charset"))
        return cls(node["min_length"], node["max_length"], node["charset"])

    def differences(self, found: Text, use: Use) -> Iterator[Finding]:
        """Lengths and characters are errors."""
        del use
        yield from differ("error", "min_length", self.min_length, found.min_length)
        yield from differ("error", "max_length", self.max_length, found.max_length)
        yield from differ("error", "charset", self.charset, found.charset)

    def as_gymnasium(self, kinds: Any) -> Any:
        """A `gymnasium.spaces.Text`."""
        return kinds.Text(self.max_length, min_length=self.min_length, charset=self.charset)

    @classmethod
    def of_gymnasium(cls, space: Any, convert: Callable[[Any], Space]) -> Text:
        """The space of a `gymnasium.spaces.Text`."""
        del convert
        return cls(space.min_length, space.max_length, "".join(space.character_list))
