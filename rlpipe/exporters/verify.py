"""Proof that an artifact acts like its policy: run where rlpipe is not, compared number by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlpipe.exporters.compare import Answers, Tolerance, compare
from rlpipe.exporters.compare_episodes import EpisodeFindings, compare_episodes, draws
from rlpipe.exporters.contract import declared_feeds, judge, wrong_feeds
from rlpipe.exporters.fresh_process import Extras, Replayed, replay_artifact
from rlpipe.exporters.levels import Level
from rlpipe.exporters.reference import Reference
from rlpipe.exporters.signature import Array, Signature
from rlpipe.exporters.target import Arrays, Target
from rlpipe.exporters.wording import difference, numbers, parted, speed

BATCHES = (1, 2, 7, 33, 256)
_CALLS = 64
_IF_ANY = ("errors", "episodes")
_NOT_RECORDED = ("status", "message", "trace", "load_seconds", "levels", "golden")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What the check of one artifact found.

    Attributes:
        status: `ok`; `mismatch` if it acts otherwise; `failed` if it does not run.
        message: What is wrong, for people; "" if nothing is.
        trace: Where it failed in the fresh process, or "".
        max_error: Largest difference of any action.
        observations: Number of observations per group.
        batches: Batch sizes that were run.
        ties: Observations where another decision is as right, see `compare.Findings`.
        rounding: Observations within the policy's own rounding instead of the tolerance.
        undefined: Observations where the policy itself gives no number.
        errors: Output name -> its largest difference.
        episodes: What comparing many steps in a row found, as JSON; {} without memory.
        load_seconds: How long a fresh process took to load it.
        levels: The levels of proof that running it gives, in order.
        golden: What it answered to the golden observations, or {}.
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
    errors: Mapping[str, float] = field(default_factory=dict)
    episodes: Mapping[str, Any] = field(default_factory=dict)
    load_seconds: float = 0.0
    levels: tuple[Level, ...] = ()
    golden: Arrays = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What is recorded beside an artifact: nothing that differs from run to run."""
        found = {name: value for name, value in asdict(self).items() if name not in _NOT_RECORDED}
        found = {name: value for name, value in found.items() if name not in _IF_ANY or value}
        return {**found, "observations": dict(self.observations), "batches": list(self.batches)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Verification:
        """The inverse of `to_json`, for what it kept; status and the like are the row's."""
        known = {one.name for one in fields(cls)}
        kept = {name: item for name, item in value.items() if name in known}
        return cls(status="ok", **{**kept, "batches": tuple(value["batches"])})


def verify(
    target: Target,
    path: Path,
    signature: Signature,
    truth: Reference,
    tolerance: Tolerance,
    golden_rows: Sequence[int] = (),
) -> Verification:
    """Run an artifact in a fresh process on all observations, compare it with the policy, feed it what does not fit.

    Args:
        target: The artifact's target.
        path: The artifact's file.
        signature: What it has to take and give.
        truth: The policy's own answers.
        tolerance: When two numbers are the same.
        golden_rows: Observations that are asked once more, for its own answers to them; given, speed is measured too.
    """
    calls = _calls(len(truth.observations))
    extras = Extras(
        signature=[spec.to_json() for spec in signature.inputs],
        cases=wrong_feeds(signature, truth.observations.arrays),
        declared=declared_feeds(signature, truth.observations.arrays),
        golden=tuple(map(int, golden_rows)),
        episodes=truth.episodes,
        measures=bool(len(golden_rows)),
    )
    replayed = replay_artifact(target, path, truth.observations.arrays, calls, extras)
    groups = truth.observations.groups
    problem = replayed.error or _misshapen(signature, replayed, calls) or _misshapen_run(truth, replayed)
    if problem:
        return Verification(status="failed", message=problem, trace=replayed.trace, observations=groups)
    rows = np.concatenate([_rows(start, size, len(truth.observations)) for start, size in calls])
    found = {
        spec.name: np.concatenate([output[spec.name] for output in replayed.outputs]) for spec in signature.outputs
    }
    answers = Answers(policy=truth.actions, defined=truth.defined, artifact=found, rows=rows)
    findings = compare(signature.outputs, answers, tolerance, perturbation(truth))
    run = _acted(truth, replayed, tolerance)
    wrong = [difference(findings, truth.observations, tolerance), parted(run)]
    message = "; ".join(filter(None, wrong))
    levels = (
        numbers(findings, truth.observations, run, BATCHES),
        judge(replayed.contract, replayed.died),
        *speed(replayed),
    )
    return Verification(
        status="mismatch" if message else "ok",
        message=message,
        max_error=float(np.max([findings.max_error, run.max_error if run else 0.0])),
        observations=groups,
        ties=findings.ties,
        rounding=findings.rounding,
        undefined=findings.undefined,
        errors=findings.errors if len(findings.errors) > 1 else {},
        episodes=asdict(run) if run else {},
        load_seconds=replayed.load_seconds,
        levels=levels,
        golden=replayed.golden,
    )


def _acted(truth: Reference, replayed: Replayed, tolerance: Tolerance) -> EpisodeFindings | None:
    """The run of many steps, compared."""
    if truth.episodes is None:
        return None
    from rlpipe.exporters.rounding import perturbed

    perturb = draws(truth.episodes, truth.compute, perturbed)
    return compare_episodes(truth.episodes, replayed.episodes, tolerance, perturb)


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


def _misshapen_run(truth: Reference, replayed: Replayed) -> str:
    """The same for the run of many steps."""
    if truth.episodes is None:
        return ""
    expected = {name: (array.dtype.name, array.shape) for name, array in truth.episodes.outputs.items()}
    found = {name: (array.dtype.name, array.shape) for name, array in replayed.episodes.items()}
    return "" if found == expected else f"step by step it gives {_text(found)} instead of {_text(expected)}"


def _text(outputs: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name} {dtype} {list(shape)}" for name, (dtype, shape) in outputs.items())


def perturbation(truth: Reference) -> Any:
    """Asks the policy about some observations with its sums off by a relative amount; see `compare.Perturb`."""
    # Only who compares needs torch; reports are read without.
    from rlpipe.exporters.rounding import perturbed

    def perturb(rows: Array, relative: float) -> Any:
        chosen = {name: array[rows] for name, array in truth.observations.arrays.items()}
        return perturbed(lambda: truth.compute(chosen), relative)

    return perturb
