from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rlpipe.config.directories import DirectoryGuard, JobResult, claim, error_json, job_rows, read_jobs, write_failure
from rlpipe.errors import CheckpointNotFoundError, ConfigError


def job(sweep: Path, name: str, *, overrides: list[str], **result: Any) -> None:
    (sweep / name / ".hydra").mkdir(parents=True)
    (sweep / name / ".hydra" / "overrides.yaml").write_text("".join(f"- {line}\n" for line in overrides))
    (sweep / name / "result.json").write_text(json.dumps(result))


def test_a_directory_is_claimed_once(tmp_path: Path) -> None:
    claim(tmp_path / "new")
    result = json.loads((tmp_path / "new" / "result.json").read_text())
    assert (result["ok"], result["exit_code"]) == (False, 1)
    with pytest.raises(ConfigError, match="earlier run"):
        claim(tmp_path / "new")


def test_a_failure_is_written_over_the_claim(tmp_path: Path) -> None:
    claim(tmp_path)
    error = error_json(CheckpointNotFoundError("x", expected="a checkpoint", found="nothing", fix="look"))
    write_failure(tmp_path, task="info", exit_code=1, error=error, sample=True, seconds=1.23456)
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "task": "info",
        "ok": False,
        "exit_code": 1,
        "sample": True,
        "error": {
            "type": "CheckpointNotFoundError",
            "subject": "x",
            "expected": "a checkpoint",
            "found": "nothing",
            "fix": "look",
        },
        "seconds": 1.235,
    }


def test_an_unexpected_error_is_recorded_by_its_text() -> None:
    assert error_json(KeyError("x")) == {"type": "KeyError", "subject": "'x'"}
    assert error_json(KeyboardInterrupt()) == {"type": "KeyboardInterrupt", "subject": "KeyboardInterrupt"}


def test_a_run_into_a_used_directory_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = OmegaConf.create({"hydra": {"run": {"dir": str(tmp_path / "run")}}})
    DirectoryGuard().on_run_start(config)
    claim(tmp_path / "run")
    with pytest.raises(SystemExit) as stopped:
        DirectoryGuard().on_run_start(config)
    assert stopped.value.code == 2
    assert "earlier run" in capsys.readouterr().err


def test_a_sweep_into_a_used_directory_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectoryGuard, "sweep", None)
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path / "sweep")}}})
    DirectoryGuard().on_multirun_start(config)
    assert DirectoryGuard.sweep == tmp_path / "sweep"
    claim(tmp_path / "sweep" / "0")
    with pytest.raises(SystemExit):
        DirectoryGuard().on_multirun_start(config)


def test_jobs_are_read_in_their_order(tmp_path: Path) -> None:
    for name in ("10", "2", "other", "0"):
        job(tmp_path, name, overrides=["env=${x}", f"seed={name}"], exit_code=0)
    jobs = read_jobs(tmp_path)
    assert [one.name for one in jobs] == ["0", "2", "10", "other"]
    assert jobs[0].overrides == ("env=${x}", "seed=0")


def test_rows_show_what_sets_the_jobs_apart() -> None:
    jobs = [
        JobResult(name="0", overrides=("task=x", "a=1"), result={"exit_code": 0, "seconds": 1.25}),
        JobResult(name="1", overrides=("task=x", "a=2"), result={"exit_code": 2, "error": {"subject": "one\ntwo"}}),
    ]
    assert job_rows(jobs) == [("0", "a=1", "ok", "1.2", ""), ("1", "a=2", "failed (2)", "", "one")]
    swept = JobResult(name="2", overrides=(r"restore.device=cuda\:0", r"a=\{x\: 1\}"), result={"exit_code": 0})
    assert job_rows([swept])[0][1] == "restore.device=cuda:0 a={x: 1}"
    assert job_rows(jobs[:1]) == [("0", "task=x a=1", "ok", "1.2", "")]
