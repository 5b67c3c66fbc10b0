"""Proof that an artifact acts like its policy: run where rlpipe is not, compared number by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlpipe.exporters.compare import Answers, Findings, Tolerance, compare
from rlpipe.exporters.fresh_process import Replayed, replay_artifact
from rlpipe.exporters.observations import Observations
from rlpipe.exporters.reference import Reference
from rlpipe.exporters.rounding import perturbed
from rlpipe.exporters.signature import Array, Signature
from rlpipe.exporters.target import Target

BATCHES = (1, 2, 7, 33, 256)
_CALLS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What the check of one artifact found.

    Attributes:
        status: `ok`; `mismatch` if it acts otherwise; `failed` if it does not run.
        message: What is wrong, for people; "" if nothing is.
        trace: Where it failed in the fresh process, or "".
        max_error: Largest absolute difference of any action.
        observations: Number of observations per group.
        batches: Batch sizes that were run.
        ties: Observations where another decision is as right, see `compare.Findings`.
        rounding: Observations within the policy's own rounding instead of the tolerance.
        undefined: Observations where the policy itself gives no number.
        load_seconds: How long a fresh process took to load it.
    """

    status: Literal["ok", "mismatch", "failed"]
    message: str = ""
    trace: str = ""
    max_error: float = 0.0
    observations: Mapping[str, int]
    batches: tuple[int, ...] = BATCHES
    ties: int = 0
    rounding: int = 0
    undefined: int = 0
    load_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """What is recorded beside an artifact: nothing that differs from run to run."""
        found = asdict(self)
        for name in ("status", "message", "trace", "load_seconds"):
            del found[name]
        return {**found, "observations": dict(self.observations), "batches": list(self.batches)}


def verify(target: Target, path: Path, signature: Signature, truth: Reference, tolerance: Tolerance) -> Verification:
    """Run an artifact in a fresh process on all observations and compare it with the policy.

    Args:
        target: The artifact's target.
        path: The artifact's file.
        signature: What it has to take and give.
        truth: The policy's own answers.
        tolerance: When two numbers are the same.
    """
    calls = _calls(len(truth.observations))
    replayed = replay_artifact(target, path, truth.observations.arrays, calls)
    groups = truth.observations.groups
    problem = replayed.error or _misshapen(signature, replayed, calls)
    if problem:
        return Verification(status="failed", message=problem, trace=replayed.trace, observations=groups)
    rows = np.concatenate([_rows(start, size, len(truth.observations)) for start, size in calls])
    found = {
        spec.name: np.concatenate([output[spec.name] for output in replayed.outputs]) for spec in signature.outputs
    }
    answers = Answers(policy=truth.actions, defined=truth.defined, artifact=found, rows=rows)
    findings = compare(signature.outputs, answers, tolerance, _perturbation(truth))
    return Verification(
        status="mismatch" if findings.differing else "ok",
        message=_difference(findings, truth.observations, tolerance),
        max_error=findings.max_error,
        observations=groups,
        ties=findings.ties,
        rounding=findings.rounding,
        undefined=findings.undefined,
        load_seconds=replayed.load_seconds,
    )


def _calls(total: int) -> list[tuple[int, int]]:
    """(first row, size) of at most 64 calls per batch size, spread over all observations."""
    calls: list[tuple[int, int]] = []
    for size in BATCHES:
        count = min(_CALLS, -(-total // size))
        starts = np.unique(np.linspace(0, max(0, total - size), count).astype(int))
        calls.extend((int(start), size) for start in starts)
    return calls


def _rows(start: int, size: int, total: int) -> Array:
    return (start + np.arange(size)) % total


def _misshapen(signature: Signature, replayed: Replayed, calls: list[tuple[int, int]]) -> str:
    """What is wrong with names, dtypes and shapes of the answers; "" if nothing is."""
    for outputs, (_, size) in zip(replayed.outputs, calls, strict=True):
        expected = {spec.name: (spec.dtype, (size, *spec.shape)) for spec in signature.outputs}
        found = {name: (array.dtype.name, array.shape) for name, array in outputs.items()}
        if list(found.items()) != list(expected.items()):
            return f"for a batch of {size} it gives {_text(found)} instead of {_text(expected)}"
    return ""


def _text(outputs: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name} {dtype} {list(shape)}" for name, (dtype, shape) in outputs.items())


def _perturbation(truth: Reference) -> Any:
    def perturb(rows: Array, relative: float) -> Any:
        chosen = {name: array[rows] for name, array in truth.observations.arrays.items()}
        return perturbed(lambda: truth.compute(chosen), relative)

    return perturb


def _difference(findings: Findings, observations: Observations, tolerance: Tolerance) -> str:
    if not findings.differing:
        return ""
    ends = np.cumsum(list(observations.groups.values()))
    where = np.searchsorted(ends, findings.differing, side="right")
    counts = {group: int((where == index).sum()) for index, group in enumerate(observations.groups)}
    groups = ", ".join(f"{count} of {group}" for group, count in counts.items() if count)
    return (
        f"it acts differently on {len(findings.differing)} of {len(observations)} observations ({groups}); largest "
        f"difference {findings.max_error:.2e} with atol={tolerance.atol:g} rtol={tolerance.rtol:g}"
    )
