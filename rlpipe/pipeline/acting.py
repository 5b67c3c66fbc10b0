"""An actor for one episode: what a policy remembers, which choices it has and what it draws with are kept here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from rlpipe.algorithms.env_runner import EnvSpaces
from rlpipe.exporters.signature import ACTION, OBSERVATION, Array, Signature, TensorSpec
from rlpipe.exporters.target import Arrays
from rlpipe.policies.player import Allowed
from rlpipe.snapshot.spaces import flat_batch, nested_batch

Compute: TypeAlias = Callable[[Arrays], Arrays]
"""One step: flat named arrays to flat named arrays."""


class EpisodeActor:
    """Acts for one episode through a function of flat named tensors, and remembers what it was given and gave.

    Args:
        compute: One step.
        signature: What it takes and gives.
        spaces: Of its observations and actions.
        seed: Of the noise.
    """

    def __init__(self, compute: Compute, signature: Signature, spaces: EnvSpaces, *, seed: int) -> None:
        self._compute, self._signature, self._spaces = compute, signature, spaces
        self._allowed: Allowed | None = None
        self._noise = np.random.default_rng(seed)
        self._state: dict[str, Array] = {}
        self.given: list[Mapping[str, Array]] = []
        self.gave: list[Mapping[str, Array]] = []

    def begin(self, allowed: Allowed | None = None) -> None:
        """Take over what the environment's mask is; see `rollout`."""
        self._allowed = allowed

    def __call__(self, observation: Any) -> Any:
        """A batch of one observation -> a batch of one action."""
        named = {**flat_batch(self._spaces.observation, observation, OBSERVATION), **self._beside()}
        given = {spec.name: named[spec.name] for spec in self._signature.inputs}
        found = self._compute(given)
        self.given.append(given)
        self.gave.append(found)
        self._state = {name: found[after] for name, after in self._signature.memory.items()}
        actions = {spec.name: found[spec.name] for spec in self._signature.of_kind("action")}
        return nested_batch(self._spaces.action, actions, ACTION)

    def _beside(self) -> dict[str, Array]:
        """Every input that is no observation, for a batch of one."""
        made = dict(self._state)
        for spec in self._signature.inputs:
            size = (1, *spec.shape)
            if spec.kind == "state":
                made.setdefault(spec.name, np.zeros(size, spec.dtype))
            if spec.kind == "episode_start":
                made[spec.name] = np.full(size, not self.given, spec.dtype)
            if spec.kind == "action_mask":
                made[spec.name] = _mask(self._allowed, spec.shape)
            if spec.kind == "noise":
                made[spec.name] = noise(spec, 1, self._noise)
        return made


def noise(spec: TensorSpec, n: int, rng: np.random.Generator) -> Array:
    """(n, *shape) drawn from the distribution of a noise input."""
    draw = rng.standard_normal if spec.distribution == "normal" else rng.random
    return draw((n, *spec.shape)).astype(spec.dtype)


def _mask(allowed: Allowed | None, shape: tuple[int, ...]) -> Array:
    """(1, n) bool; all True where the environment has no mask."""
    found = None if allowed is None else allowed()
    return np.ones((1, *shape), bool) if found is None else np.asarray(found, bool).reshape(1, *shape)
