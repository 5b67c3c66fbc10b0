"""Whether an artifact's actions are the policy's, number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rlpipe.exporters.signature import TensorSpec
from rlpipe.exporters.target import Arrays

Array: TypeAlias = "np.ndarray[Any, Any]"
Perturb: TypeAlias = "Callable[[Array, float], Iterable[Arrays]]"
"""Numbers of observations, a relative amount -> draws of the policy's actions there when its sums are off so much."""

ROUNDING = 2.0**-19
"""16 units in the last place of float32: what adding up in another order can do to a sum."""

FLOOR = 1e-5
"""Where a policy's own rounding stays below this, no difference is excused by it: well beyond what float32 needs."""

_NO_BOUND = 1e6
_MOST_ROUNDING = 0.25
"""An artifact that differs on more than this share of the observations differs for another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """When two numbers are the same: `|a - b| <= atol * magnitude + rtol * |b|`, where b is the policy's.

    The magnitude is 1, or that of the actions where bounds allow larger ones and the policy uses them.
    """

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """What is compared.

    Attributes:
        policy: Output name -> the policy's actions for all n observations, (n, *shape).
        defined: (n,) bool; False where the policy computes no number.
        artifact: Output name -> the artifact's actions, (m, *shape).
        rows: (m,) the observation that each row of the artifact's actions answers.
    """

    policy: Arrays
    defined: Array
    artifact: Arrays
    rows: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What comparing one artifact with its policy found; counts are of observations.

    Attributes:
        max_error: Largest difference, `rounding` and `ties` apart; NaN if the artifact gives no number where the policy
            does. Where no bound says how large an output may be, in units of its size, but at least of 1.
        differing: Answered differently; sorted.
        ties: Answered with another decision, where the policy's own hangs on its last digits.
        rounding: Beyond the tolerance, but within what the policy's own rounding does there.
        undefined: Answered differently where the policy itself gives no number.
        errors: Output name -> its largest difference.
    """

    max_error: float
    differing: tuple[int, ...]
    ties: int
    rounding: int
    undefined: int
    errors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The same for one output, by row of the artifact's answers: the largest difference of a row, and masks."""

    errors: Array
    bad: Array
    ties: Array
    rounding: Array
    undefined: Array


def compare(specs: Sequence[TensorSpec], answers: Answers, tolerance: Tolerance, perturb: Perturb) -> Findings:
    """Compare an artifact's actions with the policy's.

    Args:
        specs: The outputs.
        answers: What both answered.
        tolerance: When numbers are the same.
        perturb: Asked only about observations that differ.
    """
    verdicts = {spec.name: judge(spec, answers, tolerance, perturb) for spec in specs}
    found = verdicts.values()

    def observations(masks: Iterable[Array]) -> tuple[int, ...]:
        return tuple(np.unique(answers.rows[np.any(list(masks), axis=0)]).tolist())

    errors = {name: float(verdict.errors.max(initial=0.0)) for name, verdict in verdicts.items()}
    return Findings(
        max_error=float(np.max(list(errors.values()))),
        differing=observations(verdict.bad for verdict in found),
        ties=len(observations(verdict.ties for verdict in found)),
        rounding=len(observations(verdict.rounding for verdict in found)),
        undefined=len(observations(verdict.undefined for verdict in found)),
        errors=errors,
    )


def judge(spec: TensorSpec, answers: Answers, tolerance: Tolerance, perturb: Perturb) -> Verdict:
    """Compare one output; see `compare`."""
    policy, found, rows = answers.policy[spec.name], answers.artifact[spec.name], answers.rows
    expected = policy[rows]
    close = _close(expected, found, tolerance, _magnitude(spec, policy))
    defined = np.isfinite(expected) & answers.defined[rows].reshape(-1, *(1 for _ in spec.shape))
    differs = ~close & defined
    excused = np.zeros_like(differs)
    suspects = np.unique(rows[_row(differs)])
    if 0 < len(suspects) <= (_MOST_ROUNDING if _is_real(policy) else 1.0) * len(policy):
        excused = differs & _within_reach(spec.name, answers, suspects, tolerance, perturb)
    with np.errstate(invalid="ignore"):
        errors = in_units(spec, expected, found)
    return Verdict(
        errors=np.where(defined & ~excused, errors, 0.0).reshape(len(rows), -1).max(axis=1, initial=0.0),
        bad=_row(differs & ~excused),
        ties=_row(excused & ~_is_real(policy)),
        rounding=_row(excused & _is_real(policy)),
        undefined=_row(~close & ~defined),
    )


def in_units(spec: TensorSpec, expected: Array, found: Array) -> Array:
    """How far numbers are apart: in units of 1, or of the number itself where it is larger and nothing bounds it."""
    real = expected.astype(np.float64)
    unit = np.where(spec.largest() < _NO_BOUND, 1.0, np.maximum(1.0, np.abs(real)))
    return np.asarray(np.abs(real - found.astype(np.float64)) / unit)


def _close(expected: Array, found: Array, tolerance: Tolerance, magnitude: Array) -> Array:
    """Element by element; whole numbers have to be equal, NaN equals NaN."""
    if not _is_real(expected):
        return expected == found
    real, other = expected.astype(np.float64), found.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(real - other) <= tolerance.atol * magnitude + (tolerance.rtol + _coarseness(expected)) * np.abs(
            real
        )
    return (near & np.isfinite(real)) | (real == other) | (np.isnan(real) & np.isnan(other))


def _coarseness(array: Array) -> float:
    """One unit in the last place of types narrower than float32, whose last rounding may go either way."""
    return float(np.finfo(array.dtype).eps) if array.dtype.itemsize < 4 else 0.0


def _within_reach(name: str, answers: Answers, suspects: Array, tolerance: Tolerance, perturb: Perturb) -> Array:
    """Where the policy itself gives such an answer when its sums are off by a little."""
    policy, found, rows = answers.policy[name], answers.artifact[name], answers.rows
    real = _is_real(policy)
    asked = np.flatnonzero(np.isin(rows, suspects))
    place = np.searchsorted(suspects, rows[asked])
    answer, truth = found[asked].astype(np.float64), policy[rows[asked]].astype(np.float64)
    reached = np.zeros(answer.shape, bool)
    for draw in perturb(suspects, ROUNDING if real else max(ROUNDING, tolerance.rtol)):
        other = draw[name][place].astype(np.float64)
        reach = np.abs(other - truth)
        reached |= (np.abs(answer - truth) <= reach) & (reach >= FLOOR) if real else answer == other
    everywhere = np.zeros(found.shape, bool)
    everywhere[asked] = reached
    return everywhere


def _magnitude(spec: TensorSpec, policy: Array) -> Array:
    """(*shape) of at least 1: the largest action the policy takes, where the bounds say that large ones are normal."""
    largest = np.abs(np.where(np.isfinite(policy), policy, 0)).max(axis=0, initial=1)
    bound = spec.largest()
    return np.where(bound < _NO_BOUND, np.clip(largest, 1, np.maximum(bound, 1)), 1.0)


def _is_real(array: Array) -> bool:
    return array.dtype.kind == "f"


def _row(mask: Array) -> Array:
    """Whether any element of a row is set."""
    return np.any(mask.reshape(len(mask), -1), axis=1)
