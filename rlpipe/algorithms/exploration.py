"""Acting with chance: noise on what the module puts out, before the action stages that it has for acting without.

Noise of the Gumbel distribution makes the highest of the noisy scores a draw from their softmax, noise of the logistic
distribution makes a score above zero a draw with its sigmoid as the chance (Maddison, Tarlow and Minka 2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlpipe.modules.torch.batch import STATE_IN
from rlpipe.policies.action_stages import Threshold
from rlpipe.policies.policy import Policy, evaluating
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for a batch.

    Attributes:
        prepared: What the module was given: a tensor (B, ...), or nested ones.
        decision: What the action stages were given, noise included: (B, n).
        actions: As the environment takes them, (B, ...).
        memory: What the module remembered before this step, name -> (B, ...).
        kept: What is to be given at the next step, input name -> (B, ...).
        allowed: What was allowed, (B, n) bool; None of a policy that takes no mask.
    """

    prepared: Any
    decision: torch.Tensor
    actions: Array
    memory: Mapping[str, torch.Tensor] = field(default_factory=dict)
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    allowed: torch.Tensor | None = None


def explore(
    policy: Policy, tensors: dict[str, torch.Tensor], rng: np.random.Generator, *, epsilon: float = 0.1
) -> Choices:
    """Draw actions for observations.

    Args:
        policy: Whose actions.
        tensors: Flat name -> (B, ...), as `PolicyGraph` takes them; memory, `episode_start` and `action_mask` included
            where it uses them.
        rng: Where chance comes from.
        epsilon: Chance of an action at random where the module puts out Q values.

    Raises:
        SpecError: The module puts out nothing that decides.
    """
    graph = policy.running_graph()
    with evaluating(policy.module), torch.inference_mode():
        thought = graph.wander(tensors)
        found, given = graph.decided(thought, tensors)
        decision = _noisy(policy, thought.outputs, found.to(torch.float32), rng, epsilon)
        actions: Array = graph.action(decision, given).cpu().numpy()
    kept = dict(zip((*graph.stage_memory, *graph.module_memory.values()), thought.kept, strict=True))
    return Choices(thought.batch["obs"], decision, actions, thought.batch.get(STATE_IN, {}), kept, given.mask)


def _noisy(
    policy: Policy, outputs: Mapping[str, Any], decision: torch.Tensor, rng: np.random.Generator, epsilon: float
) -> torch.Tensor:
    shape, device = tuple(decision.shape), decision.device
    if "log_std" in outputs:
        noise = torch.as_tensor(rng.standard_normal(shape), dtype=torch.float32, device=device)
        return decision + outputs["log_std"].exp() * noise
    if "q" in outputs:
        at_random = torch.as_tensor(rng.random(shape[0]) < epsilon, device=device)
        anything = torch.as_tensor(rng.random(shape), dtype=torch.float32, device=device)
        return torch.where(at_random[:, None], anything, decision)
    if "logits" in outputs:
        draw = rng.logistic if any(isinstance(stage, Threshold) for stage in policy.spec.action) else rng.gumbel
        return decision + torch.as_tensor(draw(size=shape), dtype=torch.float32, device=device)
    return decision
