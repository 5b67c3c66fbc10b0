"""What comes of one step of a policy or an artifact. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from rlpipe.errors import RlpipeError
from rlpipe.snapshot.state import Array

E = TypeVar("E", bound=RlpipeError)


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


def forgetful(name: str, called: str, kind: type[E]) -> E:
    """The error where something that remembers is asked for actions alone.

    Args:
        name: What it is.
        called: A name for it in code.
        kind: The class of the error.
    """
    return kind(
        f"{name} remembers, and compute_actions forgets",
        expected="the state that the last step gave",
        found="no state",
        fix=f"actions, state = {called}.step(observations, state), with state=None at the start of an episode",
    )
