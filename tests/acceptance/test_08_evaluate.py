"""task=evaluate: returns of a policy in its environment, from a checkpoint, a foreign file or an artifact."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.program import Run, run_program, values_at


def mean_of(run: Run) -> float:
    """The mean return in result.json."""
    (mean,) = set(values_at(run.report, "mean"))
    return float(mean)


def evaluate(folder: Path, *arguments: Any) -> Run:
    return run_program("task=evaluate", *arguments, folder=folder).succeeded()


def test_the_trained_sample_balances_the_pole(sample: Path, tmp_path: Path) -> None:
    first = evaluate(tmp_path, f"source.path={sample}", "env=CartPole-v1", "policy_ids=[p0]", "evaluate.episodes=5")
    assert mean_of(first) >= 450
    assert "mean" in first.out.lower()
    assert re.search("std|deviation", first.out.lower())
    assert values_at(first.report, "std") != []


@pytest.mark.slow
def test_the_same_seeds_give_the_same_returns(sample: Path, tmp_path: Path) -> None:
    runs = [
        evaluate(tmp_path, f"source.path={sample}", "env=Pendulum-v1", "policy_ids=[p1]", "evaluate.episodes=3")
        for _ in range(2)
    ]
    returns = [values_at(run.report, "returns") for run in runs]
    assert returns[0] == returns[1] != []
    assert mean_of(runs[0]) >= -400


@pytest.mark.slow
def test_a_foreign_file_is_evaluated(foreign: Path, tmp_path: Path) -> None:
    path = foreign / "ppo_normalised" / "model.zip"
    statistics = foreign / "ppo_normalised_statistics" / "vecnormalize.pkl"
    run = evaluate(
        tmp_path,
        f"source.path={path}",
        f"source.normalizer={statistics}",
        "env=Pendulum-v1",
        "policy_ids=[p0]",
        "evaluate.episodes=2",
    )
    assert -2000 < mean_of(run) < 0


@pytest.mark.slow
def test_an_artifact_acts_like_the_checkpoint_it_came_from(sample: Path, tmp_path: Path) -> None:
    run_program(
        "task=export",
        f"source.path={sample}",
        "policy_ids=[p2]",
        "export=[onnx]",
        "artifact.path=made",
        folder=tmp_path,
    ).succeeded()
    (artifact,) = tmp_path.glob("made/**/*.onnx")
    common = ("env=CartPole-v1", "policy_ids=[p2]", "evaluate.episodes=3")
    live, exported = (evaluate(tmp_path, f"source.path={path}", *common) for path in (sample, artifact))
    assert values_at(live.report, "returns") == values_at(exported.report, "returns") != []


@pytest.mark.slow
def test_observations_of_another_size_are_refused(sample: Path, tmp_path: Path) -> None:
    run = run_program(
        "task=evaluate", f"source.path={sample}", "env=CartPole-v1", "policy_ids=[p1]", folder=tmp_path
    ).failed(1)
    assert "p1" in run.text
    assert "CartPole-v1" in run.text
    assert re.search(r"\b3\b", run.text), "what was expected"
    assert re.search(r"\b4\b", run.text), "what was found"
