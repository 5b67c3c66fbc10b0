from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.checkpoint import litter, retention
from rlpipe.checkpoint.choose import Recorded, made_at
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.retention import Retention, apply_retention, kept
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import CheckpointExistsError, CheckpointNotFoundError, ConfigError, UnsupportedStateError
from tests.checkpoint.components import policy, tree


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def train(folder: Path, steps: Iterable[int], **rules: Any) -> set[int]:
    scores = rules.pop("scores", {})
    series = Series(folder=folder, retention=Retention(**rules))
    for step in steps:
        series.write(policy(0), step=step, score=scores.get(step))
    return {int(name.removeprefix("step-")) for name in names(folder)}


def test_everything_stays_by_default(tmp_path: Path) -> None:
    assert train(tmp_path, range(5)) == set(range(5))


def test_the_last(tmp_path: Path) -> None:
    assert train(tmp_path, (8, 9, 10, 11), keep_last=2) == {10, 11}


def test_the_first_of_every_so_many_steps(tmp_path: Path) -> None:
    """Steps of a vectorised loop seldom hit round numbers."""
    steps = range(0, 2048 * 8, 2048)
    assert train(tmp_path, steps, keep_every=5000) == {0, 6144, 10240, 14336}


def test_both(tmp_path: Path) -> None:
    assert train(tmp_path, range(0, 100, 10), keep_last=2, keep_every=50) == {0, 50, 80, 90}


def test_the_best(tmp_path: Path) -> None:
    scores = {1: 0.5, 2: 9.0, 3: 1.0, 4: 2.0, 5: 1.5}
    assert train(tmp_path / "a", range(1, 6), keep_last=1, scores=scores) == {2, 5}
    assert train(tmp_path / "b", range(1, 6), keep_last=1, scores=scores, keep_best=2) == {2, 4, 5}
    assert train(tmp_path / "c", range(1, 6), keep_last=1, scores=scores, goal="min") == {1, 5}
    assert train(tmp_path / "d", range(1, 6), keep_last=1, scores=scores, keep_best=0) == {5}


def test_a_run_that_went_back_keeps_its_own(tmp_path: Path) -> None:
    train(tmp_path, (100, 200, 300))
    assert train(tmp_path, (150,), keep_last=2) == {150, 300}
    assert train(tmp_path, (160, 170), keep_last=2) == {160, 170}


def test_only_the_like_of_the_new_one_goes(tmp_path: Path) -> None:
    for name in ("mine", "yours"):
        write_checkpoint(policy(0), tmp_path / name)
    write_checkpoint(policy(0), tmp_path / "old", provenance=made_at(step=1))
    (tmp_path / "logs").mkdir()
    Series(folder=tmp_path, retention=Retention(keep_last=1)).write(policy(0), step=2)
    assert names(tmp_path) == ["logs", "mine", "step-2", "yours"]
    newest = write_checkpoint(policy(0), tmp_path / "newest")
    report = apply_retention(newest, Retention(keep_last=2))
    assert names(tmp_path) == ["logs", "newest", "step-2", "yours"]
    assert report.removed == (tmp_path / "mine",)
    assert report.kept == (tmp_path / "yours", tmp_path / "newest")


def test_links_and_what_they_point_to_stay(tmp_path: Path) -> None:
    train(tmp_path, (1, 2))
    (tmp_path / "best").symlink_to("step-1")
    Series(folder=tmp_path, retention=Retention(keep_last=1)).write(policy(0), step=3)
    assert names(tmp_path) == ["best", "step-1", "step-3"]
    assert read_checkpoint(tmp_path / "best").state["steps"] == 0


def test_damaged_ones_do_not_count_as_the_last(tmp_path: Path) -> None:
    train(tmp_path, (1, 2, 3))
    (tmp_path / "step-3" / "state.h5").unlink()
    assert train(tmp_path, (4,), keep_last=2) == {2, 3, 4}
    (tmp_path / "step-2" / "manifest.json").write_text("cut")
    report = apply_retention(tmp_path / "step-4", Retention(keep_last=1))
    assert report.removed == ()
    assert ["step-2" in report.notes[0], "step-3, which is damaged" in report.notes[1]] == [True, True]


