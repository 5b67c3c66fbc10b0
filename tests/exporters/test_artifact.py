"""Opening artifacts: checked, and never by code from a file that nobody trusts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ArtifactError, ObservationError, UnsafePayloadError
from rlpipe.exporters.artifact import is_artifact, open_artifact
from rlpipe.exporters.targets import onnx as onnx_target
from rlpipe.exporters.targets import torch_export
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Dict, Discrete
from tests.exporters.exporting import Exporter
from tests.exporters.graphs import unbounded

SPACE = Dict({"mode": Discrete(3), "vector": unbounded(4)})
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.manual_seed(0)
    return PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", SPACE, Box.uniform(-2, 2, (2,))).build()


@pytest.fixture(scope="module")
def made(policy: Policy, tmp_path_factory: pytest.TempPathFactory, export_policy: Exporter) -> Path:
    """The folder of a policy in both targets."""
    targets = {"onnx": onnx_target.Options(), "torch_export": torch_export.Options()}
    report = export_policy(snapshot_of(policy), "p1", targets=targets, out_dir=tmp_path_factory.mktemp("made"))
    assert report.ok
    assert report.folder
    return report.folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "elsewhere"))


def observations(size: int = 5) -> dict[str, Any]:
    return dict(SPACE.sample(size, np.random.default_rng(0)))


@pytest.mark.parametrize("place", ["onnx", "onnx/policy.onnx"])
def test_it_acts_like_the_policy(policy: Policy, copy: Path, place: str) -> None:
    artifact = open_artifact(copy / place)
    assert (artifact.target, artifact.observation_space) == ("onnx", SPACE)
    for size in (1, 5, 40):
        found = artifact.compute_actions(observations(size))
        np.testing.assert_allclose(found, policy.compute_actions(observations(size)), atol=1e-5)
        assert artifact.action_space.contains(found)


def test_a_target_is_chosen_by_name(policy: Policy, copy: Path) -> None:
    artifact = open_artifact(copy, target="torch_export", trust=("torch_export",))
    expected = policy.compute_actions(observations())
    np.testing.assert_allclose(artifact.compute_actions(observations()), expected, atol=1e-5)


def test_a_folder_with_several_targets_is_no_choice(copy: Path) -> None:
    with pytest.raises(ArtifactError, match="expected: one of onnx, torch_export"):
        open_artifact(copy)


def test_a_single_target_is_the_choice(copy: Path) -> None:
    record = json.loads((copy / "artifact.json").read_text())
    record["targets"]["torch_export"]["status"] = "mismatch"
    (copy / "artifact.json").write_text(json.dumps(record))
    assert open_artifact(copy).target == "onnx"
    assert open_artifact(copy / "artifact.json").target == "onnx"


def test_an_unknown_target_is_named(copy: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no artifact 'onx'"):
        open_artifact(copy, target="onx")


def test_a_file_that_could_run_code_needs_trust(copy: Path) -> None:
    with pytest.raises(UnsafePayloadError, match=r"trust=\[torch_export\]"):
        open_artifact(copy / "torch_export")


@pytest.mark.parametrize("target", ["onnx", "torch_export"])
def test_a_changed_file_is_not_loaded(copy: Path, target: str) -> None:
    (file,) = (copy / target).iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(ArtifactError, match="was changed or damaged"):
        open_artifact(file, trust=("torch_export",))


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "onnx" / "policy.onnx").unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        open_artifact(copy / "onnx")


def test_a_record_cannot_point_elsewhere(copy: Path) -> None:
    record = json.loads((copy / "artifact.json").read_text())
    shutil.move(copy / "onnx" / "policy.onnx", copy.parent / "policy.onnx")
    record["targets"]["onnx"]["file"] = "../policy.onnx"
    (copy / "artifact.json").write_text(json.dumps(record))
    with pytest.raises(ArtifactError, match="is missing"):
        open_artifact(copy, target="onnx")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 99}, "another version"),
        ({"signature": {"inputs": []}}, "no signature"),
        ({"targets": None}, "damaged"),
        ({"targets": {"onnx": None}}, "damaged"),
        ({"format": "something"}, "no artifact"),
    ],
)
def test_a_broken_record_is_refused(copy: Path, change: dict[str, Any], said: str) -> None:
    record = json.loads((copy / "artifact.json").read_text())
    (copy / "artifact.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(ArtifactError, match=said):
        open_artifact(copy, target="onnx")


def test_paths_without_an_artifact(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path(__file__)):
        assert not is_artifact(path)
        with pytest.raises(ArtifactError, match="is no artifact"):
            open_artifact(path)


@pytest.mark.parametrize("place", [".", "onnx", "onnx/policy.onnx", "artifact.json", "torch_export"])
def test_artifacts_are_recognised(made: Path, place: str) -> None:
    assert is_artifact(made / place)


@pytest.mark.parametrize("place", ["c99", "..", "onnx/other.onnx", "artifact.txt"])
def test_what_is_beside_is_none(made: Path, place: str) -> None:
    assert not is_artifact(made / place)


def test_observations_are_checked(copy: Path) -> None:
    artifact = open_artifact(copy / "onnx")
    given = observations()
    for wrong in (
        {**given, "vector": given["vector"].astype(np.float64)},
        {**given, "vector": given["vector"][:, :3]},
        {**given, "vector": given["vector"][0]},
        {**given, "vector": given["vector"][:2]},
        {"vector": given["vector"]},
        given["vector"],
    ):
        with pytest.raises(ObservationError):
            artifact.compute_actions(wrong)


def test_recognising_loads_nothing_heavy_and_acting_no_torch(made: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np\n"
        "from rlpipe.exporters.artifact import is_artifact, open_artifact\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "assert is_artifact(path)\n"
        "print(*sys.modules)\n"
        "artifact = open_artifact(path / 'onnx')\n"
        "artifact.compute_actions(artifact.observation_space.sample(3, np.random.default_rng(0)))\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(made)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    recognised, acted = ({name.partition(".")[0] for name in line.split()} for line in done.stdout.splitlines())
    assert recognised & {"torch", "onnx", "onnxruntime", "gymnasium", "h5py"} == set()
    assert acted & {"torch", "onnx", "gymnasium"} == set()
    assert "onnxruntime" in acted
