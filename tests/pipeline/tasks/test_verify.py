from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import h5py
import numpy as np
import pytest

from rlpipe.checkpoint.authenticity import sha256_of
from rlpipe.errors import CheckpointNotFoundError, ConfigError, ForeignFormatError, SelectionError
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    SelectSettings,
    SourceSettings,
    VerifySettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.pipeline.tasks.verify import VerifyTaskReport
from tests.pipeline.checkpoints import Runner


def sha256sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def named_files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def shown(report: Report) -> str:
    stream = io.StringIO()
    show(report.render(), stream)
    return stream.getvalue()


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_sound_checkpoint(run_task: Runner, checkpoint: Path) -> None:
    report = run_task("verify", source=SourceSettings(path=str(checkpoint)))
    assert report.exit_code == 0
    assert [check["ok"] for check in report.to_json()["checks"]] == [True]


WITHOUT: Mapping[str, Callable[[Path], object]] = {
    "nothing": str,
    "a directory": Path.mkdir,
    "a link to nothing": lambda file: file.symlink_to("nothing"),
    "a link to itself": lambda file: file.symlink_to(file.name),
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "an empty file": Path.touch,
    "a pointer of LFS": lambda file: file.write_text("version https://git-lfs.github.com/spec/v1\n"),
}
"""What stands in the place of a manifest."""


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.parametrize("component", ["", "policies", "policies/p0"])
def test_a_lost_manifest_is_damage_and_no_error(
    run_task: Runner, tmp_path: Path, checkpoint: Path, component: str, name: str
) -> None:
    path = shutil.copytree(checkpoint, tmp_path / "a")
    (path / component / "manifest.json").unlink()
    WITHOUT[name](path / component / "manifest.json")
    for source in (path, path / component):
        report = run_task("verify", source=SourceSettings(path=str(source)))
        assert isinstance(report, VerifyTaskReport)
        assert report.exit_code == 1
        assert [finding.file for finding in report.findings] == ["manifest.json"]
        assert (name == "a pointer of LFS") == ("git lfs pull" in str(report.findings))


def test_a_folder_of_checkpoints_has_lost_no_manifest(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "runs" / "a")
    with pytest.raises(CheckpointNotFoundError, match=r"source\.which=latest"):
        run_task("verify", source=SourceSettings(path=str(tmp_path / "runs")))


