"""README command one: a trained policy to verified artifacts."""

import getpass
import json
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.acceptance.program import FINGERPRINT, ROOT, Run, leaves, run_program, values_at

Array = np.ndarray[Any, np.dtype[Any]]
BATCHES = (1, 2, 7, 33, 256)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The card's line, in a folder that holds nothing."""
    return run_program("task=export", "+policy_ids=[p1]", folder=tmp_path_factory.mktemp("export")).succeeded()


@pytest.fixture(scope="module")
def artifacts(exported: Run) -> tuple[Path, Path]:
    """The ONNX file and the torch.export file."""
    (onnx,), (program,) = exported.folder.rglob("*.onnx"), exported.folder.rglob("*.pt2")
    return onnx, program


def pendulum_observations() -> Array:
    """Mixed scales: inside the observation space, near zero and far outside."""
    rng = np.random.default_rng(7)
    scales = 10.0 ** rng.uniform(-3, 3, size=(256, 1))
    return (rng.standard_normal((256, 3)) * scales).astype(np.float32)


def actions_by_hand(component: Path, observations: Array) -> Array:
    """The deterministic SAC policy in float64 NumPy: ReLU layers, mean, tanh, times Pendulum's torque bound of 2."""
    with h5py.File(component / "state.h5", "r") as file:
        layers = sorted(file["pi_encoder"], key=int)
        hidden = observations.astype(np.float64)
        for layer in layers:
            hidden = np.maximum(
                hidden @ file["pi_encoder"][layer]["weight"][()].T + file["pi_encoder"][layer]["bias"], 0
            )
        mean = hidden @ file["pi/mean/weight"][()].T + file["pi/mean/bias"][()]
    return np.asarray(2.0 * np.tanh(mean))


def run_outside(folder: Path, observations: Array, paths: tuple[Path, ...]) -> dict[str, Array]:
    """What other programs get from the artifacts, per file index and batch size."""
    np.savez(folder / "feeds.npz", allow_pickle=False, **{str(batch): observations[:batch] for batch in BATCHES})
    script = Path(__file__).with_name("run_artifacts.py")
    command = [
        sys.executable,
        "-I",
        str(script),
        str(folder / "feeds.npz"),
        str(folder / "results.npz"),
        *map(str, paths),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "results.npz") as stored:
        return {name: stored[name] for name in stored.files}


def test_it_says_that_the_sample_was_taken(exported: Run) -> None:
    assert "SAMPLE" in exported.out.strip().splitlines()[0]
    assert exported.out.count("SAMPLE") >= 2, "the first line and the table"
    assert re.search("sample", json.dumps(exported.report), re.IGNORECASE)


def test_the_table_has_what_people_need(exported: Run, artifacts: tuple[Path, Path]) -> None:
    heads = ("policy", "target", "file", "size", "difference", "verdict", "fingerprint")
    assert [head for head in heads if head not in exported.out.lower()] == []
    for target, path in zip(("onnx", "torch_export"), artifacts, strict=True):
        (row,) = [line for line in exported.out.splitlines() if path.name in line]
        assert "p1" in row
        assert target in row
        assert re.search(FINGERPRINT, row)
        assert re.search(r"\d+(\.\d+)?\s*[kK]i?B", row), "the size"
        assert re.search(r"\d(\.\d+)?e[-+]\d+|\b0(\.0+)?\b", row), "the largest difference"
    assert "…" not in exported.out, "nothing in the table may be cut"


def test_the_report_for_programs_agrees(exported: Run, artifacts: tuple[Path, Path]) -> None:
    words = {leaf for leaf in leaves(exported.report) if isinstance(leaf, str)}
    printed = set(re.findall(FINGERPRINT, exported.out))
    assert len(printed) == 1, "one policy, one fingerprint"
    assert printed <= words
    assert {"p1", "onnx", "torch_export"} <= words
    assert {path.stat().st_size for path in artifacts} <= set(leaves(exported.report))


def test_onnx_and_torch_export_act_like_the_trained_policy(
    artifacts: tuple[Path, Path], sample: Path, tmp_path: Path
) -> None:
    observations = pendulum_observations()
    expected = actions_by_hand(sample / "policies" / "p1", observations)
    results = run_outside(tmp_path, observations, artifacts)
    assert len(results) == 2 * len(BATCHES)
    for name, actions in results.items():
        batch = int(name.split("/")[1])
        assert actions.shape == (batch, 1)
        assert actions.dtype == np.float32
        np.testing.assert_allclose(actions, expected[:batch], rtol=0, atol=1e-5)


def test_the_card_beside_the_artifacts_tells_what_they_are(exported: Run, artifacts: tuple[Path, Path]) -> None:
    (path,) = exported.folder.rglob("artifact.json")
    card = json.loads(path.read_text())
    words = {str(leaf) for leaf in leaves(card)}
    (printed,) = set(re.findall(FINGERPRINT, exported.out))
    assert printed in words
    assert {"obs", "action", "float32", "onnx", "torch_export"} <= words
    assert any(re.fullmatch("[0-9a-f]{64}", word) for word in words), "the hash of the source"
    assert path.parent in artifacts[0].parents
    assert path.parent in artifacts[1].parents


def inner_files(path: Path) -> Iterator[bytes]:
    """The file itself, or what is packed in it."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            yield from (packed.read(name) for name in packed.namelist())
    yield path.read_bytes()


def test_artifacts_hold_no_path_user_or_host(exported: Run, artifacts: tuple[Path, Path]) -> None:
    (card,) = exported.folder.rglob("artifact.json")
    private = [str(exported.folder), str(ROOT), sys.prefix, str(Path.home()) + "/", f"/{getpass.getuser()}/"]
    host = socket.gethostname()
    private += [host] if len(host) > 5 else []
    for path in (*artifacts, card):
        for data in inner_files(path):
            assert [text for text in private if text.encode() in data] == [], path


def test_the_three_ways_to_name_a_policy_are_one(exported: Run) -> None:
    composed = [
        run_program("task=export", f"{plus}policy_ids=[p1]", "--cfg", "job", folder=exported.folder).succeeded().out
        for plus in ("", "+", "++")
    ]
    assert composed[0] == composed[1] == composed[2]
    assert "p1" in composed[0]


@pytest.mark.slow
def test_another_way_exports_the_same(exported: Run, tmp_path: Path) -> None:
    again = run_program("task=export", "++policy_ids=[p1]", "export=[onnx]", folder=tmp_path).succeeded()
    assert set(re.findall(FINGERPRINT, again.out)) == set(re.findall(FINGERPRINT, exported.out))
    (first,), (second,) = exported.folder.rglob("*.onnx"), tmp_path.rglob("*.onnx")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_a_tolerance_that_cannot_be_met_is_no_success(tmp_path: Path, sample: Path) -> None:
    """One failing target is reported, not committed, and does not stop the other one."""
    run = run_program(
        "task=export", f"source.path={sample}", "policy_ids=[p1]", "export.onnx.atol=1e-30", folder=tmp_path
    ).failed(1)
    assert list(tmp_path.rglob("*.onnx")) == []
    assert len(list(tmp_path.rglob("*.pt2"))) == 1
    assert values_at(run.report, "status") != []
