"""Statistics beside a zip: found by content, proved by the last observations, and refused where that fails."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import NormalizerError, UnsafePayloadError
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.stable_baselines3 import Options, read
from rlpipe.importers.libraries.stable_baselines3.container import open_model
from rlpipe.importers.libraries.stable_baselines3.statistics import read_statistics
from tests.importers.pickles import pickled_as, vec_normalize
from tests.importers.sb3_zips import GOLDEN, Evil, pickled, rewritten

ON, OFF = "ppo_normalised", "sac_normalised"
BOTH = pytest.mark.parametrize("source", [ON, OFF])


def statistics_of(source: str) -> Path:
    return GOLDEN / source / "vecnormalize.pkl"


def placed(source: str, folder: Path, *names: str) -> Path:
    """A golden zip in a folder, with its statistics under these names beside it."""
    path = folder / "model.zip"
    shutil.copy(GOLDEN / f"{source}.zip", path)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(statistics_of(source), folder / name)
    return path


def is_normalised(found: ImportedFile) -> bool:
    return "observation" in found.snapshot.state


def changed(source: str, **attributes: Any) -> bytes:
    """The golden statistics with something else in them."""
    known = read_statistics(statistics_of(source))
    values: dict[str, Any] = {
        "mean": known.mean,
        "var": known.var,
        "count": known.count,
        "clip_obs": known.clip,
        "epsilon": known.eps,
    }
    return vec_normalize(**{**values, "old_obs": known.last_raw, **attributes})


@BOTH
@pytest.mark.parametrize("name", ["vecnormalize.pkl", "any name at all.PICKLE", "model/vecnormalize.pkl"])
def test_statistics_are_found_under_any_name_and_proved(source: str, name: str, tmp_path: Path) -> None:
    found = read(placed(source, tmp_path, name), Options())
    assert is_normalised(found)
    assert any(name in note and "proved: it turns" in note for note in found.report.notes)
    normalizer = found.snapshot.metadata["source"]["normalizer"]
    assert normalizer["file"] == Path(name).name
    assert Path(name).name in found.report.imported


@BOTH
def test_the_numbers_and_the_formula_are_the_files(source: str, tmp_path: Path) -> None:
    found = read(placed(source, tmp_path, "vecnormalize.pkl"), Options())
    known = read_statistics(statistics_of(source))
    np.testing.assert_array_equal(found.snapshot.state["observation"]["normalize"]["mean"], known.mean)
    np.testing.assert_array_equal(found.snapshot.state["observation"]["normalize"]["var"], known.var)
    stage = {"type": "normalize", "formula": "var_eps", "eps": 1e-8, "clip": 10.0}
    assert found.snapshot.spec.config["observation"] == [stage]
    assert {found.snapshot.roles[f"observation/normalize/{name}"] for name in ("mean", "var")} == {"inference"}


def test_missing_statistics_are_an_error_where_they_are_known_to_be_needed(tmp_path: Path) -> None:
    with pytest.raises(NormalizerError) as caught:
        read(placed(ON, tmp_path), Options())
    assert "was trained under VecNormalize" in caught.value.subject
    assert "source.normalizer" in caught.value.fix


def test_the_last_observation_of_sac_outside_its_space_says_so_too(tmp_path: Path) -> None:
    """Its space is 900..1100; a normalised observation lies near 0."""
    with pytest.raises(NormalizerError, match="was trained under VecNormalize"):
        read(placed(OFF, tmp_path), Options())


@BOTH
def test_none_insists_on_no_statistics(source: str, tmp_path: Path) -> None:
    found = read(placed(source, tmp_path, "vecnormalize.pkl"), Options(normalizer="none"))
    assert not is_normalised(found)
    assert any("trained under VecNormalize" in note for note in found.report.notes)


@BOTH
def test_two_files_that_fit_are_an_error_that_names_both(source: str, tmp_path: Path) -> None:
    path = placed(source, tmp_path, "a.pkl")
    known = read_statistics(statistics_of(source))
    assert known.mean is not None
    (tmp_path / "b.pkl").write_bytes(changed(source, mean=known.mean + 1e-9))
    with pytest.raises(NormalizerError) as caught:
        read(path, Options())
    assert caught.value.found == "a.pkl, b.pkl"


@BOTH
def test_two_files_with_the_same_numbers_are_one(source: str, tmp_path: Path) -> None:
    """A callback and the end of training often save at the same step."""
    found = read(placed(source, tmp_path, "a.pkl", "b.pkl"), Options())
    assert is_normalised(found)
    assert any("a.pkl = b.pkl" in note for note in found.report.notes)


@BOTH
def test_the_file_that_is_proved_is_taken_among_others(source: str, tmp_path: Path) -> None:
    path = placed(source, tmp_path, "right.pkl")
    known = read_statistics(statistics_of(source))
    assert known.mean is not None
    (tmp_path / "wrong.pkl").write_bytes(changed(source, mean=known.mean + 0.1))
    (tmp_path / "other_size.pkl").write_bytes(vec_normalize(np.zeros(7), np.ones(7)))
    assert read(path, Options()).snapshot.metadata["source"]["normalizer"]["file"] == "right.pkl"


@BOTH
@pytest.mark.parametrize("change", ["mean", "var", "epsilon", "clip_obs"])
def test_statistics_that_do_not_fit_are_refused(source: str, change: str, tmp_path: Path) -> None:
    known = read_statistics(statistics_of(source))
    assert known.mean is not None
    assert known.var is not None
    new = {"mean": known.mean + 0.1, "var": known.var * 1.1, "epsilon": 0.5, "clip_obs": 0.01}[change]
    path = placed(source, tmp_path)
    (tmp_path / "vecnormalize.pkl").write_bytes(changed(source, **{change: new}))
    with pytest.raises(NormalizerError) as caught:
        read(path, Options())
    assert "vecnormalize.pkl" in str(caught.value)


def test_statistics_for_other_observations_are_no_candidates(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "sac.zip", tmp_path / "model.zip")
    shutil.copy(statistics_of(OFF), tmp_path / "vecnormalize.pkl")
    assert not is_normalised(read(tmp_path / "model.zip", Options()))


def test_a_policy_known_to_be_trained_without_statistics_takes_none(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["_last_original_obs"] = None

    path = rewritten(ON, tmp_path / "model.zip", data=change)
    shutil.copy(statistics_of(ON), tmp_path / "vecnormalize.pkl")
    assert not is_normalised(read(path, Options()))


def test_where_the_zip_does_not_say_statistics_have_to_be_proved(tmp_path: Path) -> None:
    """The oldest files lack the field."""

    def change(data: dict[str, Any]) -> None:
        del data["_last_original_obs"]

    path = rewritten(ON, tmp_path / "model.zip", data=change)
    assert not is_normalised(read(path, Options()))
    shutil.copy(statistics_of(ON), tmp_path / "vecnormalize.pkl")
    assert is_normalised(read(path, Options()))


def test_a_file_named_is_taken_unproved_and_says_so(tmp_path: Path) -> None:
    known = read_statistics(statistics_of(ON))
    assert known.mean is not None
    (tmp_path / "mine.pkl").write_bytes(changed(ON, mean=known.mean + 0.1))
    found = read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))
    assert is_normalised(found)
    assert any("mine.pkl as named; not proved" in note for note in found.report.notes)


@pytest.mark.parametrize(
    ("source", "attributes", "words"),
    [(OFF, {"mean": np.full(3, 7.0)}, "miss it by up to"), (ON, {"clip_obs": 1e-3}, "clip_obs 0.001")],
)
def test_a_file_named_that_the_zip_disproves_is_refused(
    source: str, attributes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.pkl").write_bytes(changed(source, **attributes))
    with pytest.raises(NormalizerError) as caught:
        read(placed(source, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))
    assert "mine.pkl" in caught.value.subject
    assert words in caught.value.found


@BOTH
@pytest.mark.parametrize("junk", [b"\x80VecNormalize\xff\xfe", b"\x80\x04]\x94\x8c\x0cVecNormalize\x94a."])
def test_a_file_that_cannot_be_read_does_not_hide_the_proved_one(source: str, junk: bytes, tmp_path: Path) -> None:
    path = placed(source, tmp_path, "good.pkl")
    (tmp_path / "a_junk.pkl").write_bytes(junk)
    found = read(path, Options())
    assert found.snapshot.metadata["source"]["normalizer"]["file"] == "good.pkl"
    assert any(note.startswith("passed over a_junk.pkl: ") for note in found.report.notes)
    (tmp_path / "good.pkl").unlink()
    with pytest.raises((NormalizerError, UnsafePayloadError), match=r"a_junk\.pkl"):
        read(path, Options())


def test_a_file_for_other_observations_is_named_where_nothing_is_known(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update(num_timesteps=0, _last_obs=None, _last_original_obs=None)

    path = rewritten("ppo_discrete", tmp_path / "model.zip", data=change)
    (tmp_path / "vecnormalize.pkl").write_bytes(vec_normalize(np.zeros(7), np.ones(7)))
    found = read(path, Options())
    assert not is_normalised(found)
    assert any("vecnormalize.pkl" in note and "(7,)" in note for note in found.report.notes)


def checkpointed(source: str, folder: Path, *, together: bool) -> Path:
    """What CheckpointCallback leaves: the statistics of a step with the observations of the step before."""
    known = read_statistics(statistics_of(source))
    model = open_model(GOLDEN / f"{source}.zip")
    raw = np.array([[0.3, 1003.0, -0.2]], np.float32)
    assert known.mean is not None
    assert known.var is not None
    count = known.count + 1
    mean = known.mean + (raw[0] - known.mean) / count
    var = (known.var * known.count + np.square(raw[0] - known.mean) * known.count / count) / count

    def step(data: dict[str, Any]) -> None:
        data["num_timesteps"] = model.steps + 1

    later = vec_normalize(mean, var, count=count, old_obs=raw)
    (folder / f"run_vecnormalize_{49 if together else 9}_steps.pkl").write_bytes(later)
    return rewritten(source, folder / "run_49_steps.zip", data=step)


def test_a_checkpoint_of_sac_is_proved_by_the_step_before(tmp_path: Path) -> None:
    found = read(checkpointed(OFF, tmp_path, together=False), Options())
    assert any("proved: it turns" in note for note in found.report.notes)


def test_a_checkpoint_of_ppo_is_taken_by_its_name_and_count(tmp_path: Path) -> None:
    found = read(checkpointed(ON, tmp_path, together=True), Options())
    assert is_normalised(found)
    assert any("not proved" in note for note in found.report.notes)


def test_a_checkpoint_of_ppo_of_another_step_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(NormalizerError, match="nothing proves"):
        read(checkpointed(ON, tmp_path, together=False), Options())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["mean", "var", "count", "epsilon"])
def test_statistics_that_are_not_finite_are_refused_by_name(bad: float, part: str, tmp_path: Path) -> None:
    value: Any = np.array([0.0, bad, 1.0]) if part in ("mean", "var") else bad
    (tmp_path / "mine.pkl").write_bytes(changed(ON, **{part: value}))
    with pytest.raises(NormalizerError) as caught:
        read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))
    assert part in caught.value.subject
    assert "mine.pkl" in caught.value.subject


def test_a_negative_variance_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.pkl").write_bytes(changed(ON, var=np.array([1.0, -1.0, 1.0])))
    with pytest.raises(NormalizerError, match=r"mine\.pkl is broken"):
        read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))


@pytest.mark.parametrize("given", ["absent.pkl", "."])
def test_a_path_without_a_file_is_named(given: str, tmp_path: Path) -> None:
    with pytest.raises(NormalizerError, match="there is no statistics file"):
        read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / given)))


def test_another_size_is_refused_where_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.pkl").write_bytes(vec_normalize(np.zeros(7), np.ones(7)))
    with pytest.raises(NormalizerError) as caught:
        read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))
    assert (caught.value.expected, caught.value.found) == ("statistics of shape (3,)", "statistics of shape (7,)")


def test_another_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.pkl").write_bytes(pickled_as("mine.Buffer", {"observations": np.zeros(3)}))
    with pytest.raises(NormalizerError) as caught:
        read(placed(ON, tmp_path), Options(normalizer=str(tmp_path / "mine.pkl")))
    assert caught.value.found == "mine.Buffer"


def test_statistics_for_choices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NormalizerError, match="not numbers to normalise"):
        read(GOLDEN / "a2c_choices.zip", Options(normalizer=str(statistics_of(ON))))


def test_a_wrapper_that_leaves_observations_alone_changes_nothing(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["_last_obs"] = pickled(np.array([[0.5, 1000.0, 0.5]], np.float32))

    path = rewritten(ON, tmp_path / "model.zip", data=change)
    raw = np.array([[0.5, 1000.0, 0.5]], np.float32)
    (tmp_path / "rewards.pkl").write_bytes(vec_normalize(np.zeros(3), np.ones(3), norm_obs=False, old_obs=raw))
    found = read(path, Options())
    assert not is_normalised(found)
    assert any("rewards.pkl" in note for note in found.report.notes)


def test_code_in_statistics_is_not_run(tmp_path: Path) -> None:
    import pickle

    mark = tmp_path / "mark"
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps({"VecNormalize": Evil(mark)}))
    for options in (Options(), Options(normalizer=str(tmp_path / "evil.pkl"))):
        with pytest.raises((NormalizerError, UnsafePayloadError)):
            read(placed(ON, tmp_path), options)
    assert not mark.exists()


def test_large_files_and_other_pickles_beside_the_zip_are_not_opened(tmp_path: Path) -> None:
    path = placed(OFF, tmp_path, "vecnormalize.pkl")
    (tmp_path / "replay_buffer.pkl").write_bytes(b"\x80\x04" + b"\xff" * 1000)
    with (tmp_path / "huge.pkl").open("wb") as stream:
        stream.write(b"\x80\x04VecNormalize")
        stream.truncate(2**31)
    assert is_normalised(read(path, Options()))
