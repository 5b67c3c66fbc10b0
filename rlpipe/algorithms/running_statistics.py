"""Running mean and variance of what a policy's normalisation is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rlpipe.policies.observation_stages import Normalize
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """What was seen.

    Attributes:
        count: Of how many observations.
        mean: float64.
        variance: Mean square distance from the mean, float64.
    """

    count: int
    mean: Array
    variance: Array

    def joined(self, other: Moments) -> Moments:
        """Those of both together (Chan, Golub and LeVeque 1979, pairwise update)."""
        if not self.count or not other.count:
            return other if other.count else self
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        squares = self.variance * self.count + other.variance * other.count
        return Moments(count, mean, (squares + delta**2 * (self.count * other.count / count)) / count)


def moments_of(rows: Array) -> Moments:
    """The moments of a batch (B, ...)."""
    wide = rows.astype(np.float64)
    return Moments(len(rows), wide.mean(axis=0), wide.var(axis=0))


def normalisation_of(policy: Policy) -> tuple[int, Normalize] | None:
    """Place and stage of a policy's normalisation; None without one."""
    stages = enumerate(policy.spec.observation)
    return next(((index, stage) for index, stage in stages if isinstance(stage, Normalize)), None)


def seen_by_normalisation(policy: Policy, tensors: dict[str, torch.Tensor]) -> Array | None:
    """What a policy's normalisation is given for observations; None without a normalisation.

    Args:
        policy: The policy.
        tensors: Flat name -> (B, ...), as `PolicyGraph` takes them.
    """
    found = normalisation_of(policy)
    if found is None:
        return None
    with torch.inference_mode():
        rows: Array = policy.running_graph().prepared(tensors, stages=found[0]).cpu().numpy()
    return rows


def moments_in(policy: Policy, count: int) -> Moments:
    """The statistics that a policy normalises by, as moments of that many observations."""
    _, stage = _required(policy)
    saved = policy.get_statistics()[stage.type]
    variance = saved["var"] if stage.spread == "var" else saved["std"] ** 2
    return Moments(count, saved["mean"], variance)


def set_moments(policy: Policy, moments: Moments) -> None:
    """Let a policy normalise by these moments.

    Raises:
        NormalizerError: It could not.
    """
    _, stage = _required(policy)
    spread = moments.variance if stage.spread == "var" else np.sqrt(moments.variance)
    policy.set_statistics({**policy.get_statistics(), stage.type: {"mean": moments.mean, stage.spread: spread}})


def _required(policy: Policy) -> tuple[int, Normalize]:
    found = normalisation_of(policy)
    assert found is not None, "asked only of policies that normalise"  # noqa: S101 - a precondition inside this package
    return found
