"""`example.cpp` compiled and run against the ONNX Runtime library of the Python package.

That package has no headers. Where ONNX Runtime's own are found (in `ONNXRUNTIME_INCLUDE`, or where Debian puts them)
they are used; everywhere else the few declarations in `onnxruntime_stub`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rlpipe.exporters.companions.example_cpp import example_cpp
from rlpipe.exporters.golden import read_golden
from tests.exporters.folders import folder_of
from tests.exporters.memory_graphs import counter, lstm, masked_choices

HEADER = "onnxruntime_cxx_api.h"
PLACES = (os.environ.get("ONNXRUNTIME_INCLUDE", ""), "/usr/include/onnxruntime", "/usr/local/include/onnxruntime")
INCLUDE = next((place for place in PLACES if place and (Path(place) / HEADER).is_file()), None)
STUB = Path(__file__).parent / "onnxruntime_stub"
GCC = shutil.which("g++")


def library(place: Path) -> Path:
    """The library under the names that a linker and a loader look for."""
    (file,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (place / name).symlink_to(file)
    return place


def answers(folder: Path, build: Path) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """What the program prints, by name: (steps, n)."""
    assert GCC is not None
    shared = library(build)
    program = build / "example"
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE or STUB}"]
    link = [f"-L{shared}", "-lonnxruntime", f"-Wl,-rpath,{shared}"]
    subprocess.run([GCC, *options, str(folder / "example.cpp"), *link, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, list[list[float]]] = {}
    for line in done.stdout.splitlines():
        name, *values = line.split()
        found.setdefault(name, []).append([float(value) for value in values])
    return {name: np.array(rows) for name, rows in found.items()}


@pytest.mark.skipif(GCC is None, reason="needs g++")
@pytest.mark.parametrize("make", [lstm, counter])
def test_it_carries_the_memory(make: object, tmp_path: Path) -> None:
    assert callable(make)
    folder = folder_of(make(), tmp_path / "p1", "onnx")
    (tmp_path / "build").mkdir()
    found = answers(folder, tmp_path / "build")
    assert list(found) == ["action"]
    expected = read_golden(folder).run_outputs["action"][:3, 0]
    np.testing.assert_allclose(found["action"], expected.reshape(3, -1), atol=1e-5)
    assert np.ptp(expected, axis=0).any(), "the steps differ"


@pytest.mark.skipif(GCC is None, reason="needs g++")
def test_it_feeds_masks_and_noise_and_reads_what_else_there_is(tmp_path: Path) -> None:
    folder = folder_of(masked_choices(), tmp_path / "p1", "onnx")
    (tmp_path / "build").mkdir()
    found = answers(folder, tmp_path / "build")
    expected = read_golden(folder).outputs
    np.testing.assert_array_equal(found["action"][0], expected["action"][0])
    np.testing.assert_allclose(found["logits"][0], expected["logits"][0], atol=1e-5)


def test_a_profile_that_renames_tensors_has_none(tmp_path: Path) -> None:
    folder = folder_of(counter(), tmp_path / "p1", "onnx")
    record = json.loads((folder / "artifact.json").read_text())
    assert example_cpp(record, read_golden(folder))
    record["targets"]["onnx"]["options"]["profile"]["inputs"] = {"obs": {"name": "observation"}}
    assert example_cpp(record, read_golden(folder)) is None
