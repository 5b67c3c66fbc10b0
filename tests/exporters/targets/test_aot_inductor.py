"""Compiled packages, run by torch's own loader; compiling takes most of a minute, so there are two."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.file_checks import _private
from rlpipe.exporters.target import resolve
from rlpipe.exporters.targets import aot_inductor
from rlpipe.exporters.verify import BATCHES, verify
from tests.conformance.target_suite import CASES, LARGE
from tests.exporters.graphs import Example
from tests.exporters.steps import Step

Array = np.ndarray[Any, Any]
SETTINGS = {"rlpipe.fingerprint": "0123456789ab"}


@pytest.fixture(scope="module", params=LARGE)
def example(request: pytest.FixtureRequest) -> Example | Step:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def file(example: Example | Step, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / aot_inductor.FILE_NAME
    with captured():
        aot_inductor.export(example.traced(), path, aot_inductor.Options(), SETTINGS)
    return path


@pytest.mark.slow
def test_torch_alone_acts_like_the_graph_at_every_batch_size(file: Path, example: Example | Step) -> None:
    loader = torch._C._aoti.AOTIModelPackageLoader(str(file), "model", False, 1, -1)  # noqa: FBT003
    truth = example.reference()
    for batch in BATCHES:
        inputs = [torch.tensor(array[-batch:]) for array in truth.observations.arrays.values()]
        for spec, output in zip(example.signature.outputs, loader.run(inputs), strict=True):
            np.testing.assert_allclose(output.numpy(), truth.actions[spec.name][-batch:], atol=1e-5)
    facts = json.loads(loader.get_metadata()["rlpipe"])
    assert facts["essentials"] == SETTINGS
    assert loader.get_metadata()["AOTI_CPU_ISA"] == "AVX2"


@pytest.mark.slow
def test_it_remembers_over_episodes(file: Path, example: Example | Step) -> None:
    if not isinstance(example, Step):
        pytest.skip("has no memory")
    fed = example.draw(200, 3, seed=11)
    found, expected = example.played(aot_inductor.load(str(file)), fed), example.played(example.compute, fed)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_verification_agrees_and_declares_every_wrong_input(file: Path, example: Example | Step) -> None:
    found = verify(aot_inductor, file, example.signature, example.reference(), Tolerance(atol=1e-5, rtol=1e-5), [0, 1])
    assert (found.status, found.message) == ("ok", "")
    (contract,) = [level for level in found.levels if level.name == "L2 contract"]
    assert contract.status == "ok"
    answers = {case: one["file"].partition(":")[0] for case, one in contract.facts.items()}
    answered = {case for case, answer in answers.items() if answer != "refuses" and not case.startswith("NaN of ")}
    assert answered <= {"no choice allowed", "any memory at an episode start"}


@pytest.mark.slow
def test_nothing_of_the_machine_is_inside(file: Path) -> None:
    private = [text.encode() for text in [*_private(file.parent), "torchinductor", sys.prefix]]
    with zipfile.ZipFile(file) as packed:
        assert [name for name in packed.namelist() if name.endswith(".cpp")] == []
        for name in packed.namelist():
            assert [text for text in private if text in packed.read(name)] == [], name


@pytest.mark.slow
def test_loading_needs_no_compiler(file: Path) -> None:
    code = (
        "import inspect, sys, time; from rlpipe.exporters.targets import aot_inductor\n"
        "import torch; started = time.perf_counter(); aot_inductor.load(sys.argv[1])\n"
        "print(time.perf_counter() - started)"
    )
    environment = {**os.environ, "PATH": "", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 2


def test_without_a_compiler_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("g++") is None or resolve("aot_inductor").missing_dependency() is None
    monkeypatch.setenv("PATH", "")
    assert "apt-get install g++" in str(aot_inductor.missing_dependency())


def test_on_another_processor_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert "arm64" in str(aot_inductor.missing_dependency())
