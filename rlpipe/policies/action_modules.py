"""The stages behind the module, as torch modules."""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from torch import nn

from rlpipe.policies.stage_modules import StageModule
from rlpipe.snapshot.state import Array

_LEAST, _MOST = 2.0**-126, 1.0 - 2.0**-24
"""Uniform noise is kept between, where float32 has two finite logarithms of it."""


def _gumbel(x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Scores whose highest one is a choice drawn by its probability: x - log(-log(u)) (Maddison et al. 2014)."""
    return x - torch.log(-torch.log(noise.clamp(_LEAST, _MOST)))


class Mask(StageModule):
    """Scores that are not allowed become minus infinity; a block without any that is stays as it is."""

    def __init__(self, nvec: tuple[int, ...]) -> None:
        super().__init__()
        self.nvec = list(nvec)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, n) scores and (B, n) bool to (B, n); minus infinity is raised above it where it is allowed."""
        blocks = torch.split(mask, self.nvec, dim=1)
        allowed = torch.cat([block | ~block.any(dim=1, keepdim=True) for block in blocks], dim=1)
        return torch.where(allowed, x.clamp(min=torch.finfo(x.dtype).min), -inf)


class Argmax(StageModule):
    """The highest score of each row."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n) scores to (B,) int64."""
        best = x.argmax(dim=1)
        return best + self.start if self.start else best

    def sample(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """(B, n) logits and (B, n) uniform noise to (B,) int64."""
        return self.forward(_gumbel(x, noise))

    def margin(self, x: torch.Tensor) -> torch.Tensor:
        """(B,): how far the best score is above the next."""
        return _margin(x)


def _margin(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] < 2:
        return torch.full_like(x[:, 0], inf)
    best = x.topk(2, dim=1).values
    return best[:, 0] - best[:, 1]


class MultiArgmax(StageModule):
    """The highest score of each block of each row."""

    start: torch.Tensor

    def __init__(self, nvec: tuple[int, ...], start: tuple[int, ...]) -> None:
        super().__init__()
        self.nvec = list(nvec)
        self.constant("start", np.array(start, np.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, sum(nvec)) scores to (B, len(nvec)) int64."""
        return torch.stack([block.argmax(dim=1) for block in torch.split(x, self.nvec, dim=1)], dim=1) + self.start

    def sample(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """(B, sum(nvec)) logits and as much uniform noise to (B, len(nvec)) int64."""
        return self.forward(_gumbel(x, noise))

    def margin(self, x: torch.Tensor) -> torch.Tensor:
        """(B,): the least distance of a best score above the next, over all blocks."""
        return torch.stack([_margin(block) for block in torch.split(x, self.nvec, dim=1)]).amin(dim=0)


class Threshold(StageModule):
    """1 where the score is above the value."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) scores to (B, ...) int8."""
        return (x > self.value).to(torch.int8)

    def sample(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """(B, ...) logits and as much uniform noise to (B, ...) int8: 1 with the probability of the logit."""
        return (noise < torch.sigmoid(x - self.value)).to(torch.int8)

    def margin(self, x: torch.Tensor) -> torch.Tensor:
        """(B,): the least distance of a score from the value."""
        return (x - self.value).abs().flatten(1).amin(dim=1)


class Clip(StageModule):
    """Into the bounds."""

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, low: Array, high: Array) -> None:
        super().__init__()
        self.constant("low", low)
        self.constant("high", high)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...)."""
        return torch.minimum(torch.maximum(x, self.low), self.high)


class Tanh(nn.Tanh):
    """Hyperbolic tangent, (B, ...) to (B, ...)."""


class Unscale(Clip):
    """From -1..1 to the bounds."""

    span: torch.Tensor

    def __init__(self, low: Array, high: Array) -> None:
        super().__init__(low, high)
        with np.errstate(over="ignore"):
            span = high - low
        self.constant("span", span)
        self.is_bounded = bool(np.isfinite(span).all())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...)."""
        if not self.is_bounded:
            # The distance of the bounds is beyond the largest number, their weighted mean is not.
            share = 0.5 * (x + 1.0)
            return super().forward(self.low * (1.0 - share) + self.high * share)
        # Rounding may carry the sum past the upper bound, and an environment refuses that.
        return super().forward(self.low + 0.5 * (x + 1.0) * self.span)


class Affine(StageModule):
    """x * scale + offset."""

    scale: torch.Tensor
    offset: torch.Tensor

    def __init__(self, scale: Array, offset: Array) -> None:
        super().__init__()
        self.constant("scale", scale)
        self.constant("offset", offset)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...)."""
        return x * self.scale + self.offset


class Round(StageModule):
    """To the nearest whole number, halves to the even one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...)."""
        return x.round()
