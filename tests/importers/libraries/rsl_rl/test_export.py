"""From a checkpoint of rsl_rl straight to files that a robot runs, with onnxruntime alone as the judge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.progress import NoProgress
from rlpipe.pipeline.settings import ExportSettings, RunSettings, SourceSettings
from rlpipe.pipeline.tasks import export
from rlpipe.policies.graph_options import GraphOptions
from tests.importers.libraries.rsl_rl.test_deployment import JOINTS, REST
from tests.importers.libraries.rsl_rl.test_importer import golden

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="artifact")
def _artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent policy, its actions as targets of the joints."""
    folder = tmp_path_factory.mktemp("made")
    settings = RunSettings(
        task="export",
        source=SourceSettings(path=str(golden("v5_lstm"))),
        export=ExportSettings(targets={"onnx": onnx.Options()}, graph=GraphOptions(action="target")),
        artifact_path=str(folder),
    )
    report = export.run(settings, progress=NoProgress())
    assert report.ok, report.to_json()
    return folder / "p0"


def test_the_file_gives_the_targets_that_the_environment_would(artifact: Path) -> None:
    with np.load(golden("v5_lstm").with_suffix(".npz")) as known:
        rows = [known[name] for name in ("observations", "starts", "actions")]
    session = onnxruntime.InferenceSession(artifact / "onnx" / "policy.onnx")
    state = {f"state.{index}": np.zeros((4, 2, 12), np.float32) for index in (0, 1)}
    for observations, starts, raw in zip(*rows, strict=True):
        named = {"obs": observations, "episode_start": starts, **state}
        action, *kept = session.run(["action", "state.0.next", "state.1.next"], named)
        state = dict(zip(state, kept, strict=True))
        np.testing.assert_allclose(action, np.clip(raw * 0.5 + np.array(REST), -1, 1), rtol=0, atol=2e-6)


def test_the_record_names_elements_and_says_what_deployment_needs(artifact: Path) -> None:
    record = json.loads((artifact / "artifact.json").read_text())
    assert record["names"]["action"] == list(JOINTS)
    assert record["names"]["obs"][0] == "base_lin_vel.X"
    assert record["metadata"]["rate_hz"] == 50
    assert record["metadata"]["robot"]["default_joint_pos"] == list(REST)
    assert str(golden("v5_lstm").parent) not in json.dumps(record)
