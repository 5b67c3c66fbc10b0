from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import pytest

from rlpipe.errors import ArtifactError, CheckpointNotFoundError, ConfigError, ForeignFormatError, SelectionError
from rlpipe.exporters.targets import numpy as numpy_target
from rlpipe.exporters.targets import onnx
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    ExportSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.policies.graph_options import GraphOptions
from tests.pipeline.checkpoints import PPO, Runner, algorithm, roles, write


def text_of(report: object) -> str:
    stream = io.StringIO()
    show(report.render(), stream)  # type: ignore[attr-defined]
    return stream.getvalue()


def test_a_checkpoint(run_task: Runner, checkpoint: Path) -> None:
    report = run_task("info", source=SourceSettings(path=str(checkpoint)))
    found = report.to_json()
    assert found["policy_ids"] == ["p0", "p1", "p2"]
    assert found["format_version"] == 1
    assert found["provenance"]["task"] == "save"
    components = {part["path"]: part for part in found["components"]}
    assert list(components) == ["", "policies", "policies/p0", "policies/p1", "policies/p2"]
    part = components["policies/p2"]
    with h5py.File(checkpoint / "policies/p2/state.h5", "r") as file:
        for role in ("inference", "training"):
            keys = [key for key, name in roles(checkpoint / "policies/p2").items() if name == role]
            assert part["roles"][role] == {
                "arrays": len(keys),
                "parameters": sum(file[key].size for key in keys),
                "bytes": sum(file[key].nbytes for key in keys),
            }
    assert part["dtypes"] == {"float32": len(roles(checkpoint / "policies/p2"))}
    assert part["backend"] == "hdf5"
    assert part["file_size"] == (checkpoint / "policies/p2/state.h5").stat().st_size
    assert part["policy"]["module_class"] == "rlpipe.modules.torch.dqn.DQNModule"
    assert part["policy"]["action_space"] == "Discrete(4)"
    assert part["policy"]["action"] == ["argmax(start=0)"]
    text = text_of(report)
    assert part["fingerprint"] in text
    assert "DQNModule" in text
    assert "p0, p1, p2 were never trained" in text
    assert "0 timesteps in the file" in " ".join(text.split())


