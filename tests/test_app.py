"""The command as a whole: words in, exit code and streams out."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlpipe.app import main
from rlpipe.sample import sample_path

ROOT = Path(__file__).resolve().parents[1]
TRACEBACK = "Traceback"


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str
    results: list[dict[str, Any]]


def rlpipe(*argv: str, cwd: Path, **environment: str) -> Run:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("HYDRA", "RLPIPE"))}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, "-m", "rlpipe", *argv]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    results = [json.loads(path.read_text()) for path in sorted(cwd.glob("outputs/**/result.json"))]
    return Run(done.returncode, done.stdout, done.stderr, results)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["exprot", "model.zip"], "did you mean export?"),
        (["task=null"], "found: null"),
        (["task=[info,save]"], "the list ['info', 'save']"),
        (["+polcy_ids=[p1]"], "did you mean policy_ids?"),
        (["policy_ids=['p1"], "in Hydra's grammar"),
        (["-m", "--cfg", "job"], "one of them"),
        (["policy_ids=p1,p2"], "'policy_ids=[p1,p2]'"),
        (["algorithm.policies.po.env=x"], "did you mean algorithm.policies.p"),
        (["--experimental-rerun", "x.pickle"], "a pickle to run"),
    ],
)
def test_a_wrong_command_is_told_before_anything_is_made(
    argv: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ")
    assert text in told.err
    assert told.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_that_of_rlpipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rlpipe 0.")


def test_packages_of_the_working_directory_are_found_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "mynet.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert main(["--version"]) == 0
    assert sys.path[-1] == str(tmp_path)
    assert importlib.util.find_spec("mynet") is not None


@pytest.mark.slow
def test_a_pipeline_that_fails_shows_what_it_did_before(tmp_path: Path) -> None:
    run = rlpipe("task=pipeline", "task.steps=[info,diff]", _unreadable_base(tmp_path), cwd=tmp_path)
    assert run.code == 1
    assert "1. info: ok" in run.out
    assert "step 2, diff" in run.err


def _unreadable_base(folder: Path) -> str:
    (folder / "base").mkdir()
    (folder / "base/manifest.json").write_text("{}")
    return "base.path=base"


def test_an_own_folder_that_shadows_an_option_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "save.yaml").write_text("{}")
    monkeypatch.setenv("RLPIPE_CONF", str(tmp_path))
    assert main(["--version"]) == 0
    assert "task/save" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--help"], "rlpipe task=export '+policy_ids=[p1]'"),
        (["--cfg", "job", "task=save"], "name: save"),
        (["task=save", "--cfg", "job", "--resolve", "-p", "task"], "name: save"),
        (["--info", "defaults"], "checkpoint/hdf5"),
    ],
)
def test_showing_imports_no_torch_and_makes_nothing(argv: list[str], text: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom rlpipe.app import main\ncode = main(sys.argv[1:])\n"
        "heavy = sorted({'torch', 'h5py', 'gymnasium', 'onnx', 'rich'} & set(sys.modules))\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *argv]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "override",
    [
        "checkpoint.if_exists=[1]",
        "evaluate.episodes=many",
        "export.onnx.atoll=1",
        "export.onnx.atol=-1",
        "env=${nope}",
        "restore.device=null",
        "+restore.device=null",
        "source=null",
        "hydra.run.dirr=x",
        "module@algorithm.policies.p0.module=sac",
    ],
)
def test_a_wrong_value_is_one_block(override: str, tmp_path: Path) -> None:
    run = rlpipe(override, cwd=tmp_path)
    assert run.code == 2
    assert run.out == ""
    assert [line.split(":")[0].strip() for line in run.err.splitlines()] == ["error", "expected", "found", "fix"]
    assert f"use +{override}" not in run.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["module.model_config.actor.hiden=[8]"], "did you mean hidden?"),
        (["algorithm.policies.p1.module.model_config.actor.activation=rleu"], "cannot build p1"),
        (["+module.model_config.foo=1"], "has no field 'foo'"),
        (["module=dqn", "env=Pendulum-v1"], "Discrete"),
        (["module.class_path=mynet.Net"], "mynet.Net"),
    ],
)
def test_what_a_class_refuses_is_a_wrong_config(words: list[str], text: str, tmp_path: Path) -> None:
    run = rlpipe("task=save", "checkpoint.path=made", *words, cwd=tmp_path)
    assert run.code == 2
    assert text in run.err
    assert [line.split(":")[0].strip() for line in run.err.splitlines()] == ["error", "expected", "found", "fix"]
    assert not (tmp_path / "made").exists()


OWN = """
import torch


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = torch.nn.Linear(4, width)
        self.head = torch.nn.Linear(width, 2)

    def forward(self, obs):
        return self.head(torch.relu(self.body(obs)))
