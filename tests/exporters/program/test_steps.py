"""Programs of policies with memory, masks, noise and several outputs, over whole episodes, as numpy and as C."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rlpipe.exporters.capture import captured
from rlpipe.exporters.graph import ExportGraph
from tests.exporters.program.running import loaded, require_same
from tests.exporters.steps import STEPS, WITH_MEMORY, Step, gated, remembers

TARGETS = ("numpy", "c99")


@cache
def traced(name: str) -> ExportGraph:
    with captured():
        return STEPS[name]().traced()


@pytest.mark.parametrize("target_id", TARGETS)
@pytest.mark.parametrize("name", STEPS)
def test_single_steps(name: str, target_id: str, tmp_path: Path) -> None:
    step, truth = loaded(traced(name), target_id, tmp_path), STEPS[name]().reference()
    for batch in (1, 2, 7, 256):
        found = step({key: array[-batch:] for key, array in truth.observations.arrays.items()})
        require_same(found, {key: array[-batch:] for key, array in truth.actions.items()})


@pytest.mark.parametrize("target_id", TARGETS)
@pytest.mark.parametrize("name", WITH_MEMORY)
def test_episodes_of_200_steps_with_resets(name: str, target_id: str, tmp_path: Path) -> None:
    runner, example = loaded(traced(name), target_id, tmp_path), STEPS[name]()
    for batch in (1,) if target_id == "c99" else (1, 2, 7):
        plays(example, runner, batch)


def plays(example: Step, runner: object, batch: int, steps: int = 200) -> None:
    fed = example.draw(steps, batch, seed=batch)
    expected = example.played(example.compute, fed)
    assert max(np.ptp(array, axis=0).max() for array in expected.values()) > 0.5
    require_same(example.played(runner, fed), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [remembers, gated])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layers=st.integers(1, 3), hidden=st.integers(1, 40), width=st.integers(1, 9))
def test_any_number_of_layers_and_sizes(make: object, layers: int, hidden: int, width: int, tmp_path: Path) -> None:
    example = make(layers, hidden, width)  # type: ignore[operator]
    with captured():
        graph = example.traced()
    for target_id in TARGETS:
        fed = example.draw(20, 2, seed=hidden)
        require_same(
            example.played(loaded(graph, target_id, tmp_path), fed),
            example.played(example.compute, fed),
        )


@pytest.mark.parametrize("name", STEPS)
def test_an_empty_batch_gives_an_empty_answer(name: str, tmp_path: Path) -> None:
    found = loaded(traced(name), "numpy", tmp_path)(STEPS[name]().draw(0))
    assert {array.shape[0] for array in found.values()} == {0}
