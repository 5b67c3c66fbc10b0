from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlpipe.exporters.compare import Perturb, Tolerance
from rlpipe.exporters.compare_episodes import EpisodeFindings, compare_episodes, draws
from rlpipe.exporters.rounding import perturbed
from rlpipe.exporters.sequences import Episodes, flat
from tests.exporters.memory_graphs import Stepping, counter, lstm

Array = np.ndarray[Any, Any]
TIGHT = Tolerance(atol=1e-5, rtol=1e-5)


def run_of(example: Stepping) -> Episodes:
    run = example.reference().episodes
    assert run is not None
    return run


def answers_of(run: Episodes) -> dict[str, Array]:
    return {name: array.copy() for name, array in run.outputs.items()}


def giving(outputs: Mapping[str, Array]) -> Perturb:
    """A policy whose own rounding leads to these outputs."""

    def perturb(rows: Array, relative: float) -> Iterator[Mapping[str, Array]]:
        del relative
        yield {name: array[rows] for name, array in flat(outputs).items()}

    return perturb


def compared(run: Episodes, found: Mapping[str, Array], perturb: Perturb | None = None) -> EpisodeFindings:
    return compare_episodes(run, found, TIGHT, perturb or giving(run.outputs))


def test_equal_is_equal() -> None:
    run = run_of(lstm())
    found = compared(run, answers_of(run))
    assert (found.steps, found.rows, found.starts) == (200, 8, int(run.starts[1:].sum()))
    assert (found.max_error, found.differing, found.first, found.left) == (0.0, 0, None, 0)
    assert found.drift == (0.0, 0.0, 0.0, 0.0)


def test_what_grows_shows_by_quarter() -> None:
    run = run_of(lstm())
    answers = answers_of(run)
    answers["state.0.next"] += np.linspace(0, 8e-6, 200, dtype=np.float32)[:, None, None, None]
    found = compared(run, answers)
    assert found.differing == 0
    assert list(found.drift) == sorted(found.drift)
    assert found.drift[3] > 5e-6 > found.drift[1]
    assert found.errors["action"] == 0


def test_a_difference_is_named_with_its_step() -> None:
    run = run_of(lstm())
    answers = answers_of(run)
    answers["action"][120, 3] += 1e-3
    found = compared(run, answers)
    assert (found.differing, found.first) == (1, 120)


def test_behind_a_tie_a_row_is_left_until_it_begins_anew_and_that_is_counted() -> None:
    run = run_of(counter())
    row, step = 0, 100
    later = np.flatnonzero(run.starts[step + 1 :, row])
    until = step + 1 + int(later[0])
    answers = answers_of(run)
    answers["action"][step, row] = other = (answers["action"][step, row] + 1) % 3
    moved = answers_of(run)
    moved["action"][step, row] = other
    # What follows from the other choice, until the row begins an episode.
    answers["action"][step + 1 : until, row] = 7
    found = compared(run, answers, giving(moved))
    assert (found.differing, found.ties, found.left) == (0, 1, until - step - 1)
    answers["action"][until, row] = 7
    assert compared(run, answers, giving(moved)).first == until


def test_another_choice_that_is_no_tie_is_a_difference() -> None:
    run = run_of(counter())
    answers = answers_of(run)
    answers["action"][100, 0] = (answers["action"][100, 0] + 1) % 3
    found = compared(run, answers)
    assert (found.differing, found.first, found.left) == (1, 100, 0)


def test_where_the_policy_gives_no_number_a_row_is_left() -> None:
    run = run_of(lstm())
    answers = answers_of(run)
    outputs = answers_of(run)
    outputs["action"][50, 2] = np.nan
    broken = Episodes(run.inputs, outputs, run.signature)
    found = compared(broken, answers)
    assert (found.differing, found.undefined) == (0, 1)
    assert found.left > 0


def test_draws_are_whole_runs_of_the_policy() -> None:
    example = lstm()
    run = run_of(example)
    inputs, outputs = ({name: array[:20] for name, array in side.items()} for side in (run.inputs, run.outputs))
    short = Episodes(inputs, outputs, run.signature)
    perturb = draws(short, example.compute, perturbed)
    rows = np.array([0, 80, 159])
    found = list(perturb(rows, 1e-4))
    assert len(found) == 16
    own = flat(short.outputs)["state.1.next"][rows]
    gaps = [np.abs(one["state.1.next"] - own).max() for one in found]
    assert 0 < max(gaps) < 0.1
    assert next(iter(perturb(rows, 1e-4)))["action"].tolist() == found[0]["action"].tolist()
