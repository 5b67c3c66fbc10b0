from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rlpipe
from rlpipe.errors import SelectionError, SpecError, StateMismatchError, TieError
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, SAC, Runner, algorithm, box, files, roles, write

ONE = SelectSettings(policy_ids=("p1",))


def array(component: Path, key: str) -> np.ndarray:
    with h5py.File(component / "state.h5", "r") as file:
        return np.asarray(file[key][()])


def test_one_policy_is_restored_and_every_other_byte_is_the_bases(
    run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path
) -> None:
    before = files(other)
    report = run_task(
        "subset_restore",
        source=SourceSettings(path=str(checkpoint)),
        base=BaseSettings(path=str(other)),
        select=ONE,
        checkpoint=CheckpointSettings(path="c"),
    )
    result = tmp_path / "c/policies"
    assert files(result / "p1") == files(checkpoint / "policies/p1")
    assert files(result / "p0") == files(other / "policies/p0")
    assert files(result / "p2") == files(other / "policies/p2")
    assert files(other) == before
    outcomes = {part["path"]: part for part in report.to_json()["components"]}
    assert {path: part["outcome"] for path, part in outcomes.items()} == {
        "policies/p0": "kept",
        "policies/p1": "restored",
        "policies/p2": "kept",
    }
    assert outcomes["policies/p1"]["restored"] == sorted(roles(checkpoint / "policies/p1"))
    assert outcomes["policies/p0"]["kept"] == sorted(roles(other / "policies/p0"))


def test_a_source_that_lost_its_other_policies_will_do(
    run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path
) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    shutil.rmtree(tmp_path / "a/policies/p0")
    (tmp_path / "a/policies/p2/state.h5").write_bytes(b"nonsense")
    run_task(
        "subset_restore",
        source=SourceSettings(path="a"),
        base=BaseSettings(path=str(other)),
        select=ONE,
        checkpoint=CheckpointSettings(path="c"),
    )
    assert files(tmp_path / "c/policies/p1") == files(checkpoint / "policies/p1")