def test_a_component_and_its_arrays(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    whole = run_task("info", source=SourceSettings(path=str(checkpoint))).to_json()
    shutil.copytree(checkpoint / "policies/p1", tmp_path / "walker")
    report = run_task("info", source=SourceSettings(path="walker"))
    found = report.to_json()
    assert found["policy_ids"] == ["walker"]
    assert found["components"][0]["fingerprint"] == whole["components"][3]["fingerprint"]
    text = text_of(report)
    assert all(key in text for key in roles(checkpoint / "policies/p1"))


def test_what_is_chosen_is_shown(run_task: Runner, checkpoint: Path) -> None:
    select = SelectSettings(policy_ids=("p2",), roles=("inference",))
    found = run_task("info", source=SourceSettings(path=str(checkpoint)), select=select).to_json()
    assert [part["path"] for part in found["components"]] == ["", "policies", "policies/p2"]
    assert {array["role"] for array in found["components"][2]["arrays"]} == {"inference"}
    with pytest.raises(SelectionError):
        run_task("info", source=SourceSettings(path=str(checkpoint)), select=SelectSettings(policy_ids=("p9",)))


def test_a_foreign_file(run_task: Runner, sb3_zip: Path) -> None:
    report = run_task("info", source=SourceSettings(path=str(sb3_zip), policy_id="walker"))
    found = report.to_json()
    assert found["policy_ids"] == ["walker"]
    assert found["source"]["kind"] == "stable_baselines3"
    assert found["components"][0]["metadata"]["source"]["file"] == sb3_zip.name
    assert found["skipped"]
    run_task("save", source=SourceSettings(path=str(sb3_zip)), checkpoint=CheckpointSettings(path="a"))
    saved = run_task("info", source=SourceSettings(path="a")).to_json()
    assert saved["components"][-1]["fingerprint"] == found["components"][0]["fingerprint"]
    assert saved["components"][-1]["content_hash"] == found["components"][0]["content_hash"]


def test_nothing_given_and_nothing_there_is_the_sample(run_task: Runner) -> None:
    report = run_task("info")
    assert report.to_json()["sample"] is True
    lines = text_of(report).splitlines()
    assert lines[0].startswith("SAMPLE")
    assert "SAMPLE" in lines[1:]


def test_nothing_given_is_the_newest_checkpoint(run_task: Runner, checkpoint: Path) -> None:
    run_task("save")
    second = run_task("save", select=SelectSettings(policy_ids=("p2",)))
    report = run_task("info")
    assert report.source.name == second.written()
    assert report.source.sample is False
    assert report.to_json()["policy_ids"] == ["p2"]


def test_checkpoint_path_is_short_for_source_path(run_task: Runner, checkpoint: Path) -> None:
    short = CheckpointSettings(path=str(checkpoint))
    assert run_task("info", checkpoint=short).to_json()["policy_ids"] == ["p0", "p1", "p2"]
    with pytest.raises(ConfigError):
        run_task("info", checkpoint=short, source=SourceSettings(path=str(checkpoint)))


def test_what_is_none_is_refused(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("not a model")
    shutil.copytree(checkpoint, tmp_path / "half")
    (tmp_path / "half/manifest.json").unlink()
    for name, error in (
        ("nowhere", CheckpointNotFoundError),
        ("empty", CheckpointNotFoundError),
        ("half", CheckpointNotFoundError),
        ("file.txt", ForeignFormatError),
    ):
        with pytest.raises(error) as caught:
            run_task("info", source=SourceSettings(path=name))
        assert name in caught.value.subject
        assert caught.value.expected
        assert caught.value.found
        assert caught.value.fix


def test_no_torch_for_checkpoints_and_foreign_files(checkpoint: Path, other: Path, sb3_zip: Path) -> None:
    program = f"""
import sys
sys.modules["torch"] = None
import rlpipe
from rlpipe.pipeline.runner import run
from rlpipe.pipeline.settings import BaseSettings, RunSettings, SourceSettings
rlpipe.get_checkpoint_info({str(checkpoint)!r})
rlpipe.get_checkpoint_info({str(checkpoint / "policies/p1")!r})
rlpipe.get_checkpoint_info({str(sb3_zip)!r})
rlpipe.verify({str(checkpoint)!r})
run(RunSettings(task="diff", source=SourceSettings(path={str(checkpoint)!r}), base=BaseSettings(path={str(other)!r})))
run(RunSettings(task="diff", source=SourceSettings(path={str(sb3_zip)!r}), base=BaseSettings(path={str(other)!r})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("task", ["info", "save", "restore", "evaluate", "export", "diff", "subset_restore"])
@pytest.mark.parametrize("part", [".", "policies/p1"])
def test_keys_that_match_nothing_are_an_error_in_every_task(
    task: str, part: str, run_task: Runner, checkpoint: Path
) -> None:
    path = str(checkpoint / part)
    select = SelectSettings(keys=("encoder/*", "nothing"))
    with pytest.raises(SelectionError) as caught:
        run_task(
            task,
            source=SourceSettings(path=path),
            base=BaseSettings(path=path),
            select=select,
            export=ExportSettings(targets={"onnx": onnx.Options()}),
        )
    assert caught.value.pattern == "nothing"


def test_keys_are_looked_for_among_the_chosen_policies(run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    assert run_task("info", source=source, select=SelectSettings(keys=("q/*",))).ok
    with pytest.raises(SelectionError):
        run_task("info", source=source, select=SelectSettings(policy_ids=("p0",), keys=("q/*",)))


def test_an_array_file_that_cannot_be_right_is_a_warning(run_task: Runner, checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    (copy / "policies/p0/state.h5").unlink()
    with (copy / "policies/p1/state.h5").open("ab") as file:
        file.write(b"x")
    report = run_task("info", source=SourceSettings(path=str(copy)))
    assert report.exit_code == 0
    missing, longer = (text for text in report.warnings if "state.h5" in text)
    assert "policies/p0/state.h5 is missing" in missing
    assert "policies/p1/state.h5 has" in longer
    chosen = run_task("info", source=SourceSettings(path=str(copy)), select=SelectSettings(policy_ids=("p2",)))
    assert not any("state.h5" in text for text in chosen.warnings)


@pytest.mark.parametrize("content", [b"", b"{}", b"no json"])
@pytest.mark.parametrize("place", [".", "p0"])
def test_artifacts_with_a_damaged_record_are_called_that(
    place: str, content: bytes, run_task: Runner, artifacts: Path, tmp_path: Path
) -> None:
    shutil.copytree(artifacts / "p0", tmp_path / "made" / "p0")
    (tmp_path / "made/p0/artifact.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"artifact\.json"):
        run_task("info", source=SourceSettings(path=str(tmp_path / "made" / place)))


def test_roles_and_keys_of_artifacts_are_noted(run_task: Runner, artifacts: Path) -> None:
    select = SelectSettings(roles=("inference",), keys=("nothing",))
    report = run_task("info", source=SourceSettings(path=str(artifacts)), select=select)
    assert [text.split()[0] for text in report.warnings if text.startswith("select.")] == [
        "select.roles",
        "select.keys",
    ]


def test_an_artifact_says_what_it_takes_and_how_well_it_was_proved(run_task: Runner, artifacts: Path) -> None:
    stream = io.StringIO()
    show(run_task("info", source=SourceSettings(path=str(artifacts / "p0"))).render(), stream)
    told = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert "inputs obs: float32 [batch, 4]" in told
    assert "outputs action: int64 [batch]" in told
    assert "trained no" in told
    record = json.loads((artifacts / "p0/artifact.json").read_text())["targets"]["onnx"]
    head = next(index for index, line in enumerate(told) if line.startswith("policy target file"))
    assert told[head].endswith("difference tolerance fingerprint")
    measured, allowed = told[head + 1].split()[-3:-1]
    assert (measured, allowed) == (f"{record['verification']['max_error']:.1e}", f"{record['options']['atol']:.1e}")


def test_an_artifact_says_what_was_asked_of_it(run_task: Runner, checkpoint: Path) -> None:
    raw = ExportSettings(
        targets={"numpy": numpy_target.Options()}, graph=GraphOptions(action="raw", outputs=("value",))
    )
    chosen = SelectSettings(policy_ids=("p0",))
    run_task("export", source=SourceSettings(path=str(checkpoint)), select=chosen, export=raw, out_dir="made")
    told = [
        " ".join(line.split()) for line in text_of(run_task("info", source=SourceSettings(path="made"))).splitlines()
    ]
    assert "mode deterministic" in told
    assert "beside them value" in told
    assert any(line.startswith("actions are raw, before they are squashed") for line in told)


def test_the_way_to_the_actuator_is_told(run_task: Runner) -> None:
    golden = Path(__file__).parents[2] / "golden" / "rsl_rl"
    report = run_task("info", source=SourceSettings(path=str(golden / "v5_lstm" / "model_2.pt")))
    policy = report.components[-1].policy()  # type: ignore[attr-defined]
    assert [text.partition("(")[0] for text in policy.target] == ["affine", "clip"]
    assert "target stages" in text_of(report)
    plain = run_task("info", source=SourceSettings(path=str(golden.parent / "sb3" / "dqn.zip")))
    assert "target stages" not in text_of(plain)


def test_what_a_policy_remembers_is_said(run_task: Runner, tmp_path: Path) -> None:
    lstm = {"type": "lstm", "hidden_size": 8}
    module = replace(PPO, model_config={"actor": lstm, "critic": lstm})
    path = write(tmp_path / "made", algorithm(p0=PolicySettings(module=module, env="CartPole-v1")))
    report = run_task("info", source=SourceSettings(path=str(path)))
    assert "actor/c float32 [1, 8], actor/h float32 [1, 8]" in text_of(report)
