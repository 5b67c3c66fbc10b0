"""Heads: features to what a decision is made of. Plain tensor maths without distributions, so that all of it exports.

Every head maps features (B, latent) to a dict of outputs; `logits`, `mean`, `q` or `action` is what decides.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.torch.batch import Outputs
from rlpipe.modules.torch.encoders import linear_stack
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flat_items

LogStd: TypeAlias = Literal["free", "state", "gsde"]

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the log standard deviation that a squashed Gaussian computes from its features (Haarnoja et al. 2018)."""

_GSDE_EPSILON = 1e-6


class CategoricalHead(nn.Module):
    """Logits of one choice out of `n`."""

    def __init__(self, latent: int, n: int) -> None:
        super().__init__()
        self.logits = nn.Linear(latent, n)

    def forward(self, latent: torch.Tensor) -> Outputs:
        """`logits` (B, n)."""
        return {"logits": self.logits(latent)}


class MultiCategoricalHead(CategoricalHead):
    """Logits of several choices, one block of `nvec[i]` behind the other: `logits` (B, sum(nvec))."""

    def __init__(self, latent: int, nvec: tuple[int, ...]) -> None:
        super().__init__(latent, sum(nvec))


class BernoulliHead(CategoricalHead):
    """Logits of `n` independent yes-or-no choices: `logits` (B, n), positive means yes."""


class GaussianHead(nn.Module):
    """Mean and log standard deviation of a Gaussian over actions.

    Args:
        latent: Length of the features.
        n: Length of the action.
        log_std: "free": a parameter (n,). "state": a linear layer of the features. "gsde": a parameter (latent, n), the
            noise is a linear function of the features (Raffin et al. 2021, generalised state-dependent exploration).
        mean_clip: Bound on the mean's size, or None.
        log_std_range: Bounds on a "state" log standard deviation, or None.
    """

    def __init__(
        self,
        latent: int,
        n: int,
        log_std: LogStd,
        *,
        mean_clip: float | None = None,
        log_std_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        self.mean = nn.Linear(latent, n)
        self.log_std: nn.Module | nn.Parameter
        if log_std == "state":
            self.log_std = nn.Linear(latent, n)
        else:
            self.log_std = nn.Parameter(torch.zeros((n,) if log_std == "free" else (latent, n)))
        self.kind = log_std
        self.mean_clip = mean_clip
        self.log_std_range = log_std_range

    def mode(self, latent: torch.Tensor) -> Outputs:
        """`mean` (B, n) alone: what acts without noise."""
        mean = self.mean(latent)
        return {"mean": mean if self.mean_clip is None else mean.clamp(-self.mean_clip, self.mean_clip)}

    def forward(self, latent: torch.Tensor) -> Outputs:
        """`mean` (B, n) and `log_std` (B, n)."""
        mean = self.mode(latent)["mean"]
        return {"mean": mean, "log_std": self._log_std(latent).expand_as(mean)}

    def _log_std(self, latent: torch.Tensor) -> torch.Tensor:
        if isinstance(self.log_std, nn.Module):
            log_std: torch.Tensor = self.log_std(latent)
            return log_std if self.log_std_range is None else log_std.clamp(*self.log_std_range)
        if self.kind == "free":
            return self.log_std
        variance = latent.square() @ self.log_std.exp().square()
        return 0.5 * torch.log(variance + _GSDE_EPSILON)


class SquashedGaussianHead(GaussianHead):
    """A Gaussian whose samples go through tanh; `mean` is the value before it."""

    def __init__(self, latent: int, n: int, log_std: LogStd, *, mean_clip: float | None = None) -> None:
        super().__init__(latent, n, log_std, mean_clip=mean_clip, log_std_range=LOG_STD_RANGE)


class DeterministicHead(nn.Module):
    """One action without noise, before any squashing: `mean` (B, n)."""

    def __init__(self, latent: int, n: int) -> None:
        super().__init__()
        self.mean = nn.Linear(latent, n)

    def forward(self, latent: torch.Tensor) -> Outputs:
        """`mean` (B, n)."""
        return {"mean": self.mean(latent)}


def value_head(latent: int, out: int, *, hidden: tuple[int, ...] = (), act: str = "relu") -> nn.Module:
    """Values (B, out) of features: one linear layer, with `hidden` layers before it where asked for."""
    if not hidden:
        return nn.Linear(latent, out)
    return nn.Sequential(*linear_stack(latent, hidden, act), nn.Linear(hidden[-1], out))


def dueling(advantages: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Q values (B, n) of advantages (B, n) and values (B, 1): V + A - mean(A) (Wang et al. 2016, equation 9)."""
    return values + advantages - advantages.mean(dim=-1, keepdim=True)


class PartsHead(nn.Module):
    """A head for each leaf of a Dict or Tuple of actions, in flat order, under `parts/<i>`.

    `logits` (B, n) are their decisions behind each other, logits and means; `log_std` (B, k) is that of the means.
    """

    def __init__(self, latent: int, space: Space, log_std: LogStd) -> None:
        super().__init__()
        self.parts = nn.ModuleList(policy_head(latent, leaf, log_std) for _, leaf in flat_items(space, "action"))

    def mode(self, latent: torch.Tensor) -> Outputs:
        """`logits` alone: what acts without noise."""
        found = [
            part.mode(latent)["mean"] if isinstance(part, GaussianHead) else part(latent)["logits"]
            for part in self.parts
        ]
        return {"logits": torch.cat(found, dim=-1)}

    def forward(self, latent: torch.Tensor) -> Outputs:
        """`logits`, and `log_std` where a leaf has real numbers."""
        spreads = [part(latent)["log_std"] for part in self.parts if isinstance(part, GaussianHead)]
        return {**self.mode(latent), **({"log_std": torch.cat(spreads, dim=-1)} if spreads else {})}


def policy_head(latent: int, space: Space, log_std: LogStd) -> nn.Module:
    """The head of a stochastic policy over an action space.

    Raises:
        SpecError: A leaf of the space is none of Box, Discrete, MultiDiscrete, MultiBinary.
    """
    if isinstance(space, (Dict, Tuple)):
        return PartsHead(latent, space, log_std)
    builder = _POLICY_HEADS.get(type(space))
    if builder is None:
        known = ", ".join(kind.__name__ for kind in _POLICY_HEADS)
        raise SpecError("there is no policy head for this action space", expected=known, found=type(space).__name__)
    return builder(latent, space, log_std)


_POLICY_HEADS: dict[type, Callable[[int, Any, LogStd], nn.Module]] = {
    Box: lambda latent, space, log_std: GaussianHead(latent, prod(space.shape), log_std),
    Discrete: lambda latent, space, _: CategoricalHead(latent, space.n),
    MultiDiscrete: lambda latent, space, _: MultiCategoricalHead(latent, tuple(space.nvec.reshape(-1).tolist())),
    MultiBinary: lambda latent, space, _: BernoulliHead(latent, prod(space.shape)),
}
