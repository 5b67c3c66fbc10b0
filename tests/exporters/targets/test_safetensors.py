"""Weights, read by safetensors alone, and put into a network that rlpipe knows nothing of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ArtifactError
from rlpipe.exporters.artifact import open_artifact
from rlpipe.exporters.preparation import Preparation, prepare
from rlpipe.exporters.targets import safetensors
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.spaces import Box
from tests.exporters.exporting import Exporter
from tests.exporters.graphs import unbounded
from tests.exporters.test_export import policy_of


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_of("ppo.PPOModule", unbounded(6), Box.uniform(-2, 2, (3,)), normalise=True)


@pytest.fixture(scope="module")
def prepared(policy: Policy) -> Preparation:
    return prepare(snapshot_of(policy), recorded=None, trust=())


@pytest.fixture(scope="module")
def folder(policy: Policy, export_policy: Exporter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out_dir = tmp_path_factory.mktemp("made")
    report = export_policy(snapshot_of(policy), "p", targets={"safetensors": safetensors.Options()}, out_dir=out_dir)
    assert report.ok, report.rows
    return out_dir / "p"


def test_a_network_of_ones_own_acts_like_the_policy(folder: Path, policy: Policy) -> None:
    arrays = load_file(folder / "safetensors" / "weights.safetensors")
    spec = json.loads((folder / "safetensors" / "spec.json").read_text())["essentials"]
    (normalize,) = spec["rlpipe.stages"]["observation"]
    assert (normalize["formula"], normalize["clip"]) == ("var_eps", 10.0)
    observations = np.random.default_rng(0).normal(1000, 3, (20, 6)).astype(np.float32)
    deviation = np.sqrt(arrays["observation.normalize.var"] + normalize["eps"])
    x = np.clip((observations - arrays["observation.normalize.mean"]) / deviation, -10, 10)
    for layer in (0, 2):
        name = f"encoder.actor_encoder.{layer}"
        x = np.tanh(x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"])
    mean = x @ arrays["pi.mean.weight"].T + arrays["pi.mean.bias"]
    np.testing.assert_allclose(np.clip(mean, -2, 2), policy.compute_actions(observations), atol=1e-5)


def test_no_critic_is_inside_and_types_are_kept(folder: Path) -> None:
    arrays = load_file(folder / "safetensors" / "weights.safetensors")
    assert [name for name in arrays if "vf" in name or "critic" in name] == []
    assert arrays["observation.normalize.mean"].dtype == np.float64
    described = json.loads((folder / "safetensors" / "spec.json").read_text())["tensors"]
    assert described == {n: {"dtype": a.dtype.name, "shape": list(a.shape)} for n, a in arrays.items()}


def test_the_file_names_its_policy(folder: Path) -> None:
    record = json.loads((folder / "artifact.json").read_text())
    with safe_open(folder / "safetensors" / "weights.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["rlpipe"])["rlpipe.fingerprint"] == record["fingerprint"]
    assert [entry["path"] for entry in record["targets"]["safetensors"]["files"]] == [
        "safetensors/weights.safetensors", "safetensors/spec.json",
    ]  # fmt: skip
    levels = record["targets"]["safetensors"]["levels"]
    assert {name: level["status"] for name, level in levels.items()} == {"L0 file": "ok", "L1 numbers": "ok"}


def test_equal_policies_give_equal_bytes(prepared: Preparation, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        safetensors.export(prepared.graph, tmp_path / name / "w", safetensors.Options(), {"x": "1", "y": "2", "z": "3"})
    for file in ("w", "spec.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def changed(arrays: dict[str, Any]) -> None:
    arrays["pi.mean.bias"][0] += 1e-7


def lost(arrays: dict[str, Any]) -> None:
    del arrays["pi.mean.bias"]


def narrowed(arrays: dict[str, Any]) -> None:
    arrays["observation.normalize.mean"] = arrays["observation.normalize.mean"].astype(np.float32)


@pytest.mark.parametrize("damage", [changed, lost, narrowed])
def test_another_number_is_found(prepared: Preparation, damage: Any, tmp_path: Path) -> None:
    file = tmp_path / "w"
    safetensors.export(prepared.graph, file, safetensors.Options(), {})
    assert safetensors.compare(str(file), prepared.graph) == ""
    arrays = load_file(file)
    damage(arrays)
    save_file(arrays, file)
    assert safetensors.compare(str(file), prepared.graph)


def test_weights_do_not_act(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds weights and does not act"):
        open_artifact(folder)
    shutil.copytree(folder, tmp_path / "p")
    (tmp_path / "p" / "safetensors" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(ArtifactError, match="was changed or damaged"):
        open_artifact(tmp_path / "p")
