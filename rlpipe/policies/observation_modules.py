"""The stages before the module that know what the numbers mean, as torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.errors import NormalizerError
from rlpipe.policies.stage_modules import StageModule
from rlpipe.snapshot.state import Array, State

_FLOAT32 = np.dtype(np.float32)
_EXACT_IN_FLOAT32 = frozenset({"bool", "int8", "int16", "uint8", "uint16", "float16", "float32"})


class OneHot(StageModule):
    """Choices as blocks of 0 and 1."""

    column: torch.Tensor
    choice: torch.Tensor

    def __init__(self, nvec: tuple[int, ...], start: tuple[int, ...]) -> None:
        super().__init__()
        self.constant("column", np.repeat(np.arange(len(nvec)), nvec))
        first = zip(start, nvec, strict=True)
        self.constant("choice", np.concatenate([np.arange(low, low + n) for low, n in first]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) integers to (B, sum(nvec)) float32."""
        chosen = x.unsqueeze(-1).flatten(1).to(torch.int64)
        return (chosen.index_select(1, self.column) == self.choice).to(torch.float32)


class Scale(StageModule):
    """(x - offset) / divisor in float32, or in float64 where the input needs it."""

    def __init__(self, divisor: float, offset: float, dtype: np.dtype[Any]) -> None:
        super().__init__()
        self.divisor, self.offset = divisor, offset
        self.work = torch.float32 if dtype.name in _EXACT_IN_FLOAT32 else torch.float64

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...) float32."""
        x = x.to(self.work)
        moved = x - self.offset if self.offset else x
        return (moved / self.divisor).to(torch.float32)


class Normalize(StageModule):
    """(x - mean) / deviation, clipped.

    In float32 the mean is subtracted in a high and a low part: near a large mean the first difference is exact, and the
    second adds the digits of the mean that float32 cannot hold. A few units in the last place are still lost; trainers
    compute in float64, and `in_float64` does as they do.
    """

    mean_high: torch.Tensor
    mean_low: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, mean: Array, deviation: Array, clip: float | None, work: np.dtype[Any]) -> None:
        super().__init__()
        self.statistics = (mean, deviation)
        high = mean.astype(work)
        self.constant("mean_high", high)
        self.constant("mean_low", (mean - high).astype(work))
        self.constant("deviation", deviation.astype(work))
        self.clip = clip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, ...) float32."""
        x = x.to(self.deviation.dtype) - self.mean_high
        x = (x - self.mean_low) / self.deviation
        return (x if self.clip is None else x.clamp(-self.clip, self.clip)).to(torch.float32)


def in_float64(chain: nn.Module) -> None:
    """Let every normalisation in a chain of stages compute in float64 from now on."""
    for parent in list(chain.modules()):
        for name, child in parent.named_children():
            if isinstance(child, Normalize):
                setattr(parent, name, Normalize(*child.statistics, child.clip, np.dtype(np.float64)))


def normalize(formula: str, eps: float, clip: float | None, dtype: np.dtype[Any], state: State) -> Normalize:
    """The module of a normalisation with these statistics, for inputs of this dtype.

    Raises:
        NormalizerError: Statistics that are not finite, negative, or that divide by zero.
    """
    spread = formula.removesuffix("_eps")
    mean, width = (np.asarray(state[name], np.float64) for name in ("mean", spread))
    _require(np.isfinite(mean), "mean", "finite numbers", mean)
    _require(np.isfinite(width) & (width >= 0), spread, "finite numbers of at least 0", width)
    deviation = np.sqrt(width + eps) if formula == "var_eps" else width + eps
    work = _FLOAT32 if dtype.name in _EXACT_IN_FLOAT32 else np.dtype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        divisor = deviation.astype(work)
    _require(
        np.greater(divisor, 0) & np.isfinite(divisor), spread, f"a deviation that is a number above 0 in {work}", width
    )
    return Normalize(mean, deviation, clip, work)


def _require(good: Any, name: str, expected: str, values: Array) -> None:
    if np.all(good):
        return
    at = tuple(int(axis[0]) for axis in np.nonzero(~np.asarray(good)))
    where = f"{int(np.sum(~np.asarray(good)))} of {values.size} elements, first {values[at]} at {list(at)}"
    raise NormalizerError(
        f"observation/normalize/{name} cannot normalise an observation",
        expected=expected,
        found=where,
        fix="take statistics of a finished run; a feature that never changes needs eps above 0",
    )
