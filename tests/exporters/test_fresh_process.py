"""What runs in the fresh process has neither rlpipe nor what the target must do without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.fresh_process import Replayed, replay_artifact

Load = Callable[[str], Any]
FEEDS: dict[str, np.ndarray[Any, Any]] = {"b": np.arange(6, dtype=np.float32).reshape(3, 2), "a.x": np.arange(3)}
CALLS = [(0, 1), (1, 2), (2, 4)]


@dataclass
class Numpy:
    """A target that needs numpy only."""

    load: Load
    BLOCKED: tuple[str, ...] = ("torch",)
    FILE_NAME: str = "policy.txt"
    LOADING_RUNS_CODE: bool = False
    Options: type[Any] = object

    def missing_dependency(self) -> str | None:
        return None

    def export(self, graph: Any, path: Path, options: Any, essentials: Mapping[str, str]) -> None:
        raise NotImplementedError


def replayed(load: Load, tmp_path: Path) -> Replayed:
    file = tmp_path / "policy.txt"
    file.write_text("2.5")
    return replay_artifact(Numpy(load), file, FEEDS, CALLS)


def test_every_call_gets_its_rows(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        from pathlib import Path

        factor = float(Path(path).read_text())
        return lambda arrays: {"action": arrays["b"] * factor, "index": arrays["a.x"]}

    found = replayed(load, tmp_path)
    assert (found.error, found.trace) == ("", "")
    assert [list(outputs) for outputs in found.outputs] == [["action", "index"]] * 3
    assert [outputs["index"].tolist() for outputs in found.outputs] == [[0], [1, 2], [2, 0, 1, 2]]
    np.testing.assert_array_equal(found.outputs[1]["action"], FEEDS["b"][1:3] * 2.5)
    assert found.outputs[0]["action"].dtype == np.float32


def test_rlpipe_is_out_of_reach(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        import rlpipe.errors  # noqa: F401

    found = replayed(load, tmp_path)
    assert found.error.startswith("it cannot be loaded: ModuleNotFoundError: ")
    assert "rlpipe" in found.error


def test_blocked_packages_are_out_of_reach(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        import torch  # noqa: F401

    assert "import of torch halted" in replayed(load, tmp_path).error


def test_other_packages_are_there(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        import onnxruntime

        return lambda _: {"action": onnxruntime.__version__}

    assert replayed(load, tmp_path).error == ""


def test_the_failing_batch_is_named(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        def step(arrays: Any) -> Any:
            if len(arrays["b"]) == 2:
                raise RuntimeError("shape of two\nand more")
            return {"action": arrays["b"]}

        return step

    found = replayed(load, tmp_path)
    assert found.error == "it fails for a batch of 2: RuntimeError: shape of two"
    assert "Traceback" in found.trace
    assert found.outputs == ()


def test_a_process_that_dies_is_an_error(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        import os

        os._exit(7)

    assert replayed(load, tmp_path).error == "the process died: exit code 7"


def test_objects_are_no_numbers(tmp_path: Path) -> None:
    def load(path: str) -> Any:
        return lambda _: {"action": [object()]}

    assert replayed(load, tmp_path).error
