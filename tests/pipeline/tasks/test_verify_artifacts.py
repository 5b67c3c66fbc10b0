"""task=verify on folders of policies with memory, masks and noise, and on trees of folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from rlpipe.pipeline.settings import SourceSettings, VerifySettings
from tests.exporters.folders import folder_of
from tests.exporters.memory_graphs import counter, lstm, masked_choices
from tests.pipeline.checkpoints import Runner


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three folders, each one level deeper."""
    place = tmp_path_factory.mktemp("tree")
    folder_of(lstm(), place / "a" / "lstm", "onnx")
    folder_of(counter(), place / "a" / "b" / "counter", "onnx")
    folder_of(masked_choices(), place / "a" / "b" / "c" / "masked", "onnx")
    return place


def test_a_tree_of_folders(run_task: Runner, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "nightly" / "out.xml"
    report = run_task("verify", source=SourceSettings(path=str(tree)), verify=VerifySettings(junit=str(out)))
    assert report.exit_code == 0, report.to_json()
    details = {check["subject"]: check["detail"] for check in report.to_json()["checks"]}
    assert sorted(details) == ["a/b/c/masked/onnx", "a/b/counter/onnx", "a/lstm/onnx"]
    assert "64 golden vectors and 40 steps of 4 with its own memory" in details["a/lstm/onnx"]
    assert details["a/lstm/onnx"].endswith("actions at batches 1, 2, 7")
    suite = ET.parse(out).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "0")


def test_a_step_that_differs_fails_that_folder_alone(run_task: Runner, tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "copied"
    shutil.copytree(tree, place)
    folder = place / "a" / "lstm"
    with np.load(folder / "golden.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["sequence/outputs/state.1.next"][20, 1] += 1e-3
    np.savez(folder / "golden.npz", allow_pickle=False, **arrays)
    record = json.loads((folder / "artifact.json").read_text())
    record["files"] = [file for file in record["files"] if file["path"] != "golden.npz"]
    (folder / "artifact.json").write_text(json.dumps(record))
    out = tmp_path / "out.xml"
    report = run_task("verify", source=SourceSettings(path=str(place)), verify=VerifySettings(junit=str(out)))
    assert report.exit_code == 1
    wrong = [check for check in report.to_json()["checks"] if not check["ok"]]
    assert [check["subject"] for check in wrong] == ["a/lstm/onnx"]
    assert "step 21 with its own memory: state.1.next" in str(wrong[0]["findings"])
    failures = ET.parse(out).getroot().findall(".//failure")
    assert len(failures) == 1
    assert "step 21" in failures[0].attrib["message"]
