"""A policy as one torch module with flat, named tensors in and out: what runs, and what is exported."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.torch.batch import DECISIONS
from rlpipe.policies.policy_spec import PolicySpec, decision_space
from rlpipe.policies.stage import build_chain
from rlpipe.snapshot.spaces import Box, flat_items, nested_batch
from rlpipe.snapshot.state import State

_NARROW = frozenset({"float16", "float32"})
"""Dtypes of actions that are computed in float32."""


class PolicyGraph(nn.Module):
    """Observation stages, module and action stages in one.

    Attributes:
        input_names: "obs", or "obs.<key>" for each leaf of the observation space, sorted at every level.
        output_names: "action", or "action.<i>" for each leaf of the action space.
    """

    def __init__(self, spec: PolicySpec, module: nn.Module, statistics: State) -> None:
        super().__init__()
        self.space = spec.observation_space
        self.input_names = tuple(name for name, _ in flat_items(spec.observation_space, "obs"))
        self.output_names = ("action",)
        self.observation = build_chain(spec.observation, spec.observation_space, statistics).eval()
        self.module = module
        decision = decision_space(spec.action_space, spec.action)
        self.width = prod(decision.shape)
        self.action = build_chain(spec.action, decision, {}).eval()
        self.is_wide = not isinstance(spec.action_space, Box) or spec.action_space.dtype.name not in _NARROW
        self.deciding = next((index for index, stage in enumerate(spec.action) if stage.decides), len(spec.action))

    def forward(self, *observations: torch.Tensor) -> torch.Tensor:
        """Observations (B, ...) in the order of `input_names`, in the environment's dtypes, to actions (B, ...)."""
        action: torch.Tensor = self.action(self.decision(*observations))
        return action

    def decision(self, *observations: torch.Tensor) -> torch.Tensor:
        """What the module puts out for observations, before any action stage: (B, ...)."""
        named = dict(zip(self.input_names, observations, strict=True))
        nested: Any = nested_batch(self.space, named, "obs")  # type: ignore[arg-type]
        decision = decided_by(self.module.forward_inference({"obs": self.observation(nested)}))  # type: ignore[operator]
        if prod(decision.shape[1:]) != self.width:
            raise SpecError(
                "the module's output does not fit the action space",
                expected=f"{self.width} numbers for each observation",
                found=f"shape {tuple(decision.shape)}",
                fix="give the network another output size, or name other action stages",
            )
        return self._in_stage_dtype(decision)

    def _in_stage_dtype(self, decision: torch.Tensor) -> torch.Tensor:
        """What the network computed in another float type, as the stages take it; float64 stays where it is of use."""
        is_kept = not decision.is_floating_point() or (decision.dtype == torch.float64 and self.is_wide)
        return decision if is_kept or decision.dtype == torch.float32 else decision.to(torch.float32)

    def scores(self, *observations: torch.Tensor) -> torch.Tensor:
        """What the first stage that chooses is given; without one, what the module puts out: (B, ...)."""
        decision = self.decision(*observations)
        if self.deciding == len(self.action):
            return decision
        scores: torch.Tensor = self.action[: self.deciding](decision)
        return scores

    def margins(self, *observations: torch.Tensor) -> torch.Tensor:
        """(B,): by how much the least sure choice is ahead of the next; infinite where nothing is chosen."""
        scores = self.scores(*observations)
        if self.deciding == len(self.action):
            return torch.full((scores.shape[0],), inf, device=scores.device)
        margins: torch.Tensor = self.action[self.deciding].margin(scores)  # type: ignore[operator]
        return margins


def decided_by(outputs: Any) -> torch.Tensor:
    """The one output that decides.

    Raises:
        SpecError: There is none, or there are several.
    """
    found = [name for name in DECISIONS if name in outputs]
    if len(found) == 1:
        decision: torch.Tensor = outputs[found[0]]
        return decision
    raise SpecError(
        "the module's inference has to put out one thing that decides",
        expected=f"one of {', '.join(DECISIONS)}",
        found=", ".join(outputs) or "nothing",
    )
