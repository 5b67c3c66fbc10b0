"""What comes of one step of a policy or an artifact. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True)
class Step:
    """What a policy does at one step. It unpacks as `actions, state = policy.step(...)`.

    Attributes:
        actions: (B, *shape), or one action, nested as the action space is.
        state: What the next step is to be given, name -> (B, ...); of a single observation B is 1.
    """

    actions: Any
    state: dict[str, Array]

    def __iter__(self) -> Iterator[Any]:
        """The actions, then the state."""
        return iter((self.actions, self.state))
