"""task=pipeline: the same steps one after the other, one report."""

import re
from pathlib import Path

import pytest

from tests.acceptance.program import FINGERPRINT, Run, digests, leaves, run_program, values_at

STEPS = ("save", "verify", "export", "evaluate")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Run:
    return run_program(
        "task=pipeline",
        "task.steps=[save,verify,export,evaluate]",
        f"source.path={sample}",
        "policy_ids=[p0]",
        "export=[onnx]",
        "env=CartPole-v1",
        "evaluate.episodes=3",
        "checkpoint.path=made",
        folder=tmp_path_factory.mktemp("pipeline"),
    ).succeeded()


def test_every_step_works_on_what_the_last_one_made(ran: Run, sample: Path) -> None:
    assert digests(ran.folder / "made/policies/p0") == digests(sample / "policies/p0")
    (artifact,) = ran.folder.rglob("*.onnx")
    assert artifact.stat().st_size > 0
    assert len(set(re.findall(FINGERPRINT, ran.out))) == 1, "one policy all the way"
    assert values_at(ran.report, "mean") != []


def test_there_is_one_report(ran: Run) -> None:
    words = {leaf for leaf in leaves(ran.report) if isinstance(leaf, str)}
    assert set(STEPS) <= words
    assert [step for step in STEPS if step not in ran.out] == []


@pytest.mark.slow
def test_a_failing_step_stops_the_line(sample: Path, tmp_path: Path) -> None:
    run = run_program(
        "task=pipeline",
        "task.steps=[save,evaluate,export]",
        f"source.path={sample}",
        "policy_ids=[p0]",
        "env=Pendulum-v1",
        "checkpoint.path=made",
        folder=tmp_path,
    ).failed(1)
    assert "evaluate" in run.text
    assert list(tmp_path.rglob("*.onnx")) == []


@pytest.mark.slow
def test_an_unknown_step_is_named_before_anything_is_done(tmp_path: Path) -> None:
    run = run_program("task=pipeline", "task.steps=[save,exprot]", "checkpoint.path=made", folder=tmp_path).failed(2)
    assert "exprot" in run.text
    assert "export" in run.text
    assert not (tmp_path / "made").exists()
