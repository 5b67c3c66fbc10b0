"""The folder alone, in a Python that has neither rlpipe nor, where the target needs none, torch."""

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
from rlpipe.exporters.export import Candidate, Order, export_policies
from rlpipe.exporters.labels import Labels
from rlpipe.exporters.targets import onnx, torch_export
from rlpipe.exporters.worker_pool import WorkerPool
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Dict, Discrete
from tests.exporters.graphs import unbounded

SPACE = Dict({"mode": Discrete(3, start=1), "vector": unbounded(4)})
LABELS = Labels(
    names={"obs.vector": ("x", "v", "angle", "rate"), "action": ("hip", "knee")},
    metadata={"kp": [20.0, 30.0], "rate_hz": 50, "robot": "go1"},
)
# Neither rlpipe nor torch can be imported, wherever they lie.
ALONE = "import sys, runpy; sys.modules.update({name: None for name in %r}); sys.argv = sys.argv[1:]; "
RUN = "runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pool: WorkerPool) -> Path:
    torch.manual_seed(0)
    policy = PolicySpec.default("rlpipe.modules.torch.ppo.PPOModule", SPACE, Box.uniform(-2, 2, (2,))).build()
    observations = SPACE.sample(50, np.random.default_rng(0))
    candidate = Candidate(policy_id="p1", snapshot=snapshot_of(policy), recorded=observations)
    targets = {"onnx": onnx.Options(), "torch_export": torch_export.Options()}
    order = Order(targets=targets, out_dir=tmp_path_factory.mktemp("made"), labels=LABELS)
    (report,) = export_policies([candidate], order, pool=pool)
    assert report.ok
    assert report.folder
    return report.folder


def run(script: Path, *words: str, blocked: tuple[str, ...] = ("rlpipe", "torch")) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", ALONE % (blocked,) + RUN, str(script), *words]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)


def test_verify_runs_what_is_installed(folder: Path) -> None:
    done = run(folder / "verify.py")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("onnx           ok       64 golden vectors, largest difference ")
    assert second.startswith("torch_export   not run  its runtime is not installed")


def test_a_target_that_is_named_has_to_run(folder: Path) -> None:
    assert run(folder / "verify.py", "torch_export").returncode == 1
    assert run(folder / "verify.py", "nothing").returncode == 1
    done = run(folder / "verify.py", "torch_export", "onnx", blocked=("rlpipe",))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" ok ") == 2


def test_a_copied_folder_proves_itself_and_its_damage(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "on the robot"
    shutil.copytree(folder, place)
    assert run(place / "verify.py").returncode == 0
    file = place / "onnx" / "policy.onnx"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    done = run(place / "verify.py")
    assert done.returncode == 1
    assert "onnx/policy.onnx was changed or damaged" in done.stdout
    (place / "golden.json").unlink()
    assert "golden.json: is missing" in run(place / "verify.py").stderr


def test_wrong_answers_are_found(folder: Path, tmp_path: Path) -> None:
    """Hashes that were made to fit do not help: the numbers differ."""
    place = tmp_path / "p1"
    shutil.copytree(folder, place)
    with np.load(place / "golden.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["outputs/action"][7, 1] += 1e-3
    np.savez(place / "golden.npz", allow_pickle=False, **arrays)
    record = json.loads((place / "artifact.json").read_text())
    record["files"] = [file for file in record["files"] if file["path"] != "golden.npz"]
    (place / "artifact.json").write_text(json.dumps(record))
    done = run(place / "verify.py")
    assert done.returncode == 1
    assert "action: 1 of 64 golden vectors differ, by up to 1.0e-03" in done.stdout


def test_the_example_acts(folder: Path) -> None:
    done = run(folder / "example.py")
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(folder / "golden.npz") as archive:
        expected = archive["outputs/action"][0]
    name, dtype, rest = done.stdout.split(maxsplit=2)
    assert (name, dtype) == ("action", "float32")
    np.testing.assert_allclose(np.fromstring(rest.strip("[] \n"), sep=" "), expected, atol=1e-4)


def test_the_example_refuses_by_name(folder: Path) -> None:
    text = (folder / "example.py").read_text()
    assert '"angle"' in text
    wrong = folder.parent / "wrong"
    shutil.copytree(folder, wrong)
    (wrong / "example.py").write_text(text.replace("[:1]", "[0]"))
    done = run(wrong / "example.py")
    assert done.returncode == 1
    assert "obs.vector: expected float32 ['batch', 4], got float32 [4]" in done.stderr


@pytest.mark.parametrize("name", ["verify.py", "example.py", "example.cpp", "REPORT.md", "artifact.json"])
def test_nothing_beside_names_rlpipes_house(folder: Path, name: str) -> None:
    text = (folder / name).read_text()
    assert "import rlpipe" not in text
    assert "from rlpipe" not in text
    assert "noqa" not in text
    assert str(folder.parent) not in text


def test_the_record_holds_all_there_is_to_know(folder: Path) -> None:
    record: dict[str, Any] = json.loads((folder / "artifact.json").read_text())
    assert record["names"] == {"obs.vector": ["x", "v", "angle", "rate"], "action": ["hip", "knee"]}
    assert record["metadata"] == {"kp": [20.0, 30.0], "rate_hz": 50, "robot": "go1"}
    assert {file["path"] for file in record["files"]} == {
        "REPORT.md", "example.cpp", "example.py", "golden.json", "golden.npz", "verify.py",
    }  # fmt: skip
    levels = record["targets"]["onnx"]["levels"]
    assert {name: level["status"] for name, level in levels.items()} == {
        "L0 file": "ok", "L1 numbers": "ok", "L2 contract": "ok", "L3 loop": "skipped", "L4 speed": "info",
    }  # fmt: skip
    assert record["agreement"]["onnx"]["torch_export"] < 1e-5
    statistics = record["observation_statistics"]["obs.vector"]
    assert statistics["count"] == 50
    assert np.array(statistics["correlation"]).shape == (4, 4)


def test_the_page_has_its_tables(folder: Path) -> None:
    page = (folder / "REPORT.md").read_text()
    for heading in ("Targets", "Proof", "Agreement", "Latency", "Wrong inputs", "Observations met in the environment"):
        assert f"\n## {heading}\n" in page
    assert "| `action` | 1 | knee |" in page
    widths = [line.count("|") for line in page.split("## Proof")[1].split("##")[0].splitlines() if line]
    assert len(set(widths)) == 1
