from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlpipe.checkpoint.reader import read_manifest
from rlpipe.errors import CheckpointNotFoundError, ConfigError
from rlpipe.pipeline.locate import locate
from rlpipe.pipeline.runner import run
from rlpipe.pipeline.settings import CheckpointSettings, PolicySettings, RunSettings, SourceSettings
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box

ONE = algorithm(p0=PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2)))
SCORES = {9: 3.0, 10: 1.0, 100: 2.0}


@pytest.fixture(scope="session")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by the command, in an order that is neither that of steps nor that of names. Only to be read."""
    folder = tmp_path_factory.mktemp("series")
    for step in (100, 9, 10):
        target = CheckpointSettings(path=str(folder / f"model_{step}"), step=step, score=SCORES[step])
        run(RunSettings(task="save", algorithm=ONE, checkpoint=target))
    return folder


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (SourceSettings(which="latest"), "model_100"),
        (SourceSettings(which="best"), "model_9"),
        (SourceSettings(which="best", goal="min"), "model_10"),
        (SourceSettings(which=10), "model_10"),
    ],
)
@pytest.mark.parametrize("given", ["the path", "the default", "latest"])
def test_by_what_is_recorded(given: str, source: SourceSettings, name: str, series: Path) -> None:
    settings = RunSettings(task="info", source=source, checkpoints_dir=str(series))
    path = {"the path": str(series), "the default": None, "latest": "latest"}[given]
    located = locate(settings, given=path)
    assert (located.path, located.facts.name) == (series / name, (series / name).as_posix())


def test_a_step_that_is_not_there_names_the_nearest(series: Path) -> None:
    settings = RunSettings(task="info", source=SourceSettings(which=11))
    with pytest.raises(CheckpointNotFoundError, match="nearest steps: 10, 9, 100"):
        locate(settings, given=str(series))


def test_a_checkpoint_itself_holds_no_others(series: Path) -> None:
    settings = RunSettings(task="info", source=SourceSettings(which="latest"))
    with pytest.raises(ConfigError) as caught:
        locate(settings, given=str(series / "model_9"))
    assert str(series) in caught.value.fix


def test_a_folder_without_a_choice_says_how_to_choose(series: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"source\.which=latest"):
        locate(RunSettings(task="info"), given=str(series))


def test_a_goal_that_nothing_asks_for_is_noted(series: Path) -> None:
    settings = RunSettings(task="info", source=SourceSettings(goal="min"))
    (note,) = locate(settings, given=str(series / "model_9")).notes
    assert note.startswith("source.goal=min was given")


def test_one_that_is_damaged_is_passed_over(series: Path, tmp_path: Path) -> None:
    shutil.copytree(series, tmp_path / "copy")
    (tmp_path / "copy" / "model_100" / "policies" / "p0" / "state.h5").write_bytes(b"")
    settings = RunSettings(task="info", source=SourceSettings(which="latest"))
    located = locate(settings, given=str(tmp_path / "copy"))
    assert located.path.name == "model_10"
    assert "model_100" in located.notes[0]


def test_saving_reads_what_was_chosen(series: Path, run_task: Runner) -> None:
    source = SourceSettings(path=str(series), which="best")
    run_task("save", source=source, checkpoint=CheckpointSettings(path="out"))
    root = json.loads(Path("out/manifest.json").read_text())
    assert "step" not in root["origin"]["provenance"]
    assert root["content_hash"] == json.loads((series / "model_9" / "manifest.json").read_text())["content_hash"]


def test_step_and_score_stand_in_the_root(series: Path) -> None:
    origin = read_manifest(series / "model_10").origin
    assert origin is not None
    assert (origin.provenance["step"], origin.provenance["score"]) == (10, 1.0)
