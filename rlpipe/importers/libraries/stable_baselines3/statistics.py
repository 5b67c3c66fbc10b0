"""VecNormalize statistics: reading them, and what a zip can prove about them.

VecNormalize is saved apart from the model, under any name. It keeps the last raw observation (`old_obs`), and the zip
the last one that the policy saw (`_last_obs`); off-policy algorithms also keep that one raw (`_last_original_obs`).
What normalises one to the other is the file that the policy was trained with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.errors import NormalizerError, UnsafePayloadError, listed
from rlpipe.importers.libraries.stable_baselines3.container import SavedModel, sha256_of
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import loads
from rlpipe.importers.restricted.values import Record
from rlpipe.snapshot.state import Array, equal

_INITIAL_COUNT = 1e-4  # RunningMeanStd starts with this many samples
_EXACT = 1e-6
"""Of the value itself: float32 keeps seven digits, and a small value tells as much of the variance as a large one."""
_REBUILT = 1e-6
"""Beside that, where statistics were computed backwards; those of a file give the same value to the last bit."""
_MOST_RESETS = 3
_LEAST_CLIP = float(np.finfo(np.float32).tiny)


class Evidence(IntEnum):
    """How well a file of statistics fits a zip."""

    REFUTED = 0
    UNPROVED = 1
    LIKELY = 2
    PROVED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What a VecNormalize file says about observations.

    Attributes:
        name: Base name of the file.
        sha256: SHA-256 of the file, in hex.
        mean: float64, shape of one observation; None where observations are not normalised.
        var: float64, same shape; None likewise.
        eps: Added to the variance.
        clip: Bound on the result, or None.
        count: Samples that the statistics have seen.
        last_raw: The last raw observations, (environments, ...), or None.
    """

    name: str
    sha256: str
    mean: Array | None
    var: Array | None
    eps: float
    clip: float | None
    count: float
    last_raw: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation; () where observations are left alone."""
        return () if self.mean is None else self.mean.shape

    def entries(self) -> dict[str, Array]:
        """The statistics under their keys in the state of a policy."""
        named = {"mean": self.mean, "var": self.var}
        return {f"observation/normalize/{name}": array for name, array in named.items() if array is not None}

    def normalize(self, observations: Array) -> Array:
        """What VecNormalize makes of raw observations (B, ...): float32, or the observations themselves."""
        if self.mean is None or self.var is None:
            return observations
        # Damaged numbers may be too large or too small; what comes of them fits no observation.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scaled = (observations - self.mean) / np.sqrt(self.var + self.eps)
            bounded = scaled if self.clip is None else np.clip(scaled, -self.clip, self.clip)
            return bounded.astype(np.float32)


def same(left: Statistics, right: Statistics) -> bool:
    """Whether two files normalise alike, bit for bit."""
    return equal(left.entries(), right.entries()) and (left.eps, left.clip) == (right.eps, right.clip)


def read_statistics(path: Path) -> Statistics:
    """The statistics in a VecNormalize pickle.

    Raises:
        NormalizerError: There is no such file, it is no VecNormalize, or its numbers are not finite.
        UnsafePayloadError: It cannot be read safely.
    """
    if not path.is_file():
        raise NormalizerError(
            f"there is no statistics file {path}",
            expected="the file that VecNormalize.save() wrote",
            found="a directory" if path.is_dir() else "nothing",
            fix="check source.normalizer",
        )
    record = loads(path.read_bytes(), subject=path.name, known=KNOWN)
    if not isinstance(record, Record) or record.attribute("clip_obs") is None:
        raise _not_statistics(path.name, record)
    sha256 = sha256_of(path)
    mean, var, count = _moments(record, path.name)
    return Statistics(
        name=path.name,
        sha256=sha256,
        mean=mean,
        var=var,
        eps=_number(record, "epsilon", path.name, least=0.0),
        clip=_clip(record, path.name),
        count=count,
        last_raw=_array_or_none(record.attribute("old_obs")),
    )


def _not_statistics(name: str, found: Any) -> NormalizerError:
    return NormalizerError(
        f"{name} holds no statistics of observations",
        expected="a pickled VecNormalize (VecNormalize.save)",
        found=found.class_path if isinstance(found, Record) else type(found).__name__,
        fix="name the right file: source.normalizer=vecnormalize.pkl",
    )


def _moments(record: Record, name: str) -> tuple[Array | None, Array | None, float]:
    """Mean, variance and count; None for both where the wrapper left observations alone."""
    if record.attribute("norm_obs") is False:
        return None, None, 0.0
    moments = record.attribute("obs_rms")
    if isinstance(moments, dict):
        raise NormalizerError(
            f"{name} normalises a dict of observations, which is not supported yet",
            expected="statistics of one array",
            found=f"statistics of {listed(map(str, moments))}",
        )
    if not isinstance(moments, Record):
        raise _not_statistics(name, record)
    mean, var = (_finite(moments.attribute(part), f"obs_rms.{part}", name) for part in ("mean", "var"))
    if mean.shape != var.shape or np.any(var < 0):
        found = f"mean {mean.shape}, var {var.shape}, smallest variance {var.min(initial=0.0)}"
        raise NormalizerError(f"{name} is broken", expected="mean and var of one shape, no var below 0", found=found)
    count = float(_finite(moments.attribute("count"), "obs_rms.count", name))
    if count <= 0:
        raise NormalizerError(f"{name} is broken", expected="a count of samples above 0", found=f"{count:g}")
    return mean, var, count


def _finite(value: Any, field: str, name: str) -> Array:
    if not isinstance(value, (np.ndarray, np.generic, int, float)):
        raise NormalizerError(f"{name} lacks {field}", expected="numbers", found=type(value).__name__)
    array = np.array(value, dtype=np.float64)
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise NormalizerError(
            f"{field} of {name} is not finite",
            expected="finite numbers",
            found=f"{bad} of {array.size} NaN or infinite",
            fix="training had diverged or an observation was not finite; take statistics from an earlier checkpoint",
        )
    return array


def _number(record: Record, field: str, name: str, *, least: float) -> float:
    number = float(_finite(record.attribute(field), field, name))
    if number < least:
        raise NormalizerError(f"{name} is broken", expected=f"{field} of at least {least:g}", found=f"{number:g}")
    return number


def _clip(record: Record, name: str) -> float | None:
    value = record.attribute("clip_obs")
    return (
        None if isinstance(value, float) and value == np.inf else _number(record, "clip_obs", name, least=_LEAST_CLIP)
    )


def _array_or_none(value: Any) -> Array | None:
    return value if isinstance(value, np.ndarray) and value.ndim else None


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """What a zip says about the observations that its policy saw.

    Attributes:
        seen: The last observations given to the policy, (environments, ...), or None.
        raw: The same ones raw, where the algorithm keeps them, or None.
        shape: Shape of one observation.
        steps: Steps of all environments together.
        environments: How many there were.
    """

    seen: Array | None
    raw: Array | None
    shape: tuple[int, ...]
    steps: int
    environments: int


def traces_of(model: SavedModel, shape: tuple[int, ...], *, off_policy: bool) -> Traces:
    """What the zip kept. On-policy algorithms keep the raw observation of the first reset only: it proves nothing."""
    return Traces(
        seen=_trace(model, "_last_obs"),
        raw=_trace(model, "_last_original_obs") if off_policy else None,
        shape=shape,
        steps=model.steps,
        environments=model.whole("n_envs") or 1,
    )


def _trace(model: SavedModel, field: str) -> Array | None:
    try:
        return _array_or_none(model.unpickled(field))
    except UnsafePayloadError:
        return None  # the field is one of many that a policy does not need; without it nothing is proved


def weigh(statistics: Statistics, traces: Traces, *, paired: bool) -> Evidence:
    """How well statistics fit what the zip kept.

    Args:
        statistics: What a file says.
        traces: What the zip says.
        paired: Whether the names of both say that a callback saved them together.
    """
    if statistics.mean is not None and statistics.mean.shape != traces.shape:
        return Evidence.REFUTED
    by_file, by_zip = _turns(statistics, statistics.last_raw, traces.seen), _turns(statistics, traces.raw, traces.seen)
    # A callback saves the statistics of a step with the observations of the step before.
    before = _turns(_before_last_update(statistics), traces.raw, traces.seen, slack=_REBUILT)
    if by_file or by_zip or before:
        return Evidence.PROVED
    if by_zip is not None or (statistics.mean is not None and statistics.count < traces.steps):
        return Evidence.REFUTED
    likely = _count_fits(statistics, traces) and (by_file is None or paired)
    return Evidence.LIKELY if likely else Evidence.UNPROVED


def disproof(statistics: Statistics, traces: Traces) -> tuple[str, str] | None:
    """What the zip's own observations say against statistics, as (expected, found); None if nothing."""
    if statistics.mean is None or traces.seen is None:
        return None
    largest = float(np.max(np.abs(traces.seen), initial=0.0))
    if statistics.clip is not None and largest > statistics.clip * (1 + _EXACT):
        return f"clip_obs of at least {largest:.6g}, which the policy saw", f"clip_obs {statistics.clip:.6g}"
    gap = _gap(statistics, traces.raw, traces.seen)
    if gap is None or weigh(statistics, traces, paired=False) == Evidence.PROVED:
        return None
    expected = "statistics that turn the last raw observation in the zip into the one that the policy saw"
    return expected, f"statistics that miss it by up to {gap:.3g}"