"""


@pytest.mark.slow
def test_a_network_of_ones_own_and_a_fourth_policy(tmp_path: Path) -> None:
    (tmp_path / "mynet.py").write_text(OWN)
    network = ["module=torch_module", "module.model_config.class=mynet.Net", "module.model_config.kwargs={width: 8}"]
    more = [
        "+algorithm.policies.p3.env=CartPole-v1",
        "+module@algorithm.policies.p3.module=ppo",
        "algorithm.policies.p3.module.model_config.actor.hidden=[5]",
        "algorithm.policies.p0.module.model_config.kwargs.width=6",
    ]
    run = rlpipe("task=save", "env=CartPole-v1", "checkpoint.path=made", *network, *more, cwd=tmp_path)
    assert run.code == 0, run.err
    shapes = {}
    for policy in ("p0", "p1", "p2", "p3"):
        manifest = json.loads((tmp_path / "made" / "policies" / policy / "manifest.json").read_text())
        shapes[policy] = {key: shape for key, _, shape, _, _ in manifest["file"]["arrays"]}
    assert [shapes[policy]["net/body/weight"] for policy in ("p0", "p1", "p2")] == [[6, 4], [8, 4], [8, 4]]
    assert shapes["p3"]["encoder/actor_encoder/0/weight"] == [5, 4]
    manifest = json.loads((tmp_path / "made" / "manifest.json").read_text())
    assert more[2] in json.dumps(manifest), "overrides are recorded without a sign of Hydra's"
    assert "++" not in json.dumps(manifest)


def test_an_error_about_the_sample_says_so(tmp_path: Path) -> None:
    run = rlpipe("task=info", "policy_ids=[p9]", cwd=tmp_path)
    assert run.code == 1
    assert run.err.startswith("SAMPLE: ")
    assert "\nerror: no policy id matches 'p9'\n" in run.err
    assert run.results[0]["sample"] is True


def test_a_wrong_config_leaves_a_result(tmp_path: Path) -> None:
    run = rlpipe("task=info", "policy_ids=p1", cwd=tmp_path)
    assert run.code == 2
    assert run.err.startswith("error: policy_ids\n")
    assert "'policy_ids=[p1]'" in run.err
    assert TRACEBACK not in run.err
    (result,) = run.results
    assert (result["task"], result["ok"], result["exit_code"]) == ("info", False, 2)
    assert result["error"]["type"] == "ConfigError"
    assert result["error"]["subject"] == "policy_ids"


def test_a_failure_is_told_in_four_parts_and_leaves_a_result(tmp_path: Path) -> None:
    run = rlpipe("info", "no/such/thing", cwd=tmp_path)
    assert run.code == 1
    assert run.err.startswith("error: ")
    assert TRACEBACK not in run.err
    (result,) = run.results
    assert (result["ok"], result["exit_code"]) == (False, 1)
    assert "no/such/thing" in result["error"]["subject"] + result["error"]["found"]


def test_a_traceback_on_request(tmp_path: Path) -> None:
    run = rlpipe("info", "no/such/thing", cwd=tmp_path, HYDRA_FULL_ERROR="1")
    assert run.code == 1
    assert TRACEBACK in run.err


def test_a_directory_is_used_once(tmp_path: Path) -> None:
    first = rlpipe("info", "no/such/thing", "hydra.run.dir=outputs/my run", cwd=tmp_path)
    assert first.code == 1
    before = (tmp_path / "outputs" / "my run" / ".hydra" / "overrides.yaml").read_text()
    second = rlpipe("info", "other", "hydra.run.dir=outputs/my run", cwd=tmp_path)
    assert second.code == 2
    assert "holds the result of an earlier run" in second.err
    assert second.results == first.results
    assert (tmp_path / "outputs" / "my run" / ".hydra" / "overrides.yaml").read_text() == before


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = rlpipe("info", "hydra.run.dir=file/x", cwd=tmp_path)
    assert run.code == 2
    assert run.err.startswith("error: hydra.run.dir")
    assert TRACEBACK not in run.err


def test_info_of_the_sample(tmp_path: Path) -> None:
    run = rlpipe(cwd=tmp_path)
    assert run.code == 0, run.err
    assert run.out.startswith("SAMPLE")
    (result,) = run.results
    assert (result["task"], result["ok"], result["sample"]) == ("info", True, True)


def test_a_key_that_the_task_does_not_use_is_warned_about(tmp_path: Path) -> None:
    run = rlpipe("task=info", "restore.device=meta", cwd=tmp_path)
    assert run.code == 0
    assert "restore.device was given, but task=info does not use it" in run.err


def test_a_flag_that_is_none_of_ours_is_answered_with_how_options_are_written(tmp_path: Path) -> None:
    run = rlpipe("export", "A", "--device", "cuda", cwd=tmp_path)
    assert run.code == 2
    assert "unrecognized arguments: --device" in run.err
    assert run.err.endswith("options of rlpipe are key=value, such as restore.device=cuda\n")


@pytest.mark.parametrize("words", ["", "--help", "--cfg job"])
def test_a_reader_that_stops_listening_is_no_failure(words: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = f"set -o pipefail; {sys.executable} -m rlpipe {words} | true"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_checkpoint_in_a_folder_with_an_ugly_name(tmp_path: Path) -> None:
    ugly = "PPO lr=1e-3,seed=[5] (x) #1 %d {y} ü's"
    saved = rlpipe("task=save", "policy_ids=[p0]", f"checkpoint.path=runs/{ugly}/last", cwd=tmp_path)
    assert saved.code == 0, saved.err
    assert (tmp_path / "runs" / ugly / "last" / "manifest.json").is_file()
    for command in (["info", f"runs/{ugly}/last"], ["task=info", f"source.path=runs/{ugly}/last/policies/p0"]):
        run = rlpipe(*command, cwd=tmp_path)
        assert run.code == 0, run.err
        assert ugly in run.out


@pytest.mark.slow
def test_checkpoint_path_is_short_for_the_source_of_a_reader(tmp_path: Path) -> None:
    assert rlpipe("task=save", "policy_ids=[p0]", "checkpoint.path=mine", cwd=tmp_path).code == 0
    run = rlpipe("task=info", "checkpoint.path=mine", cwd=tmp_path)
    assert run.code == 0, run.err
    assert "mine" in run.out
    both = rlpipe("task=info", "checkpoint.path=mine", "source.path=mine", cwd=tmp_path)
    assert both.code == 2
    assert TRACEBACK not in both.err


@pytest.mark.slow
def test_an_interrupted_run_leaves_a_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlpipe", "task=evaluate", "evaluate.episodes=100000", "policy_ids=[p1]"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("outputs/**/result.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    # Where the interrupt has passed an exec, as of a dataclass, CPython ends by the signal; shells say 130 to both.
    assert process.returncode in (130, -signal.SIGINT)
    assert err.strip() == "interrupted"
    (path,) = tmp_path.glob("outputs/**/result.json")
    assert json.loads(path.read_text())["error"]["type"] == "KeyboardInterrupt"


def test_a_report_that_cannot_be_printed_is_a_failure(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rlpipe"], cwd=tmp_path, env=env, stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "error: the result cannot be printed: No space left on device\n"


def test_a_sweep_runs_every_job_and_ends_with_a_table(tmp_path: Path) -> None:
    run = rlpipe("-m", "task=info", "source.path=null,no/such/thing,null", cwd=tmp_path)
    assert run.code == 1
    assert [result["exit_code"] for result in run.results] == [0, 1, 0]
    rows = [line.split() for line in run.out.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert [row[1] for row in rows] == ["source.path=null", "source.path=no/such/thing", "source.path=null"]
    assert ["ok" in rows[0], "failed" in rows[1], "ok" in rows[2]] == [True, True, True]


def test_a_sweep_with_the_code_of_its_first_failure(tmp_path: Path) -> None:
    run = rlpipe("-m", "task=info", "policy_ids=p1,[p1]", "source.path=no/such/thing", cwd=tmp_path)
    assert run.code == 2
    assert [result["exit_code"] for result in run.results] == [2, 1]


def test_a_sweep_without_jobs_is_wrong(tmp_path: Path) -> None:
    run = rlpipe("-m", "restore.device=glob(*)", cwd=tmp_path)
    assert run.code == 2
    assert "holds no job" in run.err


@pytest.mark.slow
def test_a_pipeline_that_fails_keeps_what_it_did_before(tmp_path: Path) -> None:
    steps = "task.steps=[info,diff,export]"
    run = rlpipe("task=pipeline", steps, _unreadable_base(tmp_path), "policy_ids=[p0]", cwd=tmp_path)
    (result,) = run.results
    assert (result["task"], result["ok"], result["exit_code"]) == ("pipeline", False, 1)
    assert "step 2, diff" in result["error"]["subject"]
    assert [(step["task"], step["ok"]) for step in result["steps"]] == [("info", True)]
    assert result["steps"][0]["policy_ids"] == ["p0"]
    assert result["skipped"] == ["export"]


@pytest.mark.slow
def test_a_pipeline_says_what_a_later_step_misses_before_it_begins(tmp_path: Path) -> None:
    steps = "task.steps=[info,evaluate]"
    run = rlpipe("task=pipeline", steps, "env=Nowhere-v0", "policy_ids=[p0]", cwd=tmp_path)
    assert run.code == 2
    assert not run.out
    assert "step 2, evaluate" in run.err


def test_what_the_system_refuses_is_told_without_a_traceback(tmp_path: Path) -> None:
    zipped = ROOT / "tests/golden/sb3/ppo_normalised.zip"
    run = rlpipe("save", str(zipped), f"source.normalizer={'a' * 300}", cwd=tmp_path)
    assert run.code == 1
    assert "Traceback" not in run.err
    assert "File name too long" in run.err
    assert run.results[0]["error"]["subject"] == "the system refuses a file"


def test_help_lists_the_options_of_ones_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mine" / "module").mkdir(parents=True)
    (tmp_path / "mine" / "module" / "walker.yaml").write_text("class_path: null\n")
    for folder in ("mine", str(tmp_path / "mine")):
        run = rlpipe("--help", cwd=tmp_path, RLPIPE_CONF=folder)
        assert run.code == 0, run.err
        (line,) = [line for line in run.out.splitlines() if line.startswith("module:")]
        assert "walker" in line
    assert "walker" not in rlpipe("--help", cwd=tmp_path).out


def test_paths_count_from_where_they_were_typed(tmp_path: Path) -> None:
    shutil.copytree(sample_path(), tmp_path / "ckpt")
    run = rlpipe("task=info", "source.path=ckpt", "hydra.job.chdir=true", cwd=tmp_path)
    assert (run.code, run.err) == (0, "")
    assert len(run.results) == 1
    run = rlpipe(
        *("-m", "task=save", "source.path=ckpt", "checkpoint.path=a,b", "hydra.job.chdir=true", "hydra.run.dir=x"),
        cwd=tmp_path,
    )
    assert run.code == 0, run.err
    assert (tmp_path / "a" / "manifest.json").is_file()
    assert (tmp_path / "b" / "manifest.json").is_file()


@pytest.mark.slow
def test_a_module_that_fails_at_import_is_told_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "mynet.py").write_text("import math\n\nWIDTH = math.sqrt(-1)\n")
    network = ["module=torch_module", "module.model_config.class=mynet.Net"]
    run = rlpipe("task=save", "env=CartPole-v1", *network, cwd=tmp_path)
    assert run.code == 2
    assert TRACEBACK not in run.err
    assert "ValueError in " in run.err
    assert "mynet.py, line 3" in run.err


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.txt").write_text("precious")
    for more in ([], ["checkpoint.if_exists=replace"]):
        run = rlpipe("task=save", f"source.path={sample_path()}", "checkpoint.path=thesis", *more, cwd=tmp_path)
        assert run.code == 1
        assert "is no checkpoint, so it is not replaced" in run.err
        assert "if_exists=replace" not in run.err
    assert (tmp_path / "thesis" / "draft.txt").read_text() == "precious"
