"""Acting with chance: noise on what the module puts out, before the action stages that it has for acting without.

Noise of the Gumbel distribution makes the highest of the noisy scores a draw from their softmax, noise of the logistic
distribution makes a score above zero a draw with its sigmoid as the chance (Maddison, Tarlow and Minka 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch

from rlpipe.modules.torch.batch import STATE_IN
from rlpipe.policies.action_stages import Threshold
from rlpipe.policies.interface import ACTION, ActionPart
from rlpipe.policies.policy import Policy, evaluating
from rlpipe.snapshot.spaces import nested_batch


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for a batch.

    Attributes:
        prepared: What the module was given: a tensor (B, ...), or nested ones.
        decision: What the action stages were given, noise included: (B, n).
        actions: As the environment takes them, (B, ...), nested as the action space is.
        memory: What the module remembered before this step, name -> (B, ...).
        kept: What is to be given at the next step, input name -> (B, ...).
        allowed: What was allowed, (B, n) bool; None of a policy that takes no mask.
    """

    prepared: Any
    decision: torch.Tensor
    actions: Any
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
        row, given = graph.decided(thought, tensors)
        decision = _noisy(graph.action_parts, thought.outputs, row.to(torch.float32), rng, epsilon)
        found = graph.action(decision, given)
    leaves = (found,) if isinstance(found, torch.Tensor) else found
    named = {name: leaf.cpu().numpy() for name, leaf in zip(graph.action_names, leaves, strict=True)}
    actions = nested_batch(policy.spec.action_space, named, ACTION)
    kept = dict(zip((*graph.stage_memory, *graph.module_memory.values()), thought.kept, strict=True))
    return Choices(thought.batch["obs"], decision, actions, thought.batch.get(STATE_IN, {}), kept, given.mask)


def _noisy(
    parts: Sequence[ActionPart],
    outputs: Mapping[str, Any],
    decision: torch.Tensor,
    rng: np.random.Generator,
    epsilon: float,
) -> torch.Tensor:
    if "q" in outputs:
        shape, device = tuple(decision.shape), decision.device
        at_random = torch.as_tensor(rng.random(shape[0]) < epsilon, device=device)
        anything = torch.as_tensor(rng.random(shape), dtype=torch.float32, device=device)
        return torch.where(at_random[:, None], anything, decision)
    widths = [prod(part.decision.shape) for part in parts]
    blocks = torch.split(decision.flatten(1), widths, dim=1)
    spreads = _spreads(outputs.get("log_std"), parts, widths)
    noisy = [_drawn(*each, rng) for each in zip(parts, blocks, spreads, strict=True)]
    return torch.cat(noisy, dim=1).reshape(decision.shape)


def _spreads(
    log_std: torch.Tensor | None, parts: Sequence[ActionPart], widths: Sequence[int]
) -> Sequence[torch.Tensor | None]:
    """For each part what its numbers are drawn with; the module puts it out for the parts that choose nothing."""
    if log_std is None:
        return [None] * len(parts)
    drawn = [0 if part.decides else width for part, width in zip(parts, widths, strict=True)]
    return torch.split(log_std.flatten(1), drawn, dim=1)


def _drawn(
    part: ActionPart, block: torch.Tensor, log_std: torch.Tensor | None, rng: np.random.Generator
) -> torch.Tensor:
    if part.decides:
        draw = rng.logistic if any(isinstance(stage, Threshold) for stage in part.stages) else rng.gumbel
        return block + torch.as_tensor(draw(size=tuple(block.shape)), dtype=torch.float32, device=block.device)
    if log_std is None:
        return block
    noise = torch.as_tensor(rng.standard_normal(tuple(block.shape)), dtype=torch.float32, device=block.device)
    return block + log_std.exp() * noise
