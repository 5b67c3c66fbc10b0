"""What the self-test replays: single steps, and where there is memory, steps in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from rlpipe.exporters.c.interface import BEGIN
from rlpipe.exporters.compare import ROUNDING
from rlpipe.exporters.golden import Golden
from rlpipe.exporters.graph import ExportGraph
from rlpipe.exporters.program.program import Array
from rlpipe.exporters.rounding import perturbed

_MOST, _MOST_STEPS, _CANDIDATES = 16, 80, 64
_MOST_NUMBERS = 60_000
"""Of large observations so many go into the file, in single steps and in steps in a row."""

Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Steps with the policy's own answers.

    Attributes:
        inputs: Input name -> (n, *shape), memory too.
        outputs: Output name -> (n, *shape), memory too.
        run_inputs: Input name -> (steps, *shape), without memory; {} for a policy that has none.
        run_outputs: Output name -> (steps, *shape).
    """

    inputs: Arrays
    outputs: Arrays
    run_inputs: Arrays
    run_outputs: Arrays


def vectors(graph: ExportGraph, *, atol: float, rtol: float) -> Vectors:
    """The golden vectors of a policy, as many as a source file can bear; without such, answers of its graph.

    Args:
        graph: The policy with some observations.
        atol: Absolute tolerance of the self-test.
        rtol: Relative tolerance of the self-test.
    """
    if graph.golden is not None:
        return _chosen(graph.golden)
    rows = _spread(min(map(len, graph.sample.values())), _CANDIDATES, graph.sample)
    inputs = _taken(graph.sample, rows)
    found, steady = _steady(lambda: _outputs_for(graph, inputs), atol, rtol)
    kept = np.flatnonzero(steady)[:_MOST] if steady.any() else np.arange(1)
    run = _own_run(graph, rows, atol, rtol) if graph.signature.memory else ({}, {})
    return Vectors(_taken(inputs, kept), _taken(found, kept), *run)


def _chosen(golden: Golden) -> Vectors:
    rows = _spread(len(golden), _MOST, golden.inputs)
    runs: list[Arrays] = [{}, {}]
    if golden.run_inputs:
        # One row after the other: each begins an episode.
        flat = [
            {name: np.swapaxes(array, 0, 1).reshape(-1, *array.shape[2:]) for name, array in side.items()}
            for side in (golden.run_inputs, golden.run_outputs)
        ]
        steps = np.arange(min(_bearable(flat[0]), _MOST_STEPS, len(next(iter(flat[0].values())))))
        runs = [_taken(side, steps) for side in flat]
    return Vectors(_taken(golden.inputs, rows), _taken(golden.outputs, rows), *runs)


def _taken(arrays: Arrays, rows: Array) -> dict[str, Array]:
    return {name: array[rows] for name, array in arrays.items()}


def _bearable(arrays: Arrays) -> int:
    return max(2, _MOST_NUMBERS // max(1, sum(array[0].size for array in arrays.values())))


def _spread(total: int, most: int, arrays: Arrays) -> Array:
    return np.unique(np.linspace(0, total - 1, min(total, most, _bearable(arrays))).astype(int))


def _steady(answers: Callable[[], dict[str, Array]], atol: float, rtol: float) -> tuple[dict[str, Array], Array]:
    """Answers, and where they do not hang on the last digits."""
    found = answers()
    steady = np.ones(len(next(iter(found.values()))), bool)
    for draw in (found, *perturbed(answers, ROUNDING / 8)):
        steady &= _same(draw, found, atol / 2, rtol / 2)
    return found, steady


def _own_run(graph: ExportGraph, rows: Array, atol: float, rtol: float) -> tuple[Arrays, Arrays]:
    """Two episodes, as far as they are steady."""
    inputs = _taken({name: graph.sample[name] for name in graph.sample.keys() - graph.signature.memory.keys()}, rows)
    begins = np.isin(np.arange(len(rows)), (0, len(rows) // 4))
    if BEGIN in inputs:
        inputs[BEGIN] = begins
    found, steady = _steady(lambda: _episode(graph, inputs, begins), atol, rtol)
    kept = np.arange(max(1, int(np.argmin([*steady, False]))))
    return _taken(inputs, kept), _taken(found, kept)


def _outputs_for(graph: ExportGraph, inputs: Arrays) -> dict[str, Array]:
    with torch.inference_mode():
        results = graph.module(*(torch.tensor(inputs[spec.name]) for spec in graph.signature.inputs))
    results = (results,) if isinstance(results, torch.Tensor) else results
    return {spec.name: tensor.numpy() for spec, tensor in zip(graph.signature.outputs, results, strict=True)}


def _episode(graph: ExportGraph, inputs: Arrays, begins: Array) -> dict[str, Array]:
    """The answers step after step, the memory handed on and cleared where an episode begins."""
    steps: list[dict[str, Array]] = []
    for index, begin in enumerate(begins):
        now = {name: array[index : index + 1] for name, array in inputs.items()}
        for name, following in graph.signature.memory.items():
            now[name] = np.zeros_like(graph.sample[name][:1]) if begin else steps[-1][following]
        steps.append(_outputs_for(graph, now))
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}


def _same(draw: Arrays, found: Arrays, atol: float, rtol: float) -> Array:
    """(n,) bool: where a draw gives the same answers."""
    rows = []
    for name, array in found.items():
        wanted, other = array.astype(np.float64), draw[name].astype(np.float64)
        allowed = atol + rtol * np.abs(wanted) if array.dtype.kind == "f" else 0
        rows.append((np.abs(other - wanted) <= allowed).reshape(len(array), -1).all(axis=1))
    return np.logical_and.reduce(rows)
