"""Experience of one policy while it is collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from rlpipe.algorithms.episodes import Outcome
from rlpipe.algorithms.exploration import Choices
from rlpipe.policies.policy import Policy, evaluating
from rlpipe.snapshot.spaces import flat_batch, nested_batch
from rlpipe.snapshot.state import Array

Samples: TypeAlias = dict[str, dict[str, Any]]
"""Policy id -> name -> (n, ...), in the order of steps:

obs, next_obs: what the module takes. actions: as the environment takes them. decisions: what the action stages were
given, noise included. rewards: float32. terminated, truncated: bool."""

_OUTCOME = ("rewards", "terminated", "truncated")


def counted(samples: Samples) -> dict[str, int]:
    """How many steps there are among samples, and how many episodes ended."""
    ended = [each["terminated"] | each["truncated"] for each in samples.values()]
    return {"env_steps": sum(map(len, ended)), "episodes": sum(int(each.sum()) for each in ended)}


class Collected:
    """Steps of one policy. Steps that only begin the next episode of an environment are left out.

    Args:
        policy: Whose steps.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy, self._space = policy, policy.spec.module.observation_space
        self._parts: list[Mapping[str, Array]] = []
        self._rows: list[Array] = []

    def saw(self, rows: Array | None, is_step: Array) -> None:
        """Keep what the policy's normalisation was given."""
        if rows is not None:
            self._rows.append(rows[is_step])

    def add(self, choices: Choices, tensors: Mapping[str, torch.Tensor], outcome: Outcome, rows: list[int]) -> None:
        """Keep a step of some environments.

        Args:
            choices: What was chosen.
            tensors: What was observed then, by flat name.
            outcome: What came of it in all environments.
            rows: Which of them.
        """
        part = {**self._flat("obs", choices.prepared), **self._flat("next_obs", self._prepared(tensors))}
        part["decisions"], part["actions"] = choices.decision.cpu().numpy(), choices.actions
        part |= {name: getattr(outcome, name)[rows] for name in _OUTCOME}
        is_step = outcome.is_step[rows]
        self._parts.append({name: array[is_step] for name, array in part.items()})

    def rows(self) -> Array | None:
        """All that the policy's normalisation was given; None if it has none."""
        return np.concatenate(self._rows) if self._rows else None

    def arrays(self) -> dict[str, Any]:
        """Everything, see `Samples`."""
        joined = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        joined["rewards"] = joined["rewards"].astype(np.float32)
        nested = {name: self._nested(name, joined) for name in ("obs", "next_obs")}
        return nested | {name: joined[name] for name in ("actions", "decisions", *_OUTCOME)}

    def _prepared(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        graph = self._policy.running_graph()
        with evaluating(self._policy.module), torch.inference_mode():
            return graph.prepared(dict(tensors))

    def _flat(self, name: str, prepared: Any) -> dict[str, Array]:
        flat: Mapping[str, Any] = flat_batch(self._space, prepared, name)
        return {key: tensor.cpu().numpy() for key, tensor in flat.items()}

    def _nested(self, name: str, joined: Mapping[str, Array]) -> Any:
        mine = {key: array for key, array in joined.items() if key == name or key.startswith(f"{name}.")}
        return nested_batch(self._space, mine, name)
