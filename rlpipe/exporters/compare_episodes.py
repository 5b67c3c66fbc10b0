"""Whether an artifact that carries its own memory acts like the policy, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.exporters.compare import Answers, Perturb, Tolerance, judge
from rlpipe.exporters.sequences import Episodes, flat, play
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays

QUARTERS = 4

Perturbed = Callable[[Callable[[], Arrays], float], Iterator[Arrays]]
"""A computation, a relative amount -> what it answers when its sums are off so much, some times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFindings:
    """What comparing a run found; counts are of steps of single rows.

    Attributes:
        steps: Length of the run.
        rows: How many rows acted side by side.
        starts: How often a row began an episode after the first step.
        max_error: Largest difference, excused and left ones apart.
        drift: The same in each quarter of the run: whether it grows.
        differing: Answered differently.
        first: The first step that is, or None.
        ties: Another decision where the policy's own hangs on its last digits; its row is left from there on, until it
            begins an episode, since what follows is another story.
        left: Not compared for that reason.
        rounding: Beyond the tolerance, but within what the policy's own rounding does by then.
        undefined: Answered differently where the policy itself gives no number; its row is left as well.
        errors: Output name -> its largest difference.
    """

    steps: int
    rows: int
    starts: int
    max_error: float
    drift: tuple[float, ...]
    differing: int
    first: int | None
    ties: int
    left: int
    rounding: int
    undefined: int
    errors: Mapping[str, float]


def compare_episodes(own: Episodes, found: Arrays, tolerance: Tolerance, perturb: Perturb) -> EpisodeFindings:
    """Compare an artifact's run with the policy's.

    Args:
        own: The policy's.
        found: Output name -> (steps, rows, *shape), the artifact's own, its memory fed back.
        tolerance: When numbers are the same.
        perturb: Asked only about steps that differ; see `draws`.
    """
    specs, shape = own.signature.outputs, own.starts.shape
    defined = own.defined.reshape(-1)
    answers = Answers(policy=flat(own.outputs), defined=defined, artifact=flat(found), rows=np.arange(len(defined)))
    verdicts = {spec.name: judge(spec, answers, tolerance, perturb) for spec in specs}
    bad, ties, rounding, undefined = (
        _any(verdicts.values(), name, shape) for name in ("bad", "ties", "rounding", "undefined")
    )
    left = _left(own.starts, ties | undefined)
    bad &= ~left
    errors = {name: np.where(left, 0.0, verdict.errors.reshape(shape)) for name, verdict in verdicts.items()}
    largest = np.max(list(errors.values()), axis=0).max(axis=1)
    return EpisodeFindings(
        steps=shape[0],
        rows=shape[1],
        starts=int(own.starts[1:].sum()),
        max_error=float(largest.max()),
        drift=tuple(float(part.max(initial=0.0)) for part in np.array_split(largest, QUARTERS)),
        differing=int(bad.sum()),
        first=int(np.flatnonzero(bad.any(axis=1))[0]) if bad.any() else None,
        ties=int((ties & ~left).sum()),
        left=int(left.sum()),
        rounding=int((rounding & ~left).sum()),
        undefined=int((undefined & ~left).sum()),
        errors={name: float(array.max()) for name, array in errors.items()},
    )


def draws(own: Episodes, compute: Callable[[Arrays], Arrays], perturbed: Perturbed) -> Perturb:
    """Runs of the policy again with its sums off: what its own rounding has become by each step.

    Args:
        own: The policy's run.
        compute: The policy.
        perturbed: See `rounding.perturbed`.
    """
    kept: dict[float, tuple[int, list[dict[str, Array]]]] = {}
    count = own.starts.shape[1]

    def perturb(rows: Array, relative: float) -> Iterator[Arrays]:
        # Nobody asks what comes behind the last of them.
        steps = int(rows.max(initial=0)) // count + 1
        if kept.get(relative, (0, []))[0] < steps:
            begun = {name: array[:steps] for name, array in own.inputs.items()}
            runs = perturbed(lambda: play(compute, own.signature, begun), relative)
            kept[relative] = steps, [flat(run) for run in runs]
        for run in kept[relative][1]:
            yield {name: array[rows] for name, array in run.items()}

    return perturb


def _any(verdicts: Any, name: str, shape: Sequence[int]) -> Array:
    """(steps, rows) bool: whether any output is such."""
    masks: Array = np.any([getattr(verdict, name) for verdict in verdicts], axis=0)
    return masks.reshape(shape)


def _left(starts: Array, parted: Array) -> Array:
    """(steps, rows) bool: behind a step at which a row parted from the policy's, until it begins an episode."""
    left = np.zeros(starts.shape, bool)
    for step in range(1, len(starts)):
        left[step] = (left[step - 1] | parted[step - 1]) & ~starts[step]
    return left
