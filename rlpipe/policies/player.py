"""A policy that acts step after step, and remembers between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlpipe.snapshot.state import Array

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy


class Player:
    """Deterministic actions for batches of observations, each row one episode.

    Args:
        policy: One with a memory or without.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._state: Mapping[str, Array] | None = None

    def begin(self) -> None:
        """Begin new episodes: what was remembered is forgotten."""
        self._state = None

    def __call__(self, observations: Any) -> Any:
        """The actions of the next step."""
        step = self._policy.step(observations, self._state)
        self._state = step.state
        return step.actions
