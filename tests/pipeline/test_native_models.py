"""Artifacts inside the checkpoint: found where they belong, proven, and never in the way of a save."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlpipe
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointExistsError, ConfigError
from rlpipe.exporters.artifact import open_artifact
from rlpipe.pipeline.lift import algorithm_of, container_of
from tests.exporters import networks
from tests.exporters.test_export import own_network
from tests.pipeline.checkpoints import algorithm, write


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p0 and p1 with a torch and a numpy model."""
    place = tmp_path_factory.mktemp("native")
    write(place / "source", algorithm())
    report = rlpipe.save(
        place / "source", place / "saved", native_models=["numpy", "torch_export"], policy_ids=["p0", "p1"]
    )
    assert not [text for text in report.warnings if "model" in text]
    ok = {"numpy": "ok", "torch_export": "ok"}
    assert report.to_json()["checkpoint"]["native_models"] == {"p0": ok, "p1": ok}
    return place / "saved"


def test_they_lie_in_the_policys_directory_and_act_as_it_does(saved: Path) -> None:
    artifact = open_artifact(saved / "policies/p1/model", target="numpy", trust=("numpy",))
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    policy = rlpipe.Policy.from_checkpoint(saved / "policies/p1")
    assert isinstance(policy, rlpipe.Policy)
    expected = policy.compute_actions(observations)
    np.testing.assert_array_equal(artifact.compute_actions(observations), expected)
    loaded = torch.export.load(saved / "policies/p1/model/torch_export/policy.pt2")
    np.testing.assert_array_equal(loaded.module()(torch.from_numpy(observations)).numpy(), expected)


def test_they_are_checked_with_the_checkpoint_and_change_nothing_of_what_it_is(saved: Path, tmp_path: Path) -> None:
    assert rlpipe.verify(saved).ok
    plain = rlpipe.save(saved, tmp_path / "plain", policy_ids=["p0"])
    (note,) = [text for text in plain.warnings if "stays behind" in text]
    assert note.startswith("p0: ")
    assert "model/numpy/policy.npz" in note or "more" in note
    assert not (tmp_path / "plain/policies/p0/model").exists()
    again = rlpipe.save(tmp_path / "plain", tmp_path / "again", native_models=["numpy"])
    assert not [text for text in (*again.warnings,) if "stays behind" in text]
    assert again.checkpoint.content_hash == plain.checkpoint.content_hash
    shutil.copytree(saved, tmp_path / "damaged")
    file = tmp_path / "damaged/policies/p0/model/numpy/policy.npz"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    assert not rlpipe.verify(tmp_path / "damaged").ok


def test_a_policy_that_cannot_be_exported_is_saved_without(tmp_path: Path) -> None:
    tree = algorithm_of(container_of({"bad": own_network(networks.FixesBatch), "good": own_network(networks.Plain)}))
    write_checkpoint(tree, tmp_path / "source")
    report = rlpipe.save(tmp_path / "source", tmp_path / "a", native_models=["numpy"], trust=["tests.*"])
    found = report.to_json()["checkpoint"]["native_models"]
    assert found == {"bad": {"numpy": "unsupported"}, "good": {"numpy": "ok"}}
    (warning,) = [text for text in report.warnings if "numpy model" in text]
    assert warning.startswith("bad is saved without its numpy model: unsupported: ")
    assert "net (FixesBatch) fixes the batch size; expected: any batch size" in warning
    assert not (tmp_path / "a/policies/bad/model").exists()
    assert (tmp_path / "a/policies/good/model/verify.py").is_file()
    assert rlpipe.verify(tmp_path / "a").ok
    assert report.exit_code == 0


def test_nothing_is_exported_for_a_place_that_is_taken(tmp_path: Path) -> None:
    write(tmp_path / "source", algorithm())
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(CheckpointExistsError):
        rlpipe.save(tmp_path / "source", tmp_path / "taken", native_models=["torch_export"])


@pytest.mark.parametrize("value", ["numpy", ["nothing"], ["numpy", "numpy"], [1]])
def test_targets_are_asked_for_strictly(value: Any, tmp_path: Path) -> None:
    write(tmp_path / "a", algorithm())
    with pytest.raises(ConfigError, match="native_models"):
        rlpipe.save(tmp_path / "a", tmp_path / "b", native_models=value)
    assert not (tmp_path / "b").exists()
