from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpipe.exporters.golden import COUNT, STEPS, choose, golden, read_golden, write_golden
from rlpipe.exporters.sequences import play
from rlpipe.exporters.verify import perturbation
from tests.exporters.graphs import EXAMPLES, Example
from tests.exporters.memory_graphs import STEPPING, lstm


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param]()


def test_vectors_are_observations_with_the_answers_of_the_policy(example: Example, tmp_path: Path) -> None:
    truth = example.reference()
    rows = choose(truth, perturbation(truth))
    assert 8 < len(rows) <= COUNT
    assert len(set(rows.tolist())) == len(rows)
    vectors = golden(truth, rows)
    write_golden(tmp_path, vectors)
    again = example.compute(read_golden(tmp_path).inputs)
    for name, array in read_golden(tmp_path).outputs.items():
        assert array.dtype == vectors.outputs[name].dtype
        np.testing.assert_allclose(again[name], array, atol=1e-5, rtol=1e-5)


def test_json_and_npz_hold_the_same(example: Example, tmp_path: Path) -> None:
    truth = example.reference()
    write_golden(tmp_path, golden(truth, choose(truth, perturbation(truth))))
    text = json.loads((tmp_path / "golden.json").read_text())
    with np.load(tmp_path / "golden.npz", allow_pickle=False) as archive:
        names = {f"{side}/{name}" for side in ("inputs", "outputs") for name in text[side]}
        assert names == set(archive.files)
        for key in archive.files:
            side, _, name = key.partition("/")
            array = archive[key][: text["count"]]
            np.testing.assert_array_equal(np.array(text[side][name], array.dtype), array)


def test_every_group_of_observations_is_among_them(example: Example) -> None:
    truth = example.reference()
    ends = np.cumsum(list(truth.observations.groups.values()))
    groups = set(np.searchsorted(ends, choose(truth, perturbation(truth)), side="right").tolist())
    assert groups == set(range(len(ends)))


def test_equal_vectors_give_equal_files(tmp_path: Path) -> None:
    truth = EXAMPLES["normalised"]().reference()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_golden(tmp_path / name, golden(truth, np.arange(5)))
    for file in ("golden.npz", "golden.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("name", STEPPING)
def test_memory_brings_steps_in_a_row(name: str, tmp_path: Path) -> None:
    example = STEPPING[name]()
    truth = example.reference()
    write_golden(tmp_path, golden(truth, choose(truth, perturbation(truth))))
    vectors = read_golden(tmp_path)
    assert list(vectors.inputs) == [spec.name for spec in example.signature.inputs]
    assert bool(vectors.run_inputs) == bool(vectors.run_outputs) == bool(example.signature.memory)
    if vectors.run_inputs:
        again = play(example.compute, example.signature, vectors.run_inputs)
        assert len(vectors.run_inputs["episode_start"]) == STEPS
        for key, array in vectors.run_outputs.items():
            np.testing.assert_allclose(again[key], array, atol=1e-5, rtol=1e-5)


def test_the_json_has_one_row_of_them(tmp_path: Path) -> None:
    truth = lstm().reference()
    vectors = golden(truth, np.arange(5))
    write_golden(tmp_path, vectors)
    found = json.loads((tmp_path / "golden.json").read_text())["sequence"]
    assert found["steps"] == STEPS
    assert "state.0" not in found["inputs"]
    np.testing.assert_array_equal(
        np.array(found["outputs"]["state.0.next"], "f4"), vectors.run_outputs["state.0.next"][:, 0]
    )


def test_steps_end_before_the_policys_own_rounding_counts() -> None:
    """A memory that grows without end is soon a matter of the last digits."""
    example = lstm()
    with torch.no_grad():
        example.module.back.weight *= 300  # type: ignore[operator, union-attr]
    truth = example.reference()
    vectors = golden(truth, np.arange(5))
    assert 1 <= len(vectors.run_inputs["episode_start"]) < STEPS
