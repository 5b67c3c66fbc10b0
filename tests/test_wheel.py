"""The built wheel, installed alone and run from another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", name="installed")
def _installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but rlpipe; its dependencies come from the interpreter's own environment."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(command: list[str], *, installed: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_it_holds_the_configs_and_the_sample_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    configs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "conf").rglob("*.yaml")}
    assert {f"rlpipe/{config}" for config in configs} == {name for name in names if name.endswith(".yaml")}
    assert "rlpipe/sample/checkpoint/manifest.json" in names
    assert "rlpipe/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"rlpipe"}


def test_it_is_the_installed_one_that_runs(installed: Path, tmp_path: Path) -> None:
    done = run([sys.executable, "-c", "import rlpipe; print(rlpipe.__file__)"], installed=installed, cwd=tmp_path)
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_the_script_tells_about_the_sample(installed: Path, tmp_path: Path) -> None:
    script = installed / "bin" / "rlpipe"
    done = run([sys.executable, str(script), "task=info"], installed=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SAMPLE")


def test_one_policy_of_the_sample_is_exported(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlpipe", "task=export", "+policy_ids=[p1]"]
    done = run(command, installed=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("SAMPLE")
    files = {path.name for path in tmp_path.glob("outputs/runs/**/p1/*/policy.*")}
    assert files == {"policy.onnx", "policy.pt2"}
