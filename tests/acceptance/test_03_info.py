"""task=info: what is inside, without torch."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import h5py
import pytest

from tests.acceptance.program import FINGERPRINT, Run, leaves, roles, run_program


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`python -m rlpipe` and nothing else, in a folder that holds nothing."""
    folder = tmp_path_factory.mktemp("info")
    return run_program(folder=folder, flags=("-X", "importtime")).succeeded()


def imported(run: Run) -> set[str]:
    """Names of everything that Python imported in a run under -X importtime."""
    return {line.rsplit("|", 1)[1].strip() for line in run.err.splitlines() if line.startswith("import time:")}


def test_torch_is_not_imported(info: Run) -> None:
    names = imported(info)
    assert "rlpipe" in names, "the probe itself must work"
    assert {name for name in names if name.split(".")[0] == "torch"} == set()


def test_it_names_the_components_and_what_they_are(info: Run) -> None:
    assert "SAMPLE" in info.out.strip().splitlines()[0]
    wanted = (
        "p0",
        "p1",
        "p2",
        "PPOModule",
        "SACModule",
        "DQNModule",
        "Box",
        "Discrete",
        "float32",
        "inference",
        "training",
    )
    assert [word for word in wanted if word not in info.out] == []
    assert [word for word in ("argmax", "unscale") if word not in info.out] == [], "the stages"
    assert re.search(r"format\D{0,20}\b1\b", info.out, re.IGNORECASE | re.DOTALL)
    assert "stable_baselines3" in info.out.lower().replace("-", "_"), "where it came from"
    assert len(set(re.findall(FINGERPRINT, info.out))) >= 3


def test_arrays_parameters_and_bytes_per_role_are_counted(info: Run, sample: Path) -> None:
    shown = set(leaves(info.report))
    printed = {int(text.replace(",", "")) for text in re.findall(r"\d+(?:,\d{3})*", info.out)}
    for policy in ("p0", "p1", "p2"):
        component = sample / "policies" / policy
        arrays: Counter[str] = Counter()
        parameters: Counter[str] = Counter()
        with h5py.File(component / "state.h5", "r") as file:
            for key, role in roles(component).items():
                arrays[role] += 1
                parameters[role] += file[key].size
        for role in ("inference", "training"):
            assert arrays[role] in shown
            assert parameters[role] in shown, f"{policy}: {parameters[role]} {role} parameters"
            assert parameters[role] in printed, f"{policy}: {parameters[role]} {role} parameters"


def test_a_component_copied_away_stands_alone(info: Run, sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample / "policies" / "p1", tmp_path / "walker")
    run = run_program("task=info", "source.path=walker", folder=tmp_path).succeeded()
    alone = set(re.findall(FINGERPRINT, run.out))
    assert alone
    assert alone <= set(re.findall(FINGERPRINT, info.out))
    assert "SAMPLE" not in run.out


def test_a_stable_baselines3_zip_is_shown_without_torch(foreign: Path, tmp_path: Path) -> None:
    path = foreign / "sac" / "model.zip"
    run = run_program("task=info", f"source.path={path}", folder=tmp_path, flags=("-X", "importtime")).succeeded()
    assert "SACModule" in run.out
    assert re.search(FINGERPRINT, run.out)
    assert {
        name for name in imported(run) if name.split(".")[0] in ("torch", "stable_baselines3", "cloudpickle")
    } == set()


def test_checkpoint_path_is_short_for_source_path(sample: Path, tmp_path: Path) -> None:
    short = run_program("task=info", f"checkpoint.path={sample}", folder=tmp_path).succeeded()
    assert re.search(FINGERPRINT, short.out)
    both = run_program("task=info", f"checkpoint.path={sample}", f"source.path={sample}", folder=tmp_path)
    assert both.failed(1, 2).code == 2


def test_help_is_quick_and_needs_no_torch(tmp_path: Path) -> None:
    run = run_program("--help", folder=tmp_path, flags=("-X", "importtime")).succeeded()
    assert "torch" not in imported(run)
    quickest = min(run_program("--help", folder=tmp_path).seconds for _ in range(2))
    assert quickest < 2.0


def test_the_sample_is_small_trained_and_says_so(sample: Path) -> None:
    assert sum(path.stat().st_size for path in sample.rglob("*") if path.is_file()) < 1_000_000
    texts = [json.loads(path.read_text()) for path in sample.rglob("manifest.json")]
    words = [leaf for text in texts for leaf in leaves(text)]
    assert "returns" in words
    for policy in ("p0", "p1", "p2"):
        assert set(roles(sample / "policies" / policy).values()) == {"inference", "training"}
