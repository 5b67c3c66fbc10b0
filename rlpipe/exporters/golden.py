"""Golden vectors: observations with the policy's answers, for whoever runs an artifact elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.compare import FLOOR, ROUNDING
from rlpipe.exporters.reference import Reference
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays

NPZ_NAME, JSON_NAME = "golden.npz", "golden.json"
COUNT = 64
_CANDIDATES = 3 * COUNT
_MOST_NUMBERS = 20_000
"""Of large observations, so many numbers go into the JSON."""


@dataclass(frozen=True, eq=False)
class Golden:
    """Observations with answers that do not hang on the last digit.

    Attributes:
        inputs: Input name -> (n, *shape).
        outputs: Output name -> (n, *shape).
    """

    inputs: Arrays
    outputs: Arrays

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
    """The chosen observations with the policy's answers."""
    inputs = {name: array[rows] for name, array in truth.observations.arrays.items()}
    return Golden(inputs, {name: array[rows] for name, array in truth.actions.items()})


def write_golden(folder: Path, vectors: Golden) -> None:
    """Write both files; equal vectors give equal bytes."""
    arrays = {**_under("inputs", vectors.inputs), **_under("outputs", vectors.outputs)}
    np.savez(folder / NPZ_NAME, allow_pickle=False, **arrays)
    each = sum(array[0].size for array in arrays.values())
    few = max(1, min(len(vectors), _MOST_NUMBERS // max(1, each)))
    sides = {
        side: {name: array[:few].tolist() for name, array in group.items()}
        for side, group in (("inputs", vectors.inputs), ("outputs", vectors.outputs))
    }
    text = json.dumps({"count": few, **sides}, allow_nan=False, separators=(",", ":"))
    (folder / JSON_NAME).write_text(text + "\n", encoding="utf-8", newline="\n")


def read_golden(folder: Path) -> Golden:
    """The vectors of an artifact folder.

    Raises:
        OSError, ValueError: There are none, or the file is damaged.
    """
    with np.load(folder / NPZ_NAME, allow_pickle=False) as archive:
        sides = [
            {name.partition("/")[2]: archive[name] for name in archive.files if name.startswith(f"{side}/")}
            for side in ("inputs", "outputs")
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
