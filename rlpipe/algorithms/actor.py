"""A policy that acts in several environments at once and remembers what it has to in each."""

from __future__ import annotations

import numpy as np
import torch

from rlpipe.algorithms.episodes import Episodes
from rlpipe.algorithms.exploration import Choices, explore
from rlpipe.modules.torch.probing import place_of
from rlpipe.policies.interface import ACTION_MASK, EPISODE_START, masks_of
from rlpipe.policies.observations import read_observations
from rlpipe.policies.policy import Policy


class Actor:
    """Steps of one policy in some of the environments that are stepped together.

    Its memory of an environment begins anew with each episode, and where another policy acted at the last step.

    Args:
        policy: Who acts.
        count: How many environments there are.
    """

    def __init__(self, policy: Policy, count: int) -> None:
        self._policy, self._count = policy, count
        self._memory: dict[str, torch.Tensor] = {}
        self._knows, self._next = np.zeros(count, bool), 0

    def given(self, episodes: Episodes, rows: list[int]) -> dict[str, torch.Tensor]:
        """What the policy is given for the next step, input name -> (B, ...).

        Args:
            episodes: The environments.
            rows: Those in which it acts.
        """
        starts = episodes.begins[rows] | ~self._knows[rows] | (episodes.step_count != self._next)
        return {**self._observed(episodes, rows), **self._remembered(rows, starts)}

    def given_next(self, episodes: Episodes, rows: list[int], kept: Choices) -> dict[str, torch.Tensor]:
        """What it would be given if episodes that just ended went on."""
        found = self._observed(episodes, rows)
        if kept.kept:
            found |= {**kept.kept, EPISODE_START: torch.zeros(len(rows), dtype=torch.bool, device=self._place)}
        return found

    @property
    def _place(self) -> torch.device:
        return place_of(self._policy.module)

    def _observed(self, episodes: Episodes, rows: list[int]) -> dict[str, torch.Tensor]:
        spec = self._policy.spec
        arrays = dict(read_observations(spec.observation_space, episodes.seen(rows)).arrays)
        if self._policy.takes_mask and (mask := masks_of(spec)) is not None:
            arrays[ACTION_MASK] = episodes.allowed(rows, sum(mask.nvec))
        return {name: torch.from_numpy(array).to(self._place) for name, array in arrays.items()}

    def _remembered(self, rows: list[int], starts: np.ndarray) -> dict[str, torch.Tensor]:
        ports = self._policy.memory
        if not ports and not self._policy.module.takes_sequences():
            return {}
        for port in ports:
            if port.name not in self._memory:
                shape, dtype = (self._count, *port.shape), getattr(torch, port.dtype)
                self._memory[port.name] = torch.zeros(shape, dtype=dtype, device=self._place)
        held = {name: memory[rows] for name, memory in self._memory.items()}
        return {**held, EPISODE_START: torch.from_numpy(starts).to(self._place)}

    def choose(self, named: dict[str, torch.Tensor], rows: list[int], episodes: Episodes) -> Choices:
        """Explore, and remember the step.

        Args:
            named: See `given`.
            rows: The environments in which it acts.
            episodes: The environments.
        """
        choices = explore(self._policy, named, episodes.rng)
        for name, memory in choices.kept.items():
            self._memory[name][rows] = memory
        self._knows, self._next = np.isin(np.arange(self._count), rows), episodes.step_count + 1
        return choices
