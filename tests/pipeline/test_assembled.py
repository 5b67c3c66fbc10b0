"""Policies of several checkpoints as a new one, with what trains them, and other tasks on such checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpipe
from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.checkpoint.reader import read_checkpoint, read_manifest
from rlpipe.errors import CheckpointNotFoundError, ConfigError, IdError, IntegrityError, SpecError
from rlpipe.pipeline.settings import (
    ASSEMBLE,
    BaseSettings,
    CheckpointSettings,
    RestoreSettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.state import entries, equal
from tests.algorithms.whole import TRUST, go, require_in_step, whole
from tests.pipeline.checkpoints import Runner


@pytest.fixture(name="trained", scope="module")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a: p0, p1; b: main; each with a learner and runners."""
    folder = tmp_path_factory.mktemp("trained")
    for name, ids, seed in (("a", ("p0", "p1"), 0), ("b", ("main",), 7), ("c", ("p0", "p1"), 30)):
        made = whole(*ids, seed=seed)
        go(made, 2)
        made.save_to_path(folder / name)
    return folder


def sources(folder: Path, **more: Any) -> SourceSettings:
    paths = {"q": f"{folder}/a/policies/p1", "r": f"{folder}/b/policies/main"}
    return SourceSettings(kind=ASSEMBLE, policies=more.pop("policies", paths), **more)


OUT = CheckpointSettings(path="out")


def test_policies_of_two_checkpoints_become_one(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    report = run_task("save", source=sources(trained), checkpoint=OUT)
    for new, old in (("q", "a/policies/p1"), ("r", "b/policies/main")):
        expected, found = read_manifest(trained / old), read_manifest(tmp_path / "out/policies" / new)
        assert expected.content_hash == found.content_hash
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "policies"]
    assert report.warnings == ("what trains q, r was left: source.learner=copy takes it along",)
    assert str(trained) not in (tmp_path / "out/manifest.json").read_text()


