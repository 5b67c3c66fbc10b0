"""What a verification found, in words and as levels of proof."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpipe.exporters.compare import Findings, Tolerance
from rlpipe.exporters.compare_episodes import EpisodeFindings
from rlpipe.exporters.fresh_process import Replayed
from rlpipe.exporters.levels import NUMBERS, SPEED, Level
from rlpipe.exporters.observations import Observations


def numbers(
    findings: Findings, observations: Observations, run: EpisodeFindings | None, batches: Sequence[int]
) -> Level:
    """The level of single steps and of many in a row.

    Args:
        findings: Of single steps.
        observations: What they were.
        run: Of many steps; None without memory.
        batches: Sizes of the batches of single steps.
    """
    counts = f"{len(observations)} observations in batches of {', '.join(map(str, batches))}"
    excused = _counted(
        (findings.ties, "where another decision is as right"),
        (findings.rounding, "within the policy's own rounding"),
        (findings.undefined, "where the policy gives no number"),
    )
    parts = [f"{counts}: largest difference {findings.max_error:.1e}", *excused]
    if run is not None:
        drift = ", ".join(f"{error:.1e}" for error in run.drift)
        parts += [
            f"{run.steps} steps of {run.rows} rows with {run.starts} further episode starts, its own memory fed back",
            f"there largest difference {run.max_error:.1e}, by quarter of the run {drift}",
            *_counted(
                (run.ties, "steps where another decision is as right"),
                (run.left, "steps behind those, not compared"),
                (run.rounding, "steps within the policy's own rounding"),
                (run.undefined, "steps where the policy gives no number"),
            ),
        ]
    is_wrong = findings.differing or (run is not None and run.differing)
    return Level(name=NUMBERS, status="failed" if is_wrong else "ok", detail="; ".join(parts))


def _counted(*counts: tuple[int, str]) -> list[str]:
    return [f"{number} {text}" for number, text in counts if number]


def parted(run: EpisodeFindings | None) -> str:
    """What is wrong with many steps in a row; "" if nothing is."""
    if run is None or run.first is None:
        return ""
    where = ", ".join(f"{name} {error:.1e}" for name, error in run.errors.items())
    return (
        f"carrying its memory it acts differently in {run.differing} of {run.steps * run.rows} steps, first at step "
        f"{run.first + 1}; largest differences: {where}"
    )


def speed(replayed: Replayed) -> tuple[Level, ...]:
    """The level of speed, if it was measured."""
    if not replayed.speed:
        return ()
    facts = {"load_seconds": replayed.load_seconds, **replayed.speed}
    rate = f", {facts['batch_1024_per_second']:,.0f}/s at 1024" if "batch_1024_per_second" in facts else ""
    detail = f"{facts['p50_us']:.0f} us at a batch of 1 (p99 {facts['p99_us']:.0f}){rate}"
    return (Level(name=SPEED, status="info", detail=detail, facts={name: round(v, 4) for name, v in facts.items()}),)


def difference(findings: Findings, observations: Observations, tolerance: Tolerance) -> str:
    """What is wrong with single steps; "" if nothing is."""
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
