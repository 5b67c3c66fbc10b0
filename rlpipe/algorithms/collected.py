"""Experience of one policy while it is collected."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from rlpipe.algorithms.episodes import Outcome
from rlpipe.algorithms.exploration import Choices
from rlpipe.modules.torch.batch import STARTS, STATE_IN
from rlpipe.policies.interface import ACTION_MASK, EPISODE_START
from rlpipe.policies.policy import Policy, evaluating
from rlpipe.snapshot.spaces import Space, flat_batch, nested_batch
from rlpipe.snapshot.state import Array

Samples: TypeAlias = dict[str, dict[str, Any]]
"""Policy id -> name -> (n, ...), in the order of steps:

obs, next_obs: what the module takes. actions: as the environment takes them. These are nested as their spaces are.
decisions: what the action stages were given, noise included, (n, k); of a Dict or Tuple of actions the blocks of its
leaves behind each other. rewards: float32. terminated, truncated: bool. action_mask, next_action_mask: bool, what was
allowed, of policies that take a mask.

Of a module that trains on sequences, everything is (B, T, ...), a row for each environment, with state_in: name ->
(B, ...), what it remembered before the first step; episode_start: bool, where its memory begins anew; loss_mask: bool,
False where an environment only began its next episode. A critic's own memory comes from `Algorithm.sample`: runners
have no critics."""

_OUTCOME = ("rewards", "terminated", "truncated")


LOSS_MASK = "loss_mask"
"""RLlib's name for where a step counts."""

Tensors: TypeAlias = Mapping[str, torch.Tensor]


def counted(samples: Samples) -> dict[str, int]:
    """How many steps there are among samples, and how many episodes ended."""
    ended = [each["terminated"] | each["truncated"] for each in samples.values()]
    steps = [each.get(LOSS_MASK, np.ones(len(each["rewards"]))) for each in samples.values()]
    return {"env_steps": sum(int(each.sum()) for each in steps), "episodes": sum(int(each.sum()) for each in ended)}


class Collected:
    """Steps of one policy. Steps that only begin the next episode of an environment are left out, or marked.

    Args:
        policy: Whose steps.
    """

    def __init__(self, policy: Policy) -> None:
        seen = policy.spec.module.observation_space
        self._policy = policy
        self._spaces: dict[str, Space] = {"obs": seen, "next_obs": seen, "actions": policy.spec.action_space}
        self._is_sequence = policy.module.takes_sequences()
        self._first_memory: Mapping[str, torch.Tensor] | None = None
        self._parts: list[Mapping[str, Array]] = []
        self._rows: list[Array] = []

    def saw(self, rows: Array | None, is_step: Array) -> None:
        """Keep what the policy's normalisation was given."""
        if rows is not None:
            self._rows.append(rows[is_step])

    def add(self, choices: Choices, before: Tensors, after: Tensors, outcome: Outcome, rows: list[int]) -> None:
        """Keep a step of some environments.

        Args:
            choices: What was chosen.
            before: What the policy was given, by flat name.
            after: What it would be given next if its episodes went on.
            outcome: What came of it in all environments.
            rows: Which of them.
        """
        part = {**self._flat("obs", choices.prepared), **self._flat("next_obs", self._prepared(after))}
        part |= {"decisions": choices.decision.cpu().numpy(), **self._flat("actions", choices.actions)}
        part |= {name: getattr(outcome, name)[rows] for name in _OUTCOME}
        if choices.allowed is not None:
            part[ACTION_MASK] = choices.allowed.cpu().numpy()
            part[f"next_{ACTION_MASK}"] = self._allowed(after)
        self._parts.append(self._in_sequence(part, choices, before, outcome.is_step[rows]))

    def _in_sequence(
        self, part: dict[str, Array], choices: Choices, before: Tensors, is_step: Array
    ) -> dict[str, Array]:
        if not self._is_sequence:
            return {name: array[is_step] for name, array in part.items()}
        if self._first_memory is None:
            self._first_memory = choices.memory
        return {**part, STARTS: before[EPISODE_START].cpu().numpy(), LOSS_MASK: is_step}

    def _allowed(self, named: Tensors) -> Array:
        mask: Array = named[self._policy.running_graph().mask_name].cpu().numpy()
        return mask != 0

    def rows(self) -> Array | None:
        """All that the policy's normalisation was given; None if it has none."""
        return np.concatenate(self._rows) if self._rows else None

    def arrays(self) -> dict[str, Any]:
        """Everything, see `Samples`."""
        memory = self._first_memory
        join = partial(np.stack, axis=1) if self._is_sequence else np.concatenate
        joined = {name: join([part[name] for part in self._parts]) for name in self._parts[0]}
        joined["rewards"] = joined["rewards"].astype(np.float32)
        nested = {name: self._nested(name, joined) for name in self._spaces}
        rest = {name: joined[name] for name in joined if name.partition(".")[0] not in nested}
        state = {STATE_IN: {name: value.cpu().numpy() for name, value in memory.items()}} if memory else {}
        return nested | rest | state

    def _prepared(self, tensors: Tensors) -> Any:
        graph = self._policy.running_graph()
        with evaluating(self._policy.module), torch.inference_mode():
            return graph.prepared(dict(tensors))

    def _flat(self, name: str, batch: Any) -> dict[str, Array]:
        flat: Mapping[str, Any] = flat_batch(self._spaces[name], batch, name)
        return {key: value.cpu().numpy() if isinstance(value, torch.Tensor) else value for key, value in flat.items()}

    def _nested(self, name: str, joined: Mapping[str, Array]) -> Any:
        mine = {key: array for key, array in joined.items() if key == name or key.startswith(f"{name}.")}
        return nested_batch(self._spaces[name], mine, name)
