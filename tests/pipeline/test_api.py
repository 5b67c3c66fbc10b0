from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpipe
from rlpipe.errors import ConfigError, SelectionError
from rlpipe.exporters.labels import Labels
from tests.pipeline.checkpoints import files


def test_save_converts_and_chooses(checkpoint: Path, tmp_path: Path) -> None:
    report = rlpipe.save(
        checkpoint, tmp_path / "a", backend="pickle", policy_ids=["p1"], roles=["inference"], rename={"p1": "p7"}
    )
    assert report.checkpoint.path == (tmp_path / "a").as_posix()
    assert [facts.name for facts in report.checkpoint.policies()] == ["p7"]
    again = rlpipe.save(tmp_path / "a", tmp_path / "b")
    assert again.checkpoint.content_hash == report.checkpoint.content_hash
    assert (tmp_path / "b/policies/p7/state.h5").is_file()


def test_restore_gives_live_policies(checkpoint: Path) -> None:
    report = rlpipe.restore(checkpoint, policy_ids=["p1"], device="cpu")
    actions = report.policies["p1"].compute_actions(np.zeros((3, 4), np.float32))
    assert actions.shape == (3,)
    assert rlpipe.restore(checkpoint, device="meta").device == "meta"
    with pytest.raises(SelectionError):
        rlpipe.restore(checkpoint, policy_ids=["p9"])


def test_export_writes_no_result_file(artifacts: Path) -> None:
    assert sorted(path.name for path in artifacts.iterdir()) == ["p0", "p2"]
    assert not list(artifacts.rglob("result.json"))


def test_unknown_targets_are_refused_before_anything_is_done(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        rlpipe.export(checkpoint, tmp_path / "made", targets=["onyx"])
    assert not (tmp_path / "made").exists()


def test_info_and_verify_take_any_path(checkpoint: Path, artifacts: Path, sb3_zip: Path) -> None:
    assert rlpipe.get_checkpoint_info(checkpoint).to_json()["policy_ids"] == ["p0", "p1", "p2"]
    assert rlpipe.get_checkpoint_info(str(artifacts)).to_json()["policy_ids"] == ["p0", "p2"]
    assert rlpipe.get_checkpoint_info(sb3_zip, policy_id="walker").to_json()["policy_ids"] == ["walker"]
    assert all(rlpipe.verify(path).ok for path in (checkpoint, artifacts, sb3_zip))


def test_reading_changes_nothing(checkpoint: Path) -> None:
    before = files(checkpoint)
    rlpipe.get_checkpoint_info(checkpoint)
    rlpipe.verify(checkpoint)
    rlpipe.restore(checkpoint)
    assert files(checkpoint) == before


def test_artifacts_are_no_source_of_policies(artifacts: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        rlpipe.save(artifacts, tmp_path / "a")


@pytest.mark.parametrize(
    ("argument", "value", "found"),
    [
        ("policy_ids", [], "an empty list"),
        ("policy_ids", ["p1", "p1"], "p1 more than once"),
        ("policy_ids", "p1", "the text 'p1'"),
        ("policy_ids", [["p1"]], "list ['p1']"),
        ("policy_ids", ["p1", ""], "an empty text"),
        ("policy_ids", {"p1": 1}, "dict {'p1': 1}"),
        ("policy_ids", 1, "int 1"),
        ("roles", [], "an empty list"),
        ("roles", "inference", "the text 'inference'"),
        ("roles", ["infer"], "'infer'"),
        ("roles", ["inference", "inference"], "inference more than once"),
        ("if_exists", "maybe", "'maybe'"),
        ("rename", ["p1"], "['p1']"),
        ("trust", "mine.Net", "the text 'mine.Net'"),
        ("backend", "hdf6", "'hdf6'"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    argument: str, value: Any, found: str, checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        rlpipe.save(checkpoint, tmp_path / "a", **{argument: value})
    error = caught.value
    assert argument in error.subject
    assert error.found == found
    assert error.fix
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("value", [[], ["p1", "p1"], "p1", [1]])
@pytest.mark.parametrize("read", [rlpipe.Policy.from_checkpoint, rlpipe.Algorithm.from_checkpoint])
def test_policies_are_asked_for_as_strictly_everywhere(read: Any, value: Any, checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="policy_ids"):
        read(checkpoint, value)


@pytest.mark.parametrize("targets", [[], {}, "onnx", ["onnx", "onnx"], {"onnx": {"atol": 1.0}}])
def test_targets_are_asked_for_as_strictly(targets: Any, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="targets"):
        rlpipe.export(checkpoint, tmp_path / "made", targets=targets)
    assert not (tmp_path / "made").exists()


def test_export_takes_what_the_task_takes(checkpoint: Path, tmp_path: Path) -> None:
    """A target that fails decides only if it is required."""
    from rlpipe.exporters.targets import numpy, onnx

    targets = {"numpy": numpy.Options(), "onnx": onnx.Options(timeout=0.01)}
    labels = Labels(names={"obs": ("x", "v", "angle", "rate")}, metadata={"rate_hz": 50})
    common: dict[str, Any] = {"targets": targets, "policy_ids": ["p0"], "jobs": 2, "labels": labels}
    report = rlpipe.export(checkpoint, tmp_path / "made", require=["numpy"], **common)
    (policy,) = report.to_json()["policies"]
    statuses = {row["target"]: row["status"] for row in policy["targets"]}
    assert statuses == {"numpy": "ok", "onnx": "failed"}
    assert report.ok
    assert report.exit_code == 0
    assert not rlpipe.export(checkpoint, tmp_path / "again", **common).ok
    record = json.loads((tmp_path / "made/p0/artifact.json").read_text())
    assert record["names"] == {"obs": ["x", "v", "angle", "rate"]}
    assert record["metadata"] == {"rate_hz": 50}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("jobs", 0),
        ("jobs", True),
        ("jobs", "2"),
        ("require", ["torchscript"]),
        ("require", "onnx"),
        ("labels", {"names": {}}),
        ("labels", Labels(metadata={"x": float("nan")})),
    ],
)
def test_what_export_is_told_is_checked_before_anything_is_done(
    argument: str, value: Any, checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=argument):
        rlpipe.export(checkpoint, tmp_path / "made", targets=["onnx"], **{argument: value})
    assert not (tmp_path / "made").exists()
