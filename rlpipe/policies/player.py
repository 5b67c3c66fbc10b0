"""What acts step after step, and remembers between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rlpipe.policies.step import Step
from rlpipe.snapshot.state import Array


class Stepping(Protocol):
    """A policy, or an artifact of one."""

    def step(self, observations: Any, state: Mapping[str, Array] | None) -> Step:
        """One step from what the last one left; None at the start of episodes."""


class Player:
    """Actions for batches of observations, each row one episode.

    Args:
        stepping: With a memory or without.
    """

    def __init__(self, stepping: Stepping) -> None:
        self._stepping = stepping
        self._state: Mapping[str, Array] | None = None

    def begin(self) -> None:
        """Begin new episodes: what was remembered is forgotten."""
        self._state = None

    def __call__(self, observations: Any) -> Any:
        """The actions of the next step."""
        step = self._stepping.step(observations, self._state)
        self._state = step.state
        return step.actions
