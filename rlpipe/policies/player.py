"""Something that acts step after step, and remembers between the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from rlpipe.policies.step import Step
from rlpipe.snapshot.state import Array

Allowed = Callable[[], Any]
"""What an environment allows now: a row of flags, one for each choice, or None if it does not say."""


class Steps(Protocol):
    """A policy, or an artifact of one."""

    @property
    def takes_mask(self) -> bool:
        """Whether choices can be forbidden."""

    def step(self, observations: Any, state: Mapping[str, Array] | None, *, action_mask: Any = None) -> Step:
        """See `Policy.step`."""


class Player:
    """Deterministic actions for batches of observations, each row one episode.

    Args:
        policy: One with a memory or without.
    """

    def __init__(self, policy: Steps) -> None:
        self._policy = policy
        self._state: Mapping[str, Array] | None = None
        self._allowed: Allowed | None = None

    def begin(self, allowed: Allowed | None = None) -> None:
        """Begin new episodes: what was remembered is forgotten.

        Args:
            allowed: Says before each step what is allowed; None: all, or what the observation says itself.
        """
        self._state, self._allowed = None, allowed if self._policy.takes_mask else None

    def __call__(self, observations: Any) -> Any:
        """The actions of the next step."""
        found = None if self._allowed is None else self._allowed()
        mask = None if found is None else np.asarray(found, np.bool_).reshape(1, -1)
        step = self._policy.step(observations, self._state, action_mask=mask)
        self._state = step.state
        return step.actions
