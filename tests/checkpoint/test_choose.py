from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint import swap, writer
from rlpipe.checkpoint.choose import at_step, best, damage_of, latest, made_at, survey
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointNotFoundError, ConfigError, UnsupportedStateError
from tests.checkpoint.components import policy, tree


def save(path: Path, **where: Any) -> Path:
    return write_checkpoint(tree(1), path, provenance=made_at(**where) if where else {})


def chosen(folder: Path) -> str:
    return latest(folder).checkpoint.path.name


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Written in an order that is neither that of names nor that of steps."""
    for step in (10_000, 999, 1_000, 20_000):
        save(tmp_path / f"model_{step}", step=step, score=-abs(step - 1_000) / 1e5)
    shutil.copytree(tmp_path / "model_1000", tmp_path / "best")
    return tmp_path


def test_the_latest_by_step_not_by_alphabet_and_not_by_date(models: Path) -> None:
    shutil.rmtree(models / "model_20000")
    (models / "model_999").touch()
    assert chosen(models) == "model_10000"


@pytest.mark.parametrize("damage", ["manifest cut", "manifest gone", "state cut", "state gone", "child gone", "empty"])
def test_one_that_is_not_whole_is_passed_over_with_a_note(models: Path, damage: str) -> None:
    newest = models / "model_20000"
    state, manifest = newest / "policies" / "p0" / "state.h5", newest / "manifest.json"
    if damage == "manifest cut":
        manifest.write_bytes(manifest.read_bytes()[:100])
    elif damage == "state cut":
        state.write_bytes(state.read_bytes()[:-1])
    elif damage in ("manifest gone", "state gone"):
        (manifest if damage == "manifest gone" else state).unlink()
    else:
        shutil.rmtree(newest / "policies" / "p0")
        if damage == "empty":
            (newest / "policies" / "p0").mkdir()
    choice = latest(models)
    assert choice.checkpoint.path.name == "model_10000"
    [note] = choice.notes
    assert "model_20000" in note


def test_the_best_is_asked_for(models: Path) -> None:
    assert best(models).checkpoint.step == 1_000
    assert best(models, goal="min").checkpoint.path.name == "model_20000"


def test_of_equal_scores_the_latest(tmp_path: Path) -> None:
    for step in (1, 3, 2):
        save(tmp_path / f"{step}", step=step, score=0.5)
    save(tmp_path / "4", step=4)
    assert best(tmp_path).checkpoint.step == best(tmp_path, goal="min").checkpoint.step == 3


def test_the_best_that_is_damaged_is_passed_over(models: Path) -> None:
    for name in ("best", "model_1000"):
        (models / name / "policies" / "p0" / "state.h5").unlink()
    choice = best(models)
    assert choice.checkpoint.step == 999
    assert len(choice.notes) == 2


def test_a_step(models: Path) -> None:
    assert at_step(models, 999).checkpoint.path.name == "model_999"
    with pytest.raises(CheckpointNotFoundError, match="nearest steps: 1000, 999, 10000"):
        at_step(models, 1_001)


def test_between_runs_by_time_inside_a_run_by_step(tmp_path: Path) -> None:
    save(tmp_path / "a", step=2_000, run="first")
    save(tmp_path / "b", step=600, run="second")
    save(tmp_path / "c", step=550, run="second")
    assert chosen(tmp_path) == "b"
    save(tmp_path / "d", step=1, run="first")
    assert chosen(tmp_path) == "a"
    save(tmp_path / "plain")
    assert chosen(tmp_path) == "plain"


def test_equal_steps_by_time(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        save(tmp_path / name, step=7)
    assert chosen(tmp_path) == "a"


def test_any_order_of_writing_gives_the_same(tmp_path: Path) -> None:
    for number, order in enumerate(itertools.permutations((9, 10, 100))):
        for step in order:
            save(tmp_path / f"{number}" / f"step_{step}", step=step)
        assert [each.step for each in survey(tmp_path / f"{number}").found] == [9, 10, 100]


def test_what_is_recorded_is_in_the_root_manifest_alone(tmp_path: Path) -> None:
    path = save(tmp_path / "x", step=3, score=1, run="r")
    origin = json.loads((path / "manifest.json").read_text())["origin"]
    assert origin["provenance"] == {"step": 3, "score": 1.0, "run": "r"}
    assert json.loads((path / "policies" / "p0" / "manifest.json").read_text())["origin"] is None


@pytest.mark.parametrize("value", [True, "7", 1.5, None, [7]])
def test_a_step_of_another_kind_is_none(tmp_path: Path, value: Any) -> None:
    write_checkpoint(policy(0), tmp_path / "x", provenance={"step": value, "score": "high", "run": 3})
    [found] = survey(tmp_path).found
    assert (found.step, found.score, found.run) == (None, None, "")


@pytest.mark.parametrize(
    "where",
    [
        *({"step": step} for step in (-1, True, 1.0)),
        *({"step": 1, "score": score} for score in (float("nan"), float("-inf"), "1", b"1", 10**400, [1], 1j)),
    ],
)
def test_what_cannot_be_ranked_is_refused(where: Any) -> None:
    with pytest.raises(UnsupportedStateError):
        made_at(**where)


def test_numbers_of_other_libraries_are_scores() -> None:
    assert made_at(step=1, score=np.float32(1.5)) == made_at(step=1, score=np.array(1.5)) == {"step": 1, "score": 1.5}  # type: ignore[arg-type]


def test_questions_without_sense_are_refused(models: Path) -> None:
    with pytest.raises(ConfigError, match="no goal"):
        best(models, goal="largest")  # type: ignore[arg-type]
    for step in ("1", None, -1, 1.5):
        with pytest.raises(UnsupportedStateError, match="no step"):
            at_step(models, step)  # type: ignore[arg-type]


def test_nothing_to_choose(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="no folder"):
        latest(tmp_path / "none")
    with pytest.raises(CheckpointNotFoundError, match="no whole checkpoint in"):
        latest(tmp_path)
    save(tmp_path / "x", step=1)
    with pytest.raises(CheckpointNotFoundError, match="with a score"):
        best(tmp_path)


def test_other_things_in_the_folder_say_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "x", step=1)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events").write_text("")
    (tmp_path / "model_999.zip").write_text("")
    shutil.copytree(path, tmp_path / ".rlpipe-stage-0-0")
    assert latest(tmp_path).notes == ()
    shutil.copytree(path / "policies" / "p0", tmp_path / "part")
    [note] = latest(tmp_path).notes
    assert "part of a checkpoint" in note


def test_what_others_may_not_read_is_passed_over(open_folder: Path) -> None:
    """As the directories of other people in a folder that many share."""
    modes = {"closed": 0o000, "passage": 0o311, "list": 0o544}
    save(open_folder / "mine", step=1)
    for name, mode in modes.items():
        save(open_folder / name / "theirs", step=9)
        (open_folder / name).chmod(mode)
    name, notes = as_nobody(lambda: (latest(open_folder).checkpoint.path.name, latest(open_folder).notes))
    for each in modes:
        (open_folder / each).chmod(0o755)
    assert name == "mine"
    assert "closed" in "".join(notes)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may go into; those of pytest are for its user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_nobody(ask: Callable[[], Any]) -> Any:
    """What a process without privileges finds; root may read everything."""
    if os.getuid():
        return ask()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(65534)
            os.write(writing, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        found = stream.read()
    os.waitpid(child, 0)
    return json.loads(found)


def test_the_choice_reads_no_array_file(tmp_path: Path, opened_files: Any) -> None:
    for step in range(3):
        save(tmp_path / f"{step}", step=step)
    with opened_files.below(tmp_path) as opened:
        latest(tmp_path)
    assert not [name for name in opened if name.endswith(".h5")]
    assert len([name for name in opened if name.startswith(("0/", "1/"))]) == 2


def test_one_that_was_set_aside_counts(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path / f"{step}", step=step)
    (tmp_path / "2").rename(swap.aside_of(tmp_path / "2"))
    choice = latest(tmp_path)
    assert (choice.checkpoint.path, choice.notes) == (tmp_path / "2", ())
    assert damage_of(tmp_path / "2") == ""


def test_clocks_of_machines_do_not_matter_inside_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes back, as when a job moves to another machine."""

    class Early(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz).replace(year=2001)

    save(tmp_path / "1", step=1)
    monkeypatch.setattr(writer, "datetime", Early)
    save(tmp_path / "2", step=2)
    assert chosen(tmp_path) == "2"
