"""The policy's own episodes again, with an artifact acting; wrong artifacts show."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.exporters.record import describe_policy
from rlpipe.exporters.signature import signature_of
from rlpipe.pipeline.closed_loop import EPISODES, ClosedLoop
from rlpipe.pipeline.live import spaces_of
from rlpipe.sample import sample_path
from rlpipe.snapshot.snapshot import Snapshot
from tests.pipeline.checkpoints import Runner


@pytest.fixture(scope="module")
def policy() -> Snapshot:
    """SAC on Pendulum-v1."""
    return read_checkpoint(sample_path()).children["policies"].children["p1"]


@pytest.fixture(scope="module")
def made(policy: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import rlpipe

    folder = tmp_path_factory.mktemp("made")
    assert rlpipe.export(sample_path(), folder, targets=["onnx"], policy_ids=["p1"]).ok
    return folder / "p1"


def description(policy: Snapshot) -> dict[str, Any]:
    spaces = spaces_of(policy)
    return describe_policy(policy, signature_of(spaces.observation, spaces.action))


def test_what_export_says(made: Path) -> None:
    import json

    record = json.loads((made / "artifact.json").read_text())
    level = record["targets"]["onnx"]["levels"]["L3 loop"]
    assert level["status"] == "ok", level
    facts = level["facts"]
    assert (facts["env"], facts["episodes"]) == ("Pendulum-v1", EPISODES)
    assert abs(facts["mean_return"] - facts["policy_mean_return"]) <= 1e-3 * abs(facts["policy_mean_return"])
    assert facts["open_loop_difference"] < 1e-4
    assert record["observation_statistics"]["obs"]["count"] == EPISODES * 200


def test_another_bias_is_seen(policy: Snapshot, made: Path, tmp_path: Path) -> None:
    model = copy.deepcopy(onnx.load(made / "onnx" / "policy.onnx"))
    bias = next(tensor for tensor in model.graph.initializer if tensor.name.endswith("mean.bias"))
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.2), bias.name))
    onnx.save(model, tmp_path / "policy.onnx")
    level = ClosedLoop(policy, "p1", "Pendulum-v1", ())("onnx", tmp_path / "policy.onnx", description(policy))
    assert level.status == "failed"
    assert level.facts["first_difference"] == 0
    assert level.facts["open_loop_wrong"] > 100


@pytest.mark.parametrize(
    ("env_id", "said"), [("CartPole-v1", "is not an environment"), ("Nowhere-v0", "cannot be made")]
)
def test_an_environment_that_does_not_fit_is_skipped(policy: Snapshot, made: Path, env_id: str, said: str) -> None:
    level = ClosedLoop(policy, "p1", env_id, ())("onnx", made / "onnx" / "policy.onnx", description(policy))
    assert level.status == "skipped"
    assert said in level.detail


def test_without_an_environment_there_is_no_loop(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    from rlpipe.exporters.targets import onnx as target
    from rlpipe.pipeline.settings import ExportSettings, SelectSettings, SourceSettings

    report = run_task(
        "export",
        source=SourceSettings(path=str(checkpoint)),
        select=SelectSettings(policy_ids=("p1",)),
        export=ExportSettings(targets={"onnx": target.Options()}),
        artifact_path="made",
    )
    levels = report.to_json()["policies"][0]["targets"][0]["levels"]
    assert levels["L3 loop"] == {"status": "skipped", "detail": "no environment is known"}
