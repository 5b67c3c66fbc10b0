"""Running statistics of MeanStdFilter, for the connector of layout 2 and the filters of the old stack.

Formula: ray/rllib/utils/filter.py. (x - mean) / (std + 1e-6), clipped; std is the root of the sample variance, which
RLlib rounds to float32, as it does the divisor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.errors import NormalizerError
from rlpipe.importers.libraries.rllib.packed import unpacked
from rlpipe.importers.restricted.values import Record
from rlpipe.snapshot.state import Array

EPS = 1e-6


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Statistics:
    """What one agent's observations are normalised with.

    Attributes:
        mean: float64, the shape of an observation.
        std: float64; `std + EPS` is RLlib's divisor, exactly.
        clip: Bound on the result, or None.
        count: Observations that were seen.
    """

    mean: Array
    std: Array
    clip: float | None
    count: int

    def entries(self) -> dict[str, Array]:
        """Key -> statistic, as the stage `normalize` keeps it."""
        return {"observation/normalize/mean": self.mean, "observation/normalize/std": self.std}


def statistics_of(state: Any, *, subject: str) -> Statistics:
    """The statistics in a filter's state: a dict of layout 2 or of old connectors, or an old filter's attributes.

    Raises:
        NormalizerError: They are missing, broken, of several arrays, or not finite.
    """
    fields = state.state if isinstance(state, Record) else state
    if not isinstance(fields, dict):
        raise _broken(subject, f"a {type(fields).__name__}")
    running = fields.get("running_stats")
    running = running[0] if isinstance(running, (list, tuple)) and len(running) == 1 else running
    numbers = running.state if isinstance(running, Record) else running
    if not isinstance(numbers, dict):
        raise _broken(subject, "statistics of several arrays" if isinstance(running, (list, tuple)) else "none")
    return _statistics(fields, numbers, subject)


def _statistics(fields: Mapping[Any, Any], numbers: Mapping[Any, Any], subject: str) -> Statistics:
    count = numbers.get("num_pushes", numbers.get("_n"))
    if not isinstance(count, (int, float, np.integer, np.floating)) or count < 0:
        raise _broken(subject, f"a count {count!r:.40}")
    mean = _array(numbers.get("mean_array", numbers.get("_M")), "mean", subject)
    squares = _array(next((numbers[name] for name in _SQUARES if name in numbers), None), "sum of squares", subject)
    if mean.shape != squares.shape:
        raise _broken(subject, f"mean {mean.shape} and sum of squares {squares.shape}")
    demean, destd = (fields.get(new, fields.get(old, True)) for new, old in _FLAGS)
    clip = fields.get("clip_by_value", fields.get("clip"))
    return Statistics(
        mean=mean if demean else np.zeros_like(mean),
        std=_std(mean, squares, int(count), is_old=_SQUARES[0] not in numbers)
        if destd
        else np.full_like(mean, 1 - EPS),
        clip=float(clip) if clip else None,
        count=int(count),
    )


_SQUARES = ("sum_sq_diff_array", "std_array", "_S")
"""The sum of squared differences by its names over time, the newest first."""

_FLAGS = (("de_mean_to_zero", "demean"), ("de_std_to_one", "destd"))


def _std(mean: Array, squares: Array, count: int, *, is_old: bool) -> Array:
    """What, with EPS added in float64, is RLlib's divisor of float32; without two observations it once was the mean."""
    lone = np.square(mean) if is_old else np.zeros_like(mean)
    variance = (squares / (count - 1.0) if count > 1 else lone).astype(np.float32)
    divisor = np.sqrt(np.maximum(0, variance)) + np.float32(EPS)
    return np.maximum(divisor.astype(np.float64) - EPS, 0)


def _array(value: Any, name: str, subject: str) -> Array:
    """An array, or base64 of a compressed .npy file."""
    if isinstance(value, (str, bytes)):
        try:
            value = unpacked(value)
        except ValueError as error:
            raise _broken(subject, str(error)) from None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise _broken(subject, f"no {name}")
    array = np.array(value, np.float64)
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise NormalizerError(
            f"the {name} of {subject} is not finite",
            expected="finite numbers",
            found=f"{bad} of {array.size} NaN or infinite",
            fix="an observation in training was not finite; take statistics from an earlier checkpoint",
        )
    return array


def _broken(subject: str, found: str) -> NormalizerError:
    return NormalizerError(
        f"{subject} holds no statistics that can be read",
        expected="count, mean and sum of squares of one array, as MeanStdFilter keeps them",
        found=found,
        fix="save the checkpoint again; a filter over a Dict of observations cannot be imported",
    )
