"""A sequence of observations with the policy's own answers, for the self-test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rlpipe.exporters.c.interface import BEGIN, NEXT
from rlpipe.exporters.compare import ROUNDING
from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.program.program import Array
from rlpipe.exporters.rounding import perturbed

_MOST, _CANDIDATES = 16, 64
_MOST_NUMBERS = 60_000
"""Of large observations so many go into the file."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """One entry for each step.

    Attributes:
        begins: Whether an episode begins.
        inputs: Input name -> (n, *shape).
        outputs: Output name -> (n, *shape).
    """

    begins: tuple[bool, ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def vectors(graph: ExportGraph, *, atol: float, rtol: float) -> Vectors:
    """Steps whose answers do not hang on the last digits; two episodes where there is memory.

    Args:
        graph: The policy with some observations.
        atol: Absolute tolerance of the self-test.
        rtol: Relative tolerance of the self-test.
    """
    carried = [spec.name for spec in graph.signature.inputs if f"{spec.name}{NEXT}" in _outputs(graph)]
    rows = _candidates(graph, _MOST if carried else _CANDIDATES)
    inputs = {name: array[rows] for name, array in graph.sample.items() if name not in carried}
    begins = tuple(index in (0, len(rows) // 2) for index in range(len(rows)))

    def answers() -> dict[str, Array]:
        return _episode(graph, inputs, begins, carried) if carried else _outputs_for(graph, inputs)

    found = answers()
    steady = np.ones(len(rows), bool)
    for draw in (found, *perturbed(answers, ROUNDING / 8)):
        steady &= _same(draw, found, atol / 2, rtol / 2)
    kept = np.arange(int(np.argmin([*steady, False]))) if carried else np.flatnonzero(steady)[:_MOST]
    kept = kept if len(kept) else np.arange(1)
    return Vectors(
        tuple(begins[index] for index in kept),
        {name: array[kept] for name, array in inputs.items()},
        {name: array[kept] for name, array in found.items()},
    )


def _outputs(graph: ExportGraph) -> set[str]:
    return {spec.name for spec in graph.signature.outputs}


def _candidates(graph: ExportGraph, most: int) -> Array:
    total = min(map(len, graph.sample.values()))
    each = sum(array[0].size for array in graph.sample.values())
    count = max(2, min(total, most, _MOST_NUMBERS // max(1, each)))
    return np.unique(np.linspace(0, total - 1, count).astype(int))


def _outputs_for(graph: ExportGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    with torch.inference_mode():
        results = graph.module(*(torch.tensor(inputs[spec.name]) for spec in graph.signature.inputs))
    results = (results,) if isinstance(results, torch.Tensor) else results
    return {spec.name: tensor.numpy() for spec, tensor in zip(graph.signature.outputs, results, strict=True)}


def _episode(
    graph: ExportGraph, inputs: Mapping[str, Array], begins: Sequence[bool], carried: Sequence[str]
) -> dict[str, Array]:
    """The answers step after step, the memory handed on and cleared where an episode begins."""
    steps: list[dict[str, Array]] = []
    for index, begin in enumerate(begins):
        now = {name: array[index : index + 1] for name, array in inputs.items()}
        if BEGIN in now:
            now[BEGIN] = np.full_like(now[BEGIN], begin)
        for name in carried:
            now[name] = np.zeros_like(graph.sample[name][:1]) if begin else steps[-1][f"{name}{NEXT}"]
        steps.append(_outputs_for(graph, now))
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}


def _same(draw: Mapping[str, Array], found: Mapping[str, Array], atol: float, rtol: float) -> Array:
    """(n,) bool: where a draw gives the same answers."""
    rows = []
    for name, array in found.items():
        wanted, other = array.astype(np.float64), draw[name].astype(np.float64)
        allowed = atol + rtol * np.abs(wanted) if array.dtype.kind == "f" else 0
        rows.append((np.abs(other - wanted) <= allowed).reshape(len(array), -1).all(axis=1))
    return np.logical_and.reduce(rows)
