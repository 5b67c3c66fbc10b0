"""The folder of a policy with memory, mask or noise alone, in a Python that has neither rlpipe nor torch."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporters.folders import folder_of
from tests.exporters.memory_graphs import STEPPING, lstm, masked_choices

ALONE = (
    "import sys, runpy; sys.modules.update({'rlpipe': None, 'torch': None}); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def run(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", ALONE, str(script), *words]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(lstm(), tmp_path_factory.mktemp("made") / "p1", "numpy", "onnx")


def changed(folder: Path, key: str, place: Path) -> Path:
    """A copy whose golden vectors differ in one number, with a record that knows of it."""
    shutil.copytree(folder, place)
    with np.load(place / "golden.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays[key][7].reshape(-1)[1] += 1e-3
    np.savez(place / "golden.npz", allow_pickle=False, **arrays)
    record = json.loads((place / "artifact.json").read_text())
    record["files"] = [file for file in record["files"] if file["path"] != "golden.npz"]
    (place / "artifact.json").write_text(json.dumps(record))
    return place


def test_verify_replays_steps_with_the_artifacts_own_memory(remembering: Path) -> None:
    done = run(remembering / "verify.py")
    assert (done.returncode, done.stderr) == (0, "")
    for line in done.stdout.splitlines():
        assert " ok       64 golden vectors and 40 steps of 4 with its own memory, largest difference " in line


@pytest.mark.parametrize(
    ("key", "said"),
    [("sequence/outputs/action", "step 8 with its own memory: action: 1 of 4"), ("outputs/state.1.next", "1 of 64")],
)
def test_a_step_that_differs_is_found(remembering: Path, key: str, said: str, tmp_path: Path) -> None:
    done = run(changed(remembering, key, tmp_path / "p1") / "verify.py")
    assert done.returncode == 1
    assert said in done.stdout


def _emptied(arrays: Any) -> None:
    arrays.update({name: array[:0] for name, array in arrays.items() if not name.startswith("sequence/")})


def _fewer(arrays: Any) -> None:
    arrays.update({name: array[:3] for name, array in arrays.items() if not name.startswith("sequence/")})


def _one_step(arrays: Any) -> None:
    arrays.update({name: array[:1] for name, array in arrays.items() if name.startswith("sequence/")})


def _one_row(arrays: Any) -> None:
    arrays.update({name: array[:, :1] for name, array in arrays.items() if name.startswith("sequence/")})


def _no_sequence(arrays: Any) -> None:
    for name in [name for name in arrays if name.startswith("sequence/")]:
        del arrays[name]


def _rehashed(place: Path) -> None:
    """A record whose hashes fit the files that are there."""
    record = json.loads((place / "artifact.json").read_text())
    for file in record["files"]:
        file["sha256"] = hashlib.sha256((place / file["path"]).read_bytes()).hexdigest()
    (place / "artifact.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (_emptied, "golden.npz: 0 of inputs/obs, not 64"),
        (_fewer, "golden.npz: 3 of inputs/obs, not 64"),
        (_one_step, "golden.npz: [1, 4] of sequence/inputs/obs, not [40, 4]"),
        (_one_row, "golden.npz: [40, 1] of sequence/inputs/obs, not [40, 4]"),
        (_no_sequence, "golden.npz: [0] of sequence/inputs/obs, not [40, 4]"),
    ],
)
def test_fewer_golden_vectors_prove_nothing(
    remembering: Path, cut: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    place = tmp_path / "p1"
    shutil.copytree(remembering, place)
    with np.load(place / "golden.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    cut(arrays)
    np.savez(place / "golden.npz", allow_pickle=False, **arrays)
    _rehashed(place)
    done = run(place / "verify.py")
    assert done.returncode == 1
    assert done.stdout.count(said) == 2


@pytest.mark.parametrize("part", ["count", "sequence"])
def test_vectors_for_other_languages_are_those_for_python(remembering: Path, part: str, tmp_path: Path) -> None:
    place = tmp_path / "p1"
    shutil.copytree(remembering, place)
    told = json.loads((place / "golden.json").read_text())
    (told if part == "count" else told["sequence"])["outputs"]["action"][0][0] += 1e-3
    (place / "golden.json").write_text(json.dumps(told))
    _rehashed(place)
    done = run(place / "verify.py")
    assert done.returncode == 1
    assert "action is not as in golden.npz" in done.stdout


def test_the_example_carries_the_memory_and_puts_it_back(remembering: Path) -> None:
    text = (remembering / "example.py").read_text()
    assert "episode_start is True at the" in text
    assert max(map(len, text.splitlines())) <= 120
    done = run(remembering / "example.py")
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(remembering / "golden.npz") as archive:
        expected = archive["sequence/outputs/action"][:, 0]
        assert archive["sequence/inputs/episode_start"][1:, 0].any(), "an episode begins among the steps"
    lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    assert {name for _, name, *_ in lines} == {"action"}
    found = [np.fromstring(rest.strip("[] \n"), sep=" ") for *_, rest in lines]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_example_says_what_masks_and_noise_are(tmp_path: Path) -> None:
    folder = folder_of(masked_choices(), tmp_path / "p1", "numpy")
    text = (folder / "example.py").read_text()
    assert "# action_mask: True where a choice is allowed" in text
    assert "rng.random(shape)" in text
    done = run(folder / "example.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert run(folder / "verify.py").returncode == 0


@pytest.mark.parametrize("name", STEPPING)
def test_the_folder_of_each_kind_proves_itself(name: str, tmp_path: Path) -> None:
    folder = folder_of(STEPPING[name](), tmp_path / "p1", "numpy")
    done = run(folder / "verify.py", "numpy")
    assert (done.returncode, done.stderr) == (0, "")
    assert run(folder / "example.py").returncode == 0


def test_numbers_without_bounds_are_judged_by_their_own_size(tmp_path: Path) -> None:
    """Among logits of a thousand a small one has to be right all the same."""
    folder = folder_of(masked_choices(), tmp_path / "p1", "numpy")
    with np.load(folder / "golden.npz") as archive:
        logits = archive["outputs/logits"]
        assert np.abs(logits).max() > 1e3
        assert np.abs(logits[7]).max() < 100
    assert float(run(folder / "verify.py").stdout.split()[-1]) < 1e-4
    done = run(changed(folder, "outputs/logits", tmp_path / "changed") / "verify.py")
    assert done.returncode == 1
    assert "logits: 1 of 64" in done.stdout
