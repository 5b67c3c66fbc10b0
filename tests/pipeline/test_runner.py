from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import ConfigError, RlpipeError
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.reports import Report, SourceFacts
from rlpipe.pipeline.runner import resolve, run, task_names, write_result
from rlpipe.pipeline.sampled import is_of_sample
from rlpipe.pipeline.settings import BaseSettings, ExportSettings, RunSettings, SelectSettings, SourceSettings

TASKS = ("diff", "evaluate", "export", "info", "pipeline", "restore", "save", "subset_restore", "verify")


def test_tasks_are_the_files_that_are_there() -> None:
    assert task_names() == TASKS


@pytest.mark.parametrize("name", TASKS)
def test_each_says_what_it_uses_by_names_of_settings(name: str) -> None:
    settings = RunSettings(task=name)
    for use in resolve(name).USES:
        node: object = settings
        for part in use.split("."):
            node = getattr(node, part)


def test_an_unknown_task_names_the_closest() -> None:
    with pytest.raises(ConfigError) as caught:
        run(RunSettings(task="exprot"))
    assert "export" in caught.value.fix


@pytest.mark.parametrize("task", ["info", "restore", "export", "verify", "evaluate", "diff", "subset_restore"])
def test_an_error_says_that_the_source_was_the_sample(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    chosen, export = SelectSettings(policy_ids=("nope",)), ExportSettings(targets={"onnx": onnx.Options()})
    settings = RunSettings(task=task, select=chosen, base=BaseSettings(path="nowhere"), export=export)
    with pytest.raises(RlpipeError) as caught:
        run(settings)
    assert is_of_sample(caught.value)
    with pytest.raises(RlpipeError) as caught:
        run(replace(settings, source=SourceSettings(path=str(checkpoint))))
    assert not is_of_sample(caught.value)


def test_the_result_is_left_in_the_run_directory(checkpoint: Path, tmp_path: Path) -> None:
    settings = RunSettings(
        task="info", source=SourceSettings(path=str(checkpoint)), out_dir=str(tmp_path / "new" / "run")
    )
    report = run(settings)
    found = json.loads((tmp_path / "new/run/result.json").read_text())
    assert found.pop("seconds") >= 0
    assert found == json.loads(json.dumps(report.to_json()))
    assert (found["task"], found["ok"], found["exit_code"]) == ("info", True, 0)


def test_numbers_that_json_lacks_are_text(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(Report):
        task = "odd"

        def body(self) -> dict[str, Any]:
            return {"numbers": [float("nan"), float("inf"), 1.5], "nested": {"low": float("-inf")}}

        def tables(self) -> list[Any]:
            return []

    path = write_result(Odd(source=SourceFacts(kind="built", name="x")), tmp_path, seconds=0.0)
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found["numbers"] == ["nan", "inf", 1.5]
    assert found["nested"] == {"low": "-inf"}


def test_what_failed_leaves_no_result(tmp_path: Path) -> None:
    with pytest.raises(RlpipeError):
        run(RunSettings(task="info", source=SourceSettings(path="nowhere"), out_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_naming_tasks_imports_no_torch_and_no_hydra() -> None:
    program = (
        "import sys; from rlpipe.pipeline.runner import resolve, task_names; [resolve(name) for name in task_names()];"
        "print(sorted({'torch', 'hydra', 'gymnasium', 'h5py', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