def open_question(statistics: Statistics, traces: Traces) -> str:
    """What a proof does not reach, since the observation that it rests on says nothing of it; "" if nothing."""
    if statistics.mean is None or traces.seen is None or statistics.clip is None:
        return ""
    cut = np.abs(traces.seen.astype(np.float64)) >= statistics.clip * (1 - _EXACT)
    if not cut.any():
        return f"that did not reach clip_obs, {statistics.clip:.6g} by the file"
    hidden = int(np.count_nonzero(cut.all(axis=0)))
    elements = f"{hidden} of {cut[0].size} elements" if hidden else ""
    return f"{elements} were cut off there, which says nothing of their mean and var" if hidden else ""


def _turns(statistics: Statistics, raw: Array | None, seen: Array | None, *, slack: float = 0.0) -> bool | None:
    """Whether the raw observations, normalised, are those the policy saw; None without them."""
    if raw is None or seen is None or raw.shape != seen.shape or not raw.size:
        return None
    return bool(np.all(np.abs(statistics.normalize(raw) - seen) <= slack + _EXACT * np.abs(seen)))


def _gap(statistics: Statistics, raw: Array | None, seen: Array | None) -> float | None:
    """Largest difference between the raw observations, normalised, and those the policy saw; None without them."""
    if raw is None or seen is None or raw.shape != seen.shape or not raw.size:
        return None
    return float(np.max(np.abs(statistics.normalize(raw) - seen)))


def _before_last_update(now: Statistics) -> Statistics:
    """The statistics before they took in the last raw observations: RunningMeanStd.update_from_moments, backwards."""
    if now.mean is None or now.var is None or now.last_raw is None or now.last_raw.shape[1:] != now.mean.shape:
        return now
    new = len(now.last_raw)
    old = now.count - new
    if old <= 0:
        return now
    batch_mean, batch_var = now.last_raw.mean(axis=0), now.last_raw.var(axis=0)
    mean = (now.mean * now.count - batch_mean * new) / old
    squares = now.var * now.count - batch_var * new - np.square(batch_mean - mean) * old * new / now.count
    return replace(now, mean=mean, var=np.maximum(squares / old, 0.0), count=old)


def _count_fits(statistics: Statistics, traces: Traces) -> bool:
    """Whether the statistics saw one sample for each step of training, and one for each of a few resets."""
    if statistics.mean is None or not traces.steps:
        return False
    resets = (statistics.count - _INITIAL_COUNT - traces.steps) / traces.environments
    return abs(resets - round(resets)) < 1e-6 * max(1.0, statistics.count) and 1 <= round(resets) <= _MOST_RESETS