def test_freshly_built_policies_are_a_base(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    report = run_task(
        "subset_restore", source=SourceSettings(path=str(other)), select=ONE, checkpoint=CheckpointSettings(path="c")
    )
    assert report.to_json()["base"]["kind"] == "built"
    assert files(tmp_path / "c/policies/p1") == files(other / "policies/p1")
    assert files(tmp_path / "c/policies/p0") == files(checkpoint / "policies/p0"), "the configured policies of seed 0"
    assert any(text.startswith("no base.path was named: p0, p2 are new") for text in report.warnings)


def test_a_base_that_was_not_named_is_asked_for(run_task: Runner, sb3_zip: Path) -> None:
    with pytest.raises(SpecError) as caught:
        run_task("subset_restore", source=SourceSettings(path=str(sb3_zip)), checkpoint=CheckpointSettings(path="c"))
    assert caught.value.fix.startswith("name the base: base.path=")


def test_a_policy_under_another_name_is_added(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    report = run_task(
        "subset_restore",
        source=SourceSettings(path=str(checkpoint)),
        base=BaseSettings(path=str(other)),
        select=ONE,
        rename={"p1": "p7"},
        checkpoint=CheckpointSettings(path="c"),
    )
    result = tmp_path / "c/policies"
    assert files(result / "p7") == files(checkpoint / "policies/p1")
    assert all(files(result / name) == files(other / "policies" / name) for name in ("p0", "p1", "p2"))
    assert "added" in {part["outcome"] for part in report.to_json()["components"]}


def test_only_what_acts_is_restored(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    select = SelectSettings(policy_ids=("p1",), roles=("inference",))
    report = run_task(
        "subset_restore",
        source=SourceSettings(path=str(checkpoint)),
        base=BaseSettings(path=str(other)),
        select=select,
        checkpoint=CheckpointSettings(path="c"),
    )
    for key, role in roles(tmp_path / "c/policies/p1").items():
        origin = checkpoint if role == "inference" else other
        assert np.array_equal(array(tmp_path / "c/policies/p1", key), array(origin / "policies/p1", key)), key
    (part,) = [part for part in report.to_json()["components"] if part["path"] == "policies/p1"]
    assert part["outcome"] == "in part"
    assert part["kept"] == sorted(key for key, role in roles(other / "policies/p1").items() if role == "training")


def test_only_some_keys_are_restored(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    select = SelectSettings(policy_ids=("p1",), keys=("pi",))
    run_task(
        "subset_restore",
        source=SourceSettings(path=str(checkpoint)),
        base=BaseSettings(path=str(other)),
        select=select,
        checkpoint=CheckpointSettings(path="c"),
    )
    for key in roles(other / "policies/p1"):
        origin = checkpoint if key.startswith("pi/") else other
        assert np.array_equal(array(tmp_path / "c/policies/p1", key), array(origin / "policies/p1", key)), key


def test_a_slim_policy_that_the_base_lacks_is_added_slim(
    run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path
) -> None:
    select = SelectSettings(policy_ids=("p1",), roles=("inference",))
    run_task(
        "subset_restore",
        source=SourceSettings(path=str(checkpoint)),
        base=BaseSettings(path=str(other)),
        select=select,
        rename={"p1": "p7"},
        checkpoint=CheckpointSettings(path="c"),
    )
    assert set(roles(tmp_path / "c/policies/p7").values()) == {"inference"}
    assert run_task("restore", source=SourceSettings(path="c")).ok


def test_keys_need_a_policy_to_go_into(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    select = SelectSettings(policy_ids=("p1",), keys=("pi",))
    with pytest.raises(SpecError):
        run_task(
            "subset_restore",
            source=SourceSettings(path=str(checkpoint)),
            base=BaseSettings(path=str(other)),
            select=select,
            rename={"p1": "p7"},
            checkpoint=CheckpointSettings(path="c"),
        )
    assert not (tmp_path / "c").exists()


def test_another_kind_of_policy_is_refused_unless_it_may_replace(run_task: Runner, tmp_path: Path, other: Path) -> None:
    policy = PolicySettings(module=SAC, observation_space=box(4), action_space=box(2))
    source = write(tmp_path / "sac", algorithm(p1=policy))
    given = {"source": SourceSettings(path=str(source)), "checkpoint": CheckpointSettings(path="c")}
    with pytest.raises(SpecError) as caught:
        run_task("subset_restore", base=BaseSettings(path=str(other)), **given)
    assert "policies/p1" in caught.value.subject
    assert not (tmp_path / "c").exists()
    run_task("subset_restore", base=BaseSettings(path=str(other), on_mismatch="replace"), **given)
    assert files(tmp_path / "c/policies/p1") == files(source / "policies/p1")


def test_a_part_of_another_shape_is_refused(run_task: Runner, tmp_path: Path, other: Path) -> None:
    policy = PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(5))
    source = write(tmp_path / "wide", algorithm(p1=policy))
    with pytest.raises((SpecError, StateMismatchError)):
        run_task(
            "subset_restore",
            source=SourceSettings(path=str(source)),
            base=BaseSettings(path=str(other)),
            select=SelectSettings(keys=("pi",)),
            checkpoint=CheckpointSettings(path="c"),
        )
    assert not (tmp_path / "c").exists()


def test_a_foreign_file_goes_into_a_base(run_task: Runner, tmp_path: Path, other: Path, sb3_zip: Path) -> None:
    run_task(
        "subset_restore",
        source=SourceSettings(path=str(sb3_zip), policy_id="walker"),
        base=BaseSettings(path=str(other)),
        checkpoint=CheckpointSettings(path="c"),
    )
    run_task(
        "save", source=SourceSettings(path=str(sb3_zip), policy_id="walker"), checkpoint=CheckpointSettings(path="d")
    )
    assert files(tmp_path / "c/policies/walker") == files(tmp_path / "d/policies/walker")


def test_unknown_ids_are_refused(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    for extra in ({"select": SelectSettings(policy_ids=("p9",))}, {"rename": {"p9": "p8"}}):
        with pytest.raises(SelectionError):
            run_task(
                "subset_restore",
                source=SourceSettings(path=str(checkpoint)),
                base=BaseSettings(path=str(other)),
                checkpoint=CheckpointSettings(path="c"),
                **extra,
            )
    assert not (tmp_path / "c").exists()


def test_layers_that_policies_share_are_not_torn_apart(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    base = rlpipe.Algorithm.from_checkpoint(checkpoint)
    modules: list[Any] = [base.get_policy(name).module for name in ("p0", "p1")]
    modules[1].encoder.actor_encoder = modules[0].encoder.actor_encoder
    base.save_to_path(tmp_path / "tied")
    given = {
        "source": SourceSettings(path=str(checkpoint)),
        "base": BaseSettings(path="tied"),
        "checkpoint": CheckpointSettings(path="c"),
    }
    with pytest.raises(TieError):
        run_task("subset_restore", select=ONE, **given)
    assert not (tmp_path / "c").exists()
    run_task("subset_restore", select=SelectSettings(policy_ids=("p1",), ties="untie"), **given)
    key = "encoder/actor_encoder/0/weight"
    assert np.array_equal(array(tmp_path / "c/policies/p1", key), array(checkpoint / "policies/p1", key))
    assert np.array_equal(array(tmp_path / "c/policies/p0", key), array(checkpoint / "policies/p0", key))


def test_a_slim_source_leaves_the_bases_training_state_alone(
    run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path
) -> None:
    run_task(
        "save",
        source=SourceSettings(path=str(checkpoint)),
        select=SelectSettings(roles=("inference",)),
        checkpoint=CheckpointSettings(path="slim"),
    )
    report = run_task(
        "subset_restore",
        source=SourceSettings(path="slim"),
        base=BaseSettings(path=str(other)),
        select=ONE,
        checkpoint=CheckpointSettings(path="c"),
    )
    placed = next(part for part in report.to_json()["components"] if part["path"] == "policies/p1")
    before = roles(other / "policies/p1")
    training = sorted(key for key, role in before.items() if role == "training")
    assert training
    assert (placed["outcome"], placed["kept"], placed["dropped"]) == ("in part", training, [])
    result = tmp_path / "c/policies/p1"
    assert roles(result) == before
    for key, role in before.items():
        origin = checkpoint if role == "inference" else other
        np.testing.assert_array_equal(array(result, key), array(origin / "policies/p1", key))


def test_what_another_spec_drops_is_listed(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    run_task(
        "save",
        algorithm=algorithm(p1=PolicySettings(module=SAC, observation_space=box(3), action_space=box(1))),
        checkpoint=CheckpointSettings(path="sac"),
    )
    report = run_task(
        "subset_restore",
        source=SourceSettings(path="sac"),
        base=BaseSettings(path=str(other), on_mismatch="replace"),
        select=ONE,
        checkpoint=CheckpointSettings(path="c"),
    )
    placed = next(part for part in report.to_json()["components"] if part["path"] == "policies/p1")
    old, new = roles(other / "policies/p1"), roles(tmp_path / "c/policies/p1")
    assert placed["dropped"] == sorted(old.keys() - new.keys()) != []