@pytest.mark.parametrize("name", ["notes.txt", "videos/", "policies/p1/notes.txt", "policies/p1/model/x.onnx", "own/"])
def test_what_else_lies_in_a_checkpoint_stays_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    series = Series(folder=tmp_path, retention=Retention(keep_last=1))
    first = tmp_path / "step-1"
    series.write(tree(2), step=1)
    if name == "own/":
        write_checkpoint(policy(1), first / "own")
    elif name.endswith("/"):
        (first / name).mkdir()
    else:
        (first / name).parent.mkdir(exist_ok=True)
        (first / name).write_text("mine")
    series.write(tree(2), step=2)
    assert names(tmp_path) == ["step-1", "step-2"]
    assert name.rstrip("/") in caplog.text
    with pytest.raises(CheckpointExistsError, match="remove what else lies there") as caught:
        series.write(tree(3), step=1)
    assert caught.value.found == name.rstrip("/")
    assert verify_checkpoint(first).ok


def test_attachments_and_links_to_nothing_are_parts_of_a_checkpoint_or_not(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    (exports / "x.onnx").write_bytes(b"x")
    series = Series(folder=tmp_path / "runs", retention=Retention(keep_last=1))
    for step in (1, 2):
        series.write(tree(2), step=step, attachments={"policies/p1": exports})
    assert names(tmp_path / "runs") == ["step-2"]
    (tmp_path / "runs" / "step-2" / "link").symlink_to("nowhere")
    series.write(tree(2), step=3)
    assert names(tmp_path / "runs") == ["step-2", "step-3"]


def test_nothing_goes_before_the_commit(tmp_path: Path) -> None:
    train(tmp_path, (1, 2))
    with pytest.raises(CheckpointNotFoundError):
        apply_retention(tmp_path / "step-3", Retention(keep_last=1))
    shutil.copytree(tmp_path / "step-2", tmp_path / "step-3")
    (tmp_path / "step-3" / "state.h5").write_bytes(b"")
    with pytest.raises(CheckpointNotFoundError, match="nothing beside"):
        apply_retention(tmp_path / "step-3", Retention(keep_last=1))
    assert names(tmp_path) == ["step-1", "step-2", "step-3"]


def test_what_cannot_be_removed_fails_no_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    train(tmp_path, (1, 2))
    monkeypatch.setattr(retention, "discard", refuse)
    report = apply_retention(tmp_path / "step-2", Retention(keep_last=1))
    [(path, why)] = report.failed
    assert (path, report.removed) == (tmp_path / "step-1", ())
    assert "denied" in why
    assert "step-1 could not be removed" in caplog.text


def test_what_goes_is_whole_until_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, (1, 2))
    seen: list[list[str]] = []
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: seen.append(names(tmp_path)))
    apply_retention(tmp_path / "step-2", Retention(keep_last=1))
    [[trash, other]] = seen
    assert other == "step-2"
    assert litter.is_litter(Path(trash))


@pytest.mark.parametrize(
    "rules", [{"keep_last": 0}, {"keep_every": -1}, {"keep_best": -1}, {"keep_last": True}, {"goal": "up"}]
)
def test_rules_without_sense(rules: Any) -> None:
    with pytest.raises(ConfigError):
        Retention(**rules)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.none() | st.floats(-1, 1)), min_size=1, max_size=12),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 20),
)
def test_laws(tmp_path_factory: pytest.TempPathFactory, made: Any, last: int | None, every: int | None) -> None:
    """The last, the best and one of every interval that had one stay; a second time nothing more goes."""
    monkey = pytest.MonkeyPatch()
    monkey.setattr(retention, "damage_of", lambda _: "")
    rules = Retention(keep_last=last, keep_every=every)
    series = sorted(
        (
            Recorded(path=Path(f"{index}"), created=f"{index}", step=step, score=score)
            for index, (step, score) in enumerate(made)
        ),
        key=lambda each: (each.step, each.created),
    )
    staying = {each.path for each in kept(series, rules)}
    again = [each for each in series if each.path in staying]
    assert {each.path for each in kept(again, rules)} == staying
    assert {each.path for each in series[-(last or 1) :]} <= staying
    scores = [each.score for each in series if each.score is not None]
    assert not scores or max(scores) in {each.score for each in again}
    if every is not None:
        assert {each.step // every for each in again if each.step is not None} == {step // every for step, _ in made}
    monkey.undo()


def test_a_series(tmp_path: Path) -> None:
    series = Series(folder=tmp_path, if_exists="error", backend="pickle", provenance={"task": "training"})
    path = series.write(policy(0), step=7)
    assert path == series.path_of(7)
    assert (path / "state.pkl").is_file()
    with pytest.raises(CheckpointExistsError):
        series.write(policy(0), step=7)
    with pytest.raises(UnsupportedStateError):
        series.write(policy(0), step=-1)
    assert names(tmp_path) == ["step-7"]