def test_what_trains_them_comes_along_and_goes_on(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    run_task("save", source=sources(trained, learner="copy"), checkpoint=OUT)
    for new, old in (("q", "a/learner/p1"), ("r", "b/learner/main")):
        expected, found = read_manifest(trained / old), read_manifest(tmp_path / "out/learner" / new)
        assert expected.content_hash == found.content_hash
    made = Algorithm.from_checkpoint(tmp_path / "out", trust=TRUST)
    assert made.policies_to_train == ("q", "r")
    run_task("save", source=sources(trained, learner="copy"), checkpoint=CheckpointSettings(path="again"))
    assert read_manifest(tmp_path / "again").content_hash == read_manifest(tmp_path / "out").content_hash


def test_what_trains_policies_that_are_taken_out_is_told(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    one = run_task(
        "save",
        source=SourceSettings(path=str(trained / "a")),
        checkpoint=OUT,
        select=SelectSettings(policy_ids=("p1",)),
    )
    assert any("what trains p1 stays behind" in warning for warning in one.warnings)
    slim = SelectSettings(policy_ids=("p1",), roles=("inference",))
    for name, select in (("slim", slim), ("all", SelectSettings())):
        report = run_task(
            "save",
            source=SourceSettings(path=str(trained / "a")),
            checkpoint=CheckpointSettings(path=name),
            select=select,
        )
        assert not any("stays behind" in warning for warning in report.warnings)


def test_layers_that_were_shared_are_told(run_task: Runner, tmp_path: Path) -> None:
    made: Any = whole("p0", "p1", runners=1)
    made.get_policy("p1").module.encoder = made.get_policy("p0").module.encoder
    path = made.policies.save_to_path(tmp_path / "shared/policies")
    report = run_task("save", source=SourceSettings(kind=ASSEMBLE, policies={"q": f"{path}/p1"}), checkpoint=OUT)
    (told,) = (warning for warning in report.warnings if "shares" in warning)
    assert told.startswith("q: shares 4 arrays with p0 there")


def test_a_model_file_is_a_policy_too(run_task: Runner, trained: Path, sb3_zip: Path, tmp_path: Path) -> None:
    run_task("save", source=sources(trained, policies={"zip": str(sb3_zip)}), checkpoint=OUT)
    rlpipe.save(sb3_zip, tmp_path / "alone")
    found, expected = (read_manifest(tmp_path / name) for name in ("out/policies/zip", "alone/policies/p0"))
    assert found.content_hash == expected.content_hash


@pytest.mark.parametrize(
    ("policies", "more", "error"),
    [
        ({}, {}, ConfigError),
        ({"q": "a"}, {}, ConfigError),
        ({"q": "a/policies"}, {}, ConfigError),
        ({"q": "nowhere"}, {}, CheckpointNotFoundError),
        ({"a/b": "a/policies/p0"}, {}, IdError),
        ({"q": "a/policies/p0"}, {"path": "a"}, ConfigError),
        ({"q": "a/learner/p0/policy"}, {"learner": "copy"}, SpecError),
    ],
)
def test_what_cannot_be_assembled_is_told(
    run_task: Runner, trained: Path, policies: dict[str, str], more: dict[str, Any], error: type[Exception]
) -> None:
    given = {name: f"{trained}/{path}" for name, path in policies.items()}
    with pytest.raises(error):
        run_task("save", source=sources(trained, policies=given, **more), checkpoint=OUT)
    assert not Path("out").exists()


def test_a_learner_of_another_policy_is_refused(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    made = Algorithm.from_checkpoint(trained / "b", trust=TRUST)
    state = made.get_state()
    state["policies"]["main"]["pi"]["logits"]["bias"] = state["policies"]["main"]["pi"]["logits"]["bias"] + 1
    path = made.save_to_path(tmp_path / "odd", state=state)
    given = sources(trained, policies={"q": f"{path}/policies/main"}, learner="copy")
    with pytest.raises(IntegrityError, match="trains another policy"):
        run_task("save", source=given, checkpoint=OUT)


def test_assembling_is_for_saving(run_task: Runner, trained: Path) -> None:
    with pytest.raises(ConfigError, match="task=save"):
        run_task("restore", source=sources(trained))


def restored(run_task: Runner, trained: Path, tmp_path: Path, **more: Any) -> tuple[Algorithm, Any]:
    report = run_task(
        "subset_restore",
        source=SourceSettings(path=str(trained / "a")),
        base=BaseSettings(path=str(trained / "c")),
        checkpoint=OUT,
        **more,
    )
    made = Algorithm.from_checkpoint(tmp_path / "out", trust=TRUST)
    require_in_step(made)
    return made, report


def learner_part(path: Path, name: str) -> Snapshot:
    return read_checkpoint(path / "learner" / name)


def test_a_policy_put_into_a_base_brings_its_training(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    made, report = restored(run_task, trained, tmp_path, select=SelectSettings(policy_ids=("p1",)))
    for name, source in (("p0", "c"), ("p1", "a")):
        found, expected = learner_part(tmp_path / "out", name), learner_part(trained / source, name)
        assert equal(found.state, expected.state)
        assert equal(found.children["policy"].state, expected.children["policy"].state)
    outcomes = {placed["path"]: placed["outcome"] for placed in report.to_json()["components"]}
    assert outcomes["policies/p1"] == "restored"
    assert outcomes["learner/p1/policy"] == outcomes["env_runner/policies/p1"] == "in step"
    assert outcomes["learner/p0"] == "kept"
    go(made, 1)


def test_parts_of_a_policy_bring_their_moments(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    chosen = SelectSettings(policy_ids=("p1",), keys=("encoder/*",))
    restored(run_task, trained, tmp_path, select=chosen)
    found, ours, theirs = (
        entries(learner_part(path, "p1").state) for path in (tmp_path / "out", trained / "c", trained / "a")
    )
    for key, value in found.items():
        assert equal(value, (theirs if key.startswith("moments/encoder") else ours)[key])


def test_without_its_training_a_policy_starts_anew(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    slim = {"select": SelectSettings(roles=("inference",)), "source": SourceSettings(path=str(trained / "a"))}
    run_task("save", checkpoint=CheckpointSettings(path="slim"), **slim)
    assert sorted(path.name for path in Path("slim").iterdir()) == ["manifest.json", "policies"]
    report = run_task(
        "subset_restore",
        source=SourceSettings(path="slim"),
        base=BaseSettings(path=str(trained / "c")),
        select=SelectSettings(policy_ids=("p1",)),
        checkpoint=OUT,
    )
    (note,) = report.notes
    assert note.startswith("p1: the optimizer starts anew for encoder/actor_encoder/0/bias")
    found = entries(learner_part(tmp_path / "out", "p1").state)
    assert equal(found["moments/pi/logits/weight"], ({},))
    assert not equal(found["moments/vf/weight"], ({},))


def test_a_renamed_policy_is_renamed_everywhere(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    run_task("save", source=SourceSettings(path=str(trained / "a")), rename={"p0": "main"}, checkpoint=OUT)
    made = Algorithm.from_checkpoint(tmp_path / "out", trust=TRUST)
    require_in_step(made)
    assert made.policies_to_train == ("main", "p1")
    assert made.mapping is not None
    assert made.mapping.to_json() == {"0": "main", "1": "p1"}
    go(made, 1)


def test_info_and_save_list_each_policy_once(run_task: Runner, trained: Path) -> None:
    report = run_task("save", source=SourceSettings(path=str(trained / "a")), checkpoint=OUT)
    assert list(report.to_json()["checkpoint"]["policies"]) == ["p0", "p1"]
    assert report.warnings == ()
    info = run_task("info", source=SourceSettings(path=str(trained / "a")))
    assert info.to_json()["policy_ids"] == ["p0", "p1"]
    assert run_task("verify", source=SourceSettings(path=str(trained / "a"))).ok


def test_other_shapes_by_the_setting(run_task: Runner, trained: Path, tmp_path: Path) -> None:
    from tests.algorithms.test_part_restore import narrow, wider

    source, _ = narrow(tmp_path)
    base = wider().save_to_path(tmp_path / "wide")
    given: dict[str, Any] = {
        "source": SourceSettings(path=str(source)),
        "base": BaseSettings(path=base),
        "checkpoint": OUT,
    }
    with pytest.raises(SpecError):
        run_task("subset_restore", **given)
    report = run_task("subset_restore", restore=RestoreSettings(on_shape="copy_overlap"), **given)
    assert any("copied as far as both reach" in note for note in report.notes)
    Algorithm.from_checkpoint(tmp_path / "out", trust=TRUST)


def test_components_say_what_they_are_and_which_hold_no_policy_of_their_own(run_task: Runner, trained: Path) -> None:
    kinds = {
        part["path"]: part["kind"]
        for part in run_task("info", source=SourceSettings(path=str(trained / "a"))).to_json()["components"]
    }
    assert (kinds["learner"], kinds["learner/p1"], kinds["learner/p1/policy"]) == ("learner", "training", "policy")
    for name in ("learner", "learner/p1"):
        with pytest.raises(SpecError, match="holds no policy") as caught:
            run_task("restore", source=SourceSettings(path=str(trained / "a" / name)))
        assert "policy" in caught.value.fix
    report = run_task("restore", source=SourceSettings(path=str(trained / "a/learner/p1/policy")))
    assert report.to_json()["policies"][0]["policy_id"] == "policy"


def test_other_bounds_of_observations_are_a_note(run_task: Runner, tmp_path: Path) -> None:
    from dataclasses import replace

    from rlpipe.snapshot.spaces import Box
    from tests.algorithms.training import policy

    one, other = policy(0), policy(1)
    wide = Box.uniform(-2, 2, (3,))
    other.spec = replace(other.spec, observation_space=wide)
    for name, made in (("one", one), ("other", other)):
        Algorithm({"p0": made}).save_to_path(tmp_path / name)
    given = {"source": SourceSettings(path=str(tmp_path / "one")), "base": BaseSettings(path=str(tmp_path / "other"))}
    report = run_task("subset_restore", checkpoint=OUT, **given)
    (note,) = report.notes
    assert note.startswith("p0: observation_space: bounds")
