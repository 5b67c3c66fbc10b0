"""Acting with chance: noise on what the module puts out, before the action stages that it has for acting without.

Noise of the Gumbel distribution makes the highest of the noisy scores a draw from their softmax, noise of the logistic
distribution makes a score above zero a draw with its sigmoid as the chance (Maddison, Tarlow and Minka 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlpipe.errors import SpecError
from rlpipe.modules.torch.batch import Outputs
from rlpipe.policies.acting import NOTHING
from rlpipe.policies.action_stages import Threshold
from rlpipe.policies.policy import Policy, evaluating
from rlpipe.policies.policy_graph import decided_by
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for a batch.

    Attributes:
        prepared: What the module was given: a tensor (B, ...), or nested ones.
        decision: What the action stages were given, noise included: (B, n).
        actions: As the environment takes them, (B, ...).
    """

    prepared: Any
    decision: torch.Tensor
    actions: Array


def explore(
    policy: Policy, tensors: dict[str, torch.Tensor], rng: np.random.Generator, *, epsilon: float = 0.1
) -> Choices:
    """Draw actions for observations.

    Args:
        policy: A policy without memory.
        tensors: Flat name -> (B, ...), as `PolicyGraph` takes them.
        rng: Where chance comes from.
        epsilon: Chance of an action at random where the module puts out Q values.

    Raises:
        SpecError: The module puts out nothing that decides.
    """
    graph = policy.running_graph()
    with evaluating(policy.module), torch.inference_mode():
        prepared = graph.prepared(tensors)
        outputs = policy.module.forward_exploration({"obs": prepared})
        decision = _noisy(policy, outputs, decided_by(outputs).to(torch.float32), rng, epsilon)
        actions: Array = graph.action(decision, NOTHING).cpu().numpy()
    return Choices(prepared, decision, actions)


def _noisy(
    policy: Policy, outputs: Outputs, decision: torch.Tensor, rng: np.random.Generator, epsilon: float
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


def require_no_memory(name: str, policy: Policy) -> None:
    """Check that a policy can be explored with.

    Raises:
        SpecError: It keeps a memory through an episode.
    """
    if memory := policy.module.get_initial_state():
        raise SpecError(
            f"{name} keeps a memory through an episode",
            expected="policies whose next action follows from the observation alone",
            found=", ".join(map(str, memory)),
            fix="let it act in a loop of your own, and give its learner the batches",
        )