def test_every_damage_is_reported(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    flip(tmp_path / "a/policies/p0/state.h5", at=-10)
    with h5py.File(checkpoint / "policies/p0/state.h5", "r") as file:
        inside = file["pi/logits/weight"].id.get_offset()
    flip(tmp_path / "a/policies/p0/state.h5", at=inside)
    flip(tmp_path / "a/policies/p1/state.h5", at=10)
    shutil.rmtree(tmp_path / "a/policies/p2")
    report = run_task("verify", source=SourceSettings(path="a"))
    assert report.exit_code == 1
    (check,) = report.to_json()["checks"]
    assert check["subject"] == "a"
    assert {one["component"] for one in check["findings"]} == {"policies/p0", "policies/p1", "policies/p2"}
    stream = io.StringIO()
    show(report.render(), stream)
    lines = stream.getvalue().splitlines()
    assert lines[2].split()[:2] == ["a", "damaged"]
    below = lines[4:]
    assert len(below) == len(check["findings"]) >= 3
    assert any(line.startswith("policies/p0/state.h5, pi/logits/weight: ") for line in below), "the key too"
    assert not any(line.startswith("a/") for line in below), "the path is told once"


def test_only_the_chosen_policies(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    flip(tmp_path / "a/policies/p0/state.h5", at=-10)
    for policy_id, ok in (("p0", False), ("p1", True)):
        chosen = SelectSettings(policy_ids=(policy_id,))
        report = run_task("verify", source=SourceSettings(path="a"), select=chosen)
        assert report.ok is ok
        for finding in report.to_json()["checks"][0]["findings"]:
            assert finding["component"] == "policies/p0"
        assert policy_id in report.to_json()["checks"][0]["subject"]
    with pytest.raises(SelectionError):
        run_task("verify", source=SourceSettings(path="a"), select=SelectSettings(policy_ids=("p9",)))


def test_a_foreign_file(run_task: Runner, tmp_path: Path, sb3_zip: Path) -> None:
    assert run_task("verify", source=SourceSettings(path=str(sb3_zip))).ok
    cut = tmp_path / "cut.zip"
    cut.write_bytes(sb3_zip.read_bytes()[:-200])
    with pytest.raises(ForeignFormatError):
        run_task("verify", source=SourceSettings(path=str(cut)))


def test_artifacts(run_task: Runner, tmp_path: Path, artifacts: Path) -> None:
    shutil.copytree(artifacts, tmp_path / "made")
    report = run_task("verify", source=SourceSettings(path="made"), trust=("torch_export",))
    checks = report.to_json()["checks"]
    assert report.ok
    assert [check["subject"] for check in checks] == ["p0/onnx", "p2/onnx", "p2/torch_export"]
    assert all("actions" in check["detail"] for check in checks)
    untrusted = run_task("verify", source=SourceSettings(path="made/p2")).to_json()["checks"]
    assert [("not run" in check["detail"]) for check in untrusted] == [False, True], "pt2 files may run code"
    flip(tmp_path / "made/p0/onnx/policy.onnx", at=100)
    (tmp_path / "made/p2/torch_export/policy.pt2").unlink()
    damaged = run_task("verify", source=SourceSettings(path="made"))
    assert damaged.exit_code == 1
    checks = damaged.to_json()["checks"]
    assert [check["ok"] for check in checks] == [False, True, False]
    assert [check["verdict"] for check in checks] == ["damaged", "ok", "damaged"]
    (finding,) = checks[2]["findings"]
    assert (finding["component"], finding["file"]) == ("p2", "torch_export/policy.pt2")
    assert "is missing" in finding["message"]


def test_artifacts_replay_their_golden_vectors(run_task: Runner, tmp_path: Path, artifacts: Path) -> None:
    shutil.copytree(artifacts / "p0", tmp_path / "p0")
    (check,) = run_task("verify", source=SourceSettings(path="p0")).to_json()["checks"]
    assert "64 golden vectors, largest difference" in check["detail"]
    with np.load(tmp_path / "p0/golden.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["outputs/action"] = 1 - arrays["outputs/action"]
    np.savez(tmp_path / "p0/golden.npz", allow_pickle=False, **arrays)
    report = run_task("verify", source=SourceSettings(path="p0"))
    messages = [check["findings"][0]["message"] for check in report.to_json()["checks"]]
    assert messages[0] == "was changed or damaged"
    assert "action: 64 of 64 golden vectors differ, by up to 1.0e+00" in messages[1]


def test_a_tree_of_artifacts_and_junit(run_task: Runner, tmp_path: Path, artifacts: Path) -> None:
    for night in ("mon", "tue"):
        shutil.copytree(artifacts / "p0", tmp_path / "nightly" / night / "p0")
    flip(tmp_path / "nightly/tue/p0/onnx/policy.onnx", at=100)
    report = run_task(
        "verify", source=SourceSettings(path="nightly"), verify=VerifySettings(junit="made/out.xml"), out_dir="run"
    )
    assert report.exit_code == 1
    suite = ET.parse(tmp_path / "made/out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite] == ["mon/p0/onnx", "tue/p0/onnx"]
    assert [len(case.findall("failure")) for case in suite] == [0, 1]


def test_nothing_to_verify(run_task: Runner, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        with pytest.raises(CheckpointNotFoundError):
            run_task("verify", source=SourceSettings(path=name))


def test_the_number_of_a_checkpoint_is_told_and_compared(run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    lines = [f"{sha256sum(file)}  {name}\n" for name, file in sorted(named_files(checkpoint).items())]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    report = run_task("verify", source=source, verify=VerifySettings(sha256="show"))
    assert report.to_json()["sha256"] == expected
    assert f"SHA-256: {expected}" in shown(report)
    assert run_task("verify", source=source, verify=VerifySettings(sha256=expected.upper())).ok
    report = run_task("verify", source=source, verify=VerifySettings(sha256="0" * 64, junit="junit.xml"))
    assert report.exit_code == 1
    assert f"this is another checkpoint: SHA-256 {expected}" in " ".join(shown(report).split())
    check = report.to_json()["checks"][0]
    assert (check["verdict"], check["expected"], check["found"]) == ("another", "0" * 64, expected)
    junit = Path("junit.xml").read_text()
    assert 'failures="1"' in junit
    assert 'message="another; ' in junit
    assert "damaged" not in shown(report) + junit


def test_the_number_of_a_policy_of_a_checkpoint(run_task: Runner, checkpoint: Path) -> None:
    source, chosen = SourceSettings(path=str(checkpoint)), SelectSettings(policy_ids=("p1",))
    report = run_task("verify", source=source, select=chosen, verify=VerifySettings(sha256="show"))
    assert report.to_json()["sha256"] == sha256_of(checkpoint / "policies" / "p1")
    two = SelectSettings(policy_ids=("p0", "p1"))
    with pytest.raises(ConfigError, match=r"verify\.sha256 is one value"):
        run_task("verify", source=source, select=two, verify=VerifySettings(sha256="show"))


def test_the_number_of_a_model_file(run_task: Runner, sb3_zip: Path) -> None:
    source, expected = SourceSettings(path=str(sb3_zip)), sha256sum(sb3_zip)
    assert run_task("verify", source=source, verify=VerifySettings(sha256="show")).to_json()["sha256"] == expected
    assert run_task("verify", source=source, verify=VerifySettings(sha256=expected)).ok
    report = run_task("verify", source=source, verify=VerifySettings(sha256="0" * 64))
    assert report.exit_code == 1
    assert [check["verdict"] for check in report.to_json()["checks"]] == ["ok", "another"]
    assert report.to_json()["checks"][1]["found"] == expected


def test_artifacts_have_several_numbers(run_task: Runner, artifacts: Path) -> None:
    with pytest.raises(ConfigError, match=r"artifact\.json"):
        run_task("verify", source=SourceSettings(path=str(artifacts)), verify=VerifySettings(sha256="show"))


def test_identical_policies_are_noted_everywhere(run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    made = run_task(
        "subset_restore",
        source=source,
        base=BaseSettings(path=str(checkpoint)),
        select=SelectSettings(policy_ids=("p0",)),
        rename={"p0": "p4"},
        checkpoint=CheckpointSettings(path="pool"),
    )
    pool = SourceSettings(path="pool")
    saved = run_task("save", source=pool, checkpoint=CheckpointSettings(path="copy"))
    for report in (made, saved, run_task("info", source=pool), run_task("verify", source=pool)):
        assert "note: policies/p0 = p4: identical weights" in shown(report).splitlines()
        found = report.to_json()
        assert {**found, **found.get("checkpoint", {})}["identical"] == [["policies/p0", "policies/p4"]]
    alone = run_task("info", source=pool, select=SelectSettings(policy_ids=("p0", "p1")))
    assert alone.to_json()["identical"] == []
