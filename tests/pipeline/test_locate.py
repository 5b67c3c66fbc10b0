from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import CheckpointError, CheckpointNotFoundError, ConfigError, ForeignFormatError
from rlpipe.pipeline.locate import latest_checkpoint, locate, locate_path, recognise
from rlpipe.pipeline.settings import LATEST, PolicySettings, RunSettings, SourceSettings
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, algorithm, box, write


def written_in_order(folder: Path, *names: str) -> tuple[Path, ...]:
    """Checkpoints written one after the other."""
    one = algorithm(p0=PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2)))
    return tuple(write(folder / name, one) for name in names)


def test_the_newest_is_by_recorded_time_not_by_name_or_file_times(tmp_path: Path) -> None:
    _, newest = written_in_order(tmp_path, "b-900", "a-10000")
    os.utime(newest / "manifest.json", (0, 0))
    assert latest_checkpoint(tmp_path) == (newest, ())


def test_what_is_half_written_is_passed_over_with_a_note(tmp_path: Path) -> None:
    whole, half, broken = written_in_order(tmp_path, "a", "b", "c")
    (half / "manifest.json").unlink()
    (broken / "manifest.json").write_text((broken / "manifest.json").read_text()[:-30])
    found, notes = latest_checkpoint(tmp_path)
    assert found == whole
    assert sorted(note.split(":")[0] for note in notes) == [f"passed over {half}", f"passed over {broken}"]


def test_latest_by_name_never_falls_back_to_the_sample(tmp_path: Path) -> None:
    settings = RunSettings(task="info", checkpoints_dir=str(tmp_path / "none"))
    assert locate(settings, given=None).facts.sample
    with pytest.raises(CheckpointNotFoundError):
        locate(settings, given=LATEST)


def test_an_importer_that_is_insisted_on_needs_a_file(checkpoint: Path) -> None:
    settings = RunSettings(task="info", source=SourceSettings(kind="stable_baselines3"))
    with pytest.raises(ConfigError):
        locate(settings, given=None)
    with pytest.raises(ForeignFormatError):
        locate(settings, given=str(checkpoint))
    with pytest.raises(ConfigError):
        locate_path(str(checkpoint / "manifest.json"), kind="no_such_importer")


def test_kinds_are_told_by_content(checkpoint: Path, sb3_zip: Path, artifacts: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "model.bin"
    shutil.copy(sb3_zip, renamed)
    assert recognise(renamed) == "stable_baselines3"
    assert recognise(checkpoint) == recognise(checkpoint / "policies") == recognise(checkpoint / "policies/p1")
    assert recognise(checkpoint) == "checkpoint"
    for path in ("", "p0", "p0/onnx", "p0/onnx/policy.onnx", "p0/artifact.json"):
        assert recognise(artifacts / path) == "artifact", path


def test_a_file_of_a_checkpoint_leads_to_its_directory(checkpoint: Path) -> None:
    for name in ("manifest.json", "policies/p0/state.h5"):
        with pytest.raises(CheckpointNotFoundError) as caught:
            recognise(checkpoint / name)
        assert str((checkpoint / name).parent) in caught.value.fix


def test_near_names_and_checkpoints_inside_are_offered(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "runs" / "walker")
    with pytest.raises(CheckpointNotFoundError) as caught:
        recognise(tmp_path / "runs" / "wlaker")
    assert "walker" in caught.value.fix
    with pytest.raises(CheckpointNotFoundError) as caught:
        recognise(tmp_path / "runs")
    assert "walker" in caught.value.fix
    with pytest.raises(CheckpointNotFoundError) as caught:
        recognise(tmp_path / "rnus" / "walker" / "policies")
    assert caught.value.found.endswith(f"from {tmp_path / 'rnus'} on")
    assert str(tmp_path / "runs") in caught.value.fix


def test_a_home_is_expanded(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    assert locate_path(f"~/{checkpoint.name}").path == checkpoint


@pytest.mark.parametrize("setting", [{"normalizer": "none"}, {"normalizer": "statistics.pkl"}])
def test_a_setting_that_a_checkpoint_does_not_use_is_noted(
    setting: dict[str, Any], checkpoint: Path, artifacts: Path, sb3_zip: Path
) -> None:
    settings = RunSettings(task="info", source=SourceSettings(**setting))
    for path in (checkpoint, checkpoint / "policies" / "p0", artifacts):
        (note,) = locate(settings, given=str(path)).notes
        assert note.startswith("source.normalizer was given, but ")
    assert locate(settings, given=str(sb3_zip)).notes == ()
    assert locate(RunSettings(task="info"), given=str(checkpoint)).notes == ()


def test_an_id_that_artifacts_do_not_take_is_noted(artifacts: Path) -> None:
    settings = RunSettings(task="info", source=SourceSettings(policy_id="p7"))
    (note,) = locate(settings, given=str(artifacts)).notes
    assert note.startswith("source.policy_id was given, but ")


def test_a_folder_that_holds_a_model_names_it(tmp_path: Path, sb3_zip: Path) -> None:
    shutil.copy(sb3_zip, tmp_path / "best model.zip")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(CheckpointNotFoundError) as caught:
        locate(RunSettings(task="info"), given=str(tmp_path))
    assert caught.value.fix == f"name the model file in it: {tmp_path / 'best model.zip'}"


def test_of_the_checkpoints_of_a_run_the_last_ones_are_asked_for(tmp_path: Path) -> None:
    model = Path(__file__).parents[1] / "golden" / "rsl_rl" / "v5_mlp" / "model_2.pt"
    for number in (0, 900, 1000, 50, 99):
        (tmp_path / f"model_{number}.pt").write_bytes(model.read_bytes())
    with pytest.raises(CheckpointNotFoundError) as caught:
        recognise(tmp_path)
    names = ", ".join(str(tmp_path / f"model_{number}.pt") for number in (1000, 900, 99))
    assert caught.value.fix == f"name the model file in it: {names}"


@pytest.mark.parametrize("kind", ["auto", "stable_baselines3"])
def test_a_path_that_the_system_refuses_is_no_crash(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        locate_path(str(tmp_path / ("a" * 300)), kind=kind)
    assert caught.value.found.startswith("File name too long")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("kind", ["auto", "stable_baselines3"])
def test_a_path_that_may_not_be_read_is_said_to_be_that(kind: str, tmp_path: Path, sb3_zip: Path) -> None:
    shutil.copy(sb3_zip, tmp_path / "a.zip")
    (tmp_path / "a.zip").chmod(0)
    (tmp_path / "folder").mkdir(mode=0)
    for name in ("a.zip", "folder/a.zip"):
        with pytest.raises(CheckpointError) as caught:
            locate_path(str(tmp_path / name), kind=kind)
        assert caught.value.found.startswith("Permission denied")
