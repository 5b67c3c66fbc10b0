from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import ConfigError, ManifestError, RlpipeError
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.reports import attached
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    EvaluateSettings,
    ExportSettings,
    PolicySettings,
    RestoreSettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box, files, write

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
    write(tmp_path / "base", POLES)
    (tmp_path / "base/manifest.json").write_text("{}")
    with pytest.raises(ManifestError) as caught:
        run_task(
            "pipeline",
            steps=("save", "diff", "export"),
            source=SourceSettings(path="a"),
            base=BaseSettings(path="base"),
            export=ONNX,
            checkpoint=CheckpointSettings(path="b"),
            out_dir="run",
        )
    assert caught.value.subject.startswith("step 2, diff: ")
    before = attached(caught.value)
    assert before is not None
    assert [step["task"] for step in before.to_json()["steps"]] == ["save"]
    assert before.to_json()["skipped"] == ["export"]
    assert not (tmp_path / "run").exists()
    assert files(tmp_path / "b/policies") == files(tmp_path / "a/policies")


SPACES = algorithm(p0=PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2)))
AHEAD = [
    (("save", "evaluate"), {"algorithm": SPACES}, "no env, and none recorded"),
    (("save", "evaluate"), {"algorithm": SPACES, "env": "CartPol-v1"}, "CartPol"),
    (("save", "evaluate"), {"source": SourceSettings(path="nowhere_known")}, "no env, and none recorded"),
    (("save", "evaluate"), {"source": SourceSettings(path="poles"), "env": "Pendulum-v1"}, "Discrete"),
    (("save", "export", "evaluate"), {"source": SourceSettings(path="nowhere_known")}, "no env, and none recorded"),
    (("export", "evaluate"), {"source": SourceSettings(path="nowhere_known")}, "no env, and none recorded"),
    (("subset_restore", "evaluate"), {"source": SourceSettings(path="nowhere_known"), "algorithm": SPACES}, "no env"),
    (("save", "diff"), {"source": SourceSettings(path="poles")}, "no base.path"),
    (("save", "diff"), {"source": SourceSettings(path="poles"), "base": BaseSettings(path="pols")}, "no such path"),
    (("save", "subset_restore"), {"algorithm": SPACES, "base": BaseSettings(path="pols")}, "no such path"),
    (("save", "restore"), {"algorithm": SPACES, "restore": RestoreSettings(device="mps:7")}, ""),
]


@pytest.mark.parametrize(("steps", "given", "found"), AHEAD)
def test_what_a_later_step_would_miss_is_said_before_the_first(
    run_task: Runner, tmp_path: Path, steps: tuple[str, ...], given: dict[str, Any], found: str
) -> None:
    write(tmp_path / "poles", POLES)
    write(tmp_path / "nowhere_known", SPACES)
    checkpoint = {} if steps[0] == "export" else {"checkpoint": CheckpointSettings(path="made")}
    with pytest.raises(RlpipeError) as caught:
        run_task("pipeline", steps=steps, export=ONNX, evaluate=ONE, out_dir="run", **checkpoint, **given)
    assert caught.value.subject.startswith(f"step {len(steps)}, {steps[-1]}: ")
    assert found in caught.value.found
    assert attached(caught.value) is None
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "run").exists()


def test_all_that_later_steps_would_miss_is_in_one_error(run_task: Runner, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        run_task(
            "pipeline",
            steps=("save", "diff", "evaluate"),
            algorithm=SPACES,
            checkpoint=CheckpointSettings(path="made"),
        )
    assert "step 2, diff: " in caught.value.subject
    assert "step 3, evaluate: " in caught.value.subject
    assert not (tmp_path / "made").exists()


def test_a_policy_in_the_place_of_one_of_the_base_acts_where_that_did(run_task: Runner, tmp_path: Path) -> None:
    # Nothing but the base tells where it acts.
    write(tmp_path / "a", SPACES)
    there = replace(SPACES.policies["p0"], env="CartPole-v1")
    write(tmp_path / "base", algorithm(p7=there))
    report = run_task(
        "pipeline",
        steps=("subset_restore", "evaluate"),
        source=SourceSettings(path="a"),
        base=BaseSettings(path="base"),
        rename={"p0": "p7"},
        select=SelectSettings(policy_ids=("p0",)),
        evaluate=ONE,
        checkpoint=CheckpointSettings(path="made"),
    )
    assert report.ok


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
