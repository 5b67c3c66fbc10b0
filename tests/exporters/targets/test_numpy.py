"""The numpy folder, run by the program inside it in a Python that has numpy alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.exporters.targets import numpy as target
from tests.conformance.target_suite import TargetSuite, Written

Array = np.ndarray[Any, Any]
FILES = ["policy.json", "policy.npz", "policy_np.py"]

PROGRAM = """
import sys
sys.dont_write_bytecode = True
for name in ("torch", "rlpipe", "onnxruntime"):
    sys.modules[name] = None
sys.path.extend(sys.argv[3:])
sys.path.insert(0, sys.argv[1])
import numpy as np
from policy_np import load
with np.load(sys.argv[2]) as feeds:
    found = load(sys.argv[1] + "/policy.npz")({name: feeds[name] for name in feeds.files})
np.savez(sys.argv[2], **found)
"""


class TestNumpy(TargetSuite):
    target_id = "numpy"

    def act(self, file: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
        exchange = file.parent.with_suffix(".exchange.npz")
        np.savez(exchange, allow_pickle=False, **dict(feeds))
        search = [entry for entry in sys.path if entry.endswith("site-packages")]
        command = [sys.executable, "-I", "-c", PROGRAM, str(file.parent), str(exchange), *search]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with np.load(exchange) as archive:
            return {name: archive[name] for name in archive.files}

    def essentials(self, file: Path) -> dict[str, str]:
        return dict(json.loads((file.parent / "policy.json").read_text())["essentials"])

    def test_it_writes_one_file(self, written: Written) -> None:
        """Three: the weights, the operations, and the program."""
        assert sorted(path.name for path in written.file.parent.iterdir()) == FILES

    def test_names_dtypes_and_the_symbolic_batch(self, written: Written) -> None:
        graph = json.loads((written.file.parent / "policy.json").read_text())
        for side, specs in (
            ("inputs", written.example.signature.inputs),
            ("outputs", written.example.signature.outputs),
        ):
            found = [(put["name"], put["dtype"], put["shape"]) for put in graph[side]]
            assert found == [(spec.name, spec.dtype, [-1, *spec.shape]) for spec in specs]

    def test_every_operation_stands_on_its_line(self, written: Written) -> None:
        lines = (written.file.parent / "policy.json").read_text().splitlines()
        for operation in json.loads("\n".join(lines))["operations"]:
            assert sum(line.strip(" ,") == json.dumps(operation) for line in lines) == 1

    def test_weights_are_plain_arrays(self, written: Written) -> None:
        with zipfile.ZipFile(written.file) as packed:
            assert {info.date_time for info in packed.infolist()} <= {(1980, 1, 1, 0, 0, 0)}
        with np.load(written.file, allow_pickle=False) as archive:
            assert all(archive[name].dtype.kind in "biuf" for name in archive.files)


def test_all_files_are_the_same_again(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        TestNumpy.write("normalised", made(tmp_path / folder))
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_loading_leaves_nothing_behind(tmp_path: Path) -> None:
    file = TestNumpy.write("greedy", tmp_path).file
    target.load(str(file))({"obs": np.zeros((2, 4), np.float32)})
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_the_program_is_a_page_or_two_and_imports_numpy_alone(tmp_path: Path) -> None:
    text = (TestNumpy.write("greedy", tmp_path).file.parent / "policy_np.py").read_text()
    assert len(text.splitlines()) < 200
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imported if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module).partition(".")[0] for node in imported if isinstance(node, ast.ImportFrom)}
    assert names == {"json", "math", "os", "numpy"}


def test_it_warns_of_nothing(tmp_path: Path) -> None:
    """Overflow on the way to a limit is no news; pytest makes errors of warnings."""
    step = target.load(str(TestNumpy.write("normalised", tmp_path).file))
    huge = np.full((3, 24), np.float32(3e38))
    huge[1] = np.inf
    huge[2] = np.nan
    assert step({"obs": huge})["action"].shape == (3, 6)


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({"obs": np.zeros((2, 4), np.float64)}, r"obs: expected float32 \(batch, 4\), found float64 \(2, 4\)"),
        ({"obs": np.zeros((2, 5), np.float32)}, r"obs: expected float32 \(batch, 4\), found float32 \(2, 5\)"),
        ({"obs": np.zeros(4, np.float32)}, r"obs: expected float32 \(batch, 4\), found float32 \(4,\)"),
        ({"state": np.zeros((2, 4), np.float32)}, r"expected the inputs \['obs'\], found \['state'\]"),
    ],
)
def test_other_inputs_are_refused_in_words(feeds: dict[str, Array], text: str, tmp_path: Path) -> None:
    step = target.load(str(TestNumpy.write("greedy", tmp_path).file))
    with pytest.raises(ValueError, match=text):
        step(feeds)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
