from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rlpipe.errors import ConfigError, EnvironmentMismatchError
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.reports import attached
from rlpipe.pipeline.settings import (
    CheckpointSettings,
    EvaluateSettings,
    ExportSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from tests.pipeline.checkpoints import PPO, Runner, algorithm, files, write

ONNX = ExportSettings(targets={"onnx": onnx.Options()})
ONE = EvaluateSettings(episodes=1)
POLES = algorithm(p0=PolicySettings(module=PPO, env="CartPole-v1"), p1=PolicySettings(module=PPO, env="CartPole-v1"))


def test_each_step_works_on_what_the_last_one_made(run_task: Runner, tmp_path: Path) -> None:
    source = write(tmp_path / "a", POLES)
    report = run_task(
        "pipeline",
        steps=("save", "verify", "export", "evaluate", "info", "restore"),
        export=ONNX,
        evaluate=ONE,
        source=SourceSettings(path=str(source)),
        checkpoint=CheckpointSettings(path="b", backend="pickle"),
        select=SelectSettings(policy_ids=("p1",), roles=("inference",)),
        rename={"p1": "pole"},
        out_dir="run",
    )
    assert report.exit_code == 0
    steps = report.to_json()["steps"]
    assert [step["task"] for step in steps] == ["save", "verify", "export", "evaluate", "info", "restore"]
    assert [step["source"]["name"] for step in steps] == [str(source), "b", "b", "run", "run", "b"]
    assert (tmp_path / "b/policies/pole/state.pkl").is_file()
    assert steps[3]["evaluations"][0]["form"] == "onnx"
    fingerprints = {
        steps[0]["checkpoint"]["policies"]["pole"]["fingerprint"],
        steps[2]["policies"][0]["fingerprint"],
        steps[3]["evaluations"][0]["fingerprint"],
        steps[5]["policies"][0]["fingerprint"],
    }
    assert len(fingerprints) == 1
    assert [path.name for path in (tmp_path / "run").iterdir() if path.is_dir()] == ["pole"]
    assert list(tmp_path.rglob("result.json")) == [tmp_path / "run/result.json"]
    assert json.loads((tmp_path / "run/result.json").read_text())["steps"][0]["task"] == "save"
    stream = io.StringIO()
    show(report.render(), stream)
    assert "4. evaluate: ok" in stream.getvalue()


def test_only_reading_steps_share_the_source(run_task: Runner, checkpoint: Path) -> None:
    report = run_task("pipeline", steps=("verify", "info"), checkpoint=CheckpointSettings(path=str(checkpoint)))
    assert [step["source"]["name"] for step in report.to_json()["steps"]] == [str(checkpoint)] * 2


def test_a_step_that_cannot_be_done_ends_it_and_is_named(run_task: Runner, tmp_path: Path) -> None:
    write(tmp_path / "a", POLES)
    with pytest.raises(EnvironmentMismatchError) as caught:
        run_task(
            "pipeline",
            steps=("save", "evaluate", "export"),
            source=SourceSettings(path="a"),
            export=ONNX,
            evaluate=ONE,
            env="Pendulum-v1",
            checkpoint=CheckpointSettings(path="b"),
            out_dir="run",
        )
    assert caught.value.subject.startswith("step 2, evaluate: ")
    before = attached(caught.value)
    assert before is not None
    assert [step["task"] for step in before.to_json()["steps"]] == ["save"]
    assert before.to_json()["skipped"] == ["export"]
    assert not (tmp_path / "run").exists()
    assert files(tmp_path / "b/policies") == files(tmp_path / "a/policies")


def test_a_step_that_is_not_ok_ends_it(run_task: Runner, tmp_path: Path) -> None:
    write(tmp_path / "a", POLES)
    (tmp_path / "a/policies/p0/state.h5").write_bytes(b"nothing")
    report = run_task("pipeline", steps=("verify", "export"), source=SourceSettings(path="a"), export=ONNX)
    assert report.exit_code == 1
    assert report.to_json()["skipped"] == ["export"]


def test_steps_are_checked_before_the_first_is_done(run_task: Runner, tmp_path: Path) -> None:
    for steps in ((), ("save", "exprot"), ("save", "pipeline")):
        with pytest.raises(ConfigError):
            run_task("pipeline", steps=steps, checkpoint=CheckpointSettings(path="b"))
    assert not (tmp_path / "b").exists()
