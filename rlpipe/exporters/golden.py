"""Golden vectors: observations with the policy's answers, for whoever runs an artifact elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.compare import FLOOR, ROUNDING
from rlpipe.exporters.compare_episodes import draws
from rlpipe.exporters.reference import Reference
from rlpipe.exporters.sequences import Episodes
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays

NPZ_NAME, JSON_NAME = "golden.npz", "golden.json"
COUNT = 64
STEPS, ROWS = 40, 4
"""Of the run of a policy with memory, at most."""

_CANDIDATES = 3 * COUNT
_MOST_NUMBERS = 20_000
"""Of large observations, so many numbers go into the JSON."""


@dataclass(frozen=True, eq=False)
class Golden:
    """Observations with answers that do not hang on the last digit.

    Attributes:
        inputs: Input name -> (n, *shape).
        outputs: Output name -> (n, *shape).
        run_inputs: Input name -> (steps, rows, *shape) of steps in a row, states apart; {} without memory.
        run_outputs: Output name -> (steps, rows, *shape), states too.
    """

    inputs: Arrays
    outputs: Arrays
    run_inputs: Arrays = field(default_factory=dict)
    run_outputs: Arrays = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))


def choose(truth: Reference, perturb: Any) -> Array:
    """(n,) indices of at most 64 observations, from every group, where the policy's own rounding changes nothing.

    Args:
        truth: The policy's answers.
        perturb: Numbers of observations, a relative amount -> draws of the policy's actions when its sums are off.
    """
    total = len(truth.observations)
    spread = np.unique(np.linspace(0, total - 1, min(total, _CANDIDATES)).astype(int))
    candidates = spread[truth.defined[spread]]
    stable = np.ones(len(candidates), bool)
    for draw in perturb(candidates, ROUNDING):
        stable &= _same(draw, truth.actions, candidates)
    found = candidates[stable] if stable.any() else candidates
    return found[np.unique(np.linspace(0, len(found) - 1, min(COUNT, len(found))).astype(int))]


def golden(truth: Reference, rows: Array) -> Golden:
    """The chosen observations with the policy's answers, and with memory a run whose rounding changes nothing."""
    inputs = {name: array[rows] for name, array in truth.observations.arrays.items()}
    outputs = {name: array[rows] for name, array in truth.actions.items()}
    if truth.episodes is None:
        return Golden(inputs, outputs)
    return Golden(inputs, outputs, *_steady(truth.episodes, truth.compute))


def _steady(run: Episodes, compute: Any) -> tuple[Arrays, Arrays]:
    """The first steps of the rows that stay with themselves longest when the policy's sums are off."""
    # Only who compares needs torch; golden vectors are read without.
    from rlpipe.exporters.rounding import perturbed

    begun = Episodes(_part(run.inputs, STEPS), _part(run.outputs, STEPS), run.signature)
    shape = begun.starts.shape
    steady = begun.defined.copy()
    outputs = {name: array.reshape(-1, *array.shape[2:]) for name, array in begun.outputs.items()}
    places = np.arange(steady.size)
    for draw in draws(begun, compute, perturbed)(places, ROUNDING):
        steady &= _same(draw, outputs, places).reshape(shape)
    lengths = np.cumprod(steady, axis=0).sum(axis=0)
    rows = np.flatnonzero(lengths == lengths.max())[:ROWS]
    steps = max(1, int(lengths.max()))
    inputs, answers = (
        {name: array[:steps, rows] for name, array in part.items()} for part in (begun.inputs, begun.outputs)
    )
    return inputs, answers


def _part(arrays: Arrays, steps: int) -> dict[str, Array]:
    return {name: array[:steps] for name, array in arrays.items()}


def write_golden(folder: Path, vectors: Golden) -> None:
    """Write both files; equal vectors give equal bytes."""
    arrays = {
        **_under("inputs", vectors.inputs),
        **_under("outputs", vectors.outputs),
        **_under("sequence/inputs", vectors.run_inputs),
        **_under("sequence/outputs", vectors.run_outputs),
    }
    np.savez(folder / NPZ_NAME, allow_pickle=False, **arrays)
    few = _few(len(vectors), vectors.inputs, vectors.outputs)
    sides = _lists(_part(vectors.inputs, few), _part(vectors.outputs, few))
    text = json.dumps({"count": few, **sides, **_run_json(vectors)}, allow_nan=False, separators=(",", ":"))
    (folder / JSON_NAME).write_text(text + "\n", encoding="utf-8", newline="\n")


def lengths(vectors: Golden) -> dict[str, Any]:
    """How many rows there are, and with memory how many steps and rows of the run; for the record."""
    run = [list(array.shape[:2]) for array in vectors.run_inputs.values()][:1]
    return {"rows": len(vectors), **({"sequence": run[0]} if run else {})}


def _few(most: int, *groups: Arrays) -> int:
    """How many rows go into the JSON."""
    each = sum(array[0].size for group in groups for array in group.values())
    return max(1, min(most, _MOST_NUMBERS // max(1, each)))


def _lists(inputs: Arrays, outputs: Arrays) -> dict[str, Any]:
    sides = {"inputs": inputs, "outputs": outputs}
    return {side: {name: array.tolist() for name, array in group.items()} for side, group in sides.items()}


def _run_json(vectors: Golden) -> dict[str, Any]:
    """One row of the run, as many steps of it as fit."""
    if not vectors.run_inputs:
        return {}
    one, other = (
        {name: array[:, 0] for name, array in part.items()} for part in (vectors.run_inputs, vectors.run_outputs)
    )
    steps = _few(len(next(iter(one.values()))), one, other)
    return {"sequence": {"steps": steps, **_lists(_part(one, steps), _part(other, steps))}}


def read_golden(folder: Path) -> Golden:
    """The vectors of an artifact folder.

    Raises:
        OSError, ValueError: There are none, or the file is damaged.
    """
    with np.load(folder / NPZ_NAME, allow_pickle=False) as archive:
        sides = [
            {name.removeprefix(side): archive[name] for name in archive.files if name.startswith(side)}
            for side in ("inputs/", "outputs/", "sequence/inputs/", "sequence/outputs/")
        ]
    return Golden(*sides)


def _same(draw: Mapping[str, Array], actions: Arrays, rows: Array) -> Array:
    """(n,) bool: where a draw gives the policy's own actions."""
    same = np.ones(len(rows), bool)
    for name, array in draw.items():
        one, other = array.astype(np.float64), actions[name][rows].astype(np.float64)
        allowed = FLOOR * np.maximum(1, np.abs(other)) if array.dtype.kind == "f" else 0
        same &= (np.abs(one - other) <= allowed).reshape(len(rows), -1).all(axis=1)
    return same


def _under(side: str, arrays: Arrays) -> dict[str, Array]:
    return {f"{side}/{name}": array for name, array in arrays.items()}
