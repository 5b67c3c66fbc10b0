"""The tensors of a foreign network that no one has taken yet; an importer takes them until nothing is left over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.snapshot.state import Array

Entries: TypeAlias = dict[str, Array]
"""Keys of a state -> arrays."""


class Untaken:
    """Tensors by dotted name.

    Args:
        tensors: All that there are.
        subject: How errors name what they are of.

    Attributes:
        subject: See above.
        taken: Names in the order in which they were taken.
    """

    thing: ClassVar[str]
    """What the library calls that which has weights."""
    networks: ClassVar[str]
    """The networks that it may have."""
    fix: ClassVar[str]
    """What to do where it has others."""

    def __init__(self, tensors: Mapping[str, Array], *, subject: str) -> None:
        self.subject = subject
        self.taken: list[str] = []
        self._left = dict(tensors)

    def has(self, prefix: str) -> bool:
        """Whether a tensor of this name, or below it, is left."""
        return prefix in self._left or any(name.startswith(f"{prefix}.") for name in self._left)

    def dimensions(self, name: str) -> int:
        """Axes of a tensor that is left; 0 for one that is not there."""
        return self._left[name].ndim if name in self._left else 0

    def found(self, name: str) -> str:
        """What errors say of a tensor that is not as expected."""
        return f"shape {self._left[name].shape}" if name in self._left else f"only {listed(self._left)}"

    def take(self, name: str) -> Array:
        """Take a tensor that is left."""
        self.taken.append(name)
        return self._left.pop(name)

    def require_empty(self) -> None:
        """Check that nothing is left over.

        Raises:
            ForeignFormatError: There is more than networks of this kind have.
        """
        if self._left:
            raise ForeignFormatError(
                f"{self.subject} has weights that its kind of {self.thing} does not have",
                expected=f"{self.networks} and nothing else",
                found=listed(self._left),
                fix=self.fix,
            )
