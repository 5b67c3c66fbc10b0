from __future__ import annotations

import io
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rlpipe
from rlpipe.checkpoint import retention
from rlpipe.checkpoint.retention import Retention
from rlpipe.errors import ConfigError, RlpipeError, SelectionError
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import (
    AlgorithmSettings,
    CheckpointSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box, files, roles

GOLDEN = Path(__file__).parents[2] / "golden" / "sb3"


def arrays_of(component: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with h5py.File(component / "state.h5", "r") as file:
        file.visititems(lambda key, item: found.update({key: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def test_good_news_is_no_warning(run_task: Runner) -> None:
    normalised = GOLDEN / "ppo_normalised.zip"
    report = run_task("save", source=SourceSettings(path=str(normalised)), checkpoint=CheckpointSettings(path="c"))
    (note,) = report.to_json()["notes"]
    assert "vecnormalize.pkl found beside the zip; proved" in note
    assert not any("proved" in text for text in report.warnings)
    stream = io.StringIO()
    show(report.render(), stream)
    assert f"note: {note}" in stream.getvalue().splitlines()


def test_a_checkpoint_that_does_not_last_is_warned_of(run_task: Runner) -> None:
    said = "memory:// lasts as long as this process"
    report = run_task("save", checkpoint=CheckpointSettings(path="memory://passing/a"))
    assert said in report.warnings
    assert said not in run_task("save", checkpoint=CheckpointSettings(path="memory/a")).warnings


def test_the_configured_policies_are_built_and_say_so(run_task: Runner, tmp_path: Path) -> None:
    report = run_task("save")
    (written,) = (tmp_path / "outputs/checkpoints").iterdir()
    assert written.name.endswith("-save")
    assert report.to_json()["checkpoint"]["path"] == written.relative_to(tmp_path).as_posix()
    assert sorted(path.name for path in (written / "policies").iterdir() if path.is_dir()) == ["p0", "p1", "p2"]
    shapes = {key: array.shape for key, array in arrays_of(written / "policies/p0").items()}
    assert shapes["encoder/actor_encoder/0/weight"] == (8, 4)
    assert shapes["pi/logits/weight"] == (2, 8)
    assert "p0, p1, p2 were never trained" in report.warnings[0]


def test_weights_depend_on_seed_and_id_alone(run_task: Runner, tmp_path: Path, checkpoint: Path, other: Path) -> None:
    chosen = SelectSettings(policy_ids=("p1",))
    run_task("save", select=chosen, checkpoint=CheckpointSettings(path="alone"))
    alone = files(tmp_path / "alone/policies/p1")
    assert alone == files(checkpoint / "policies/p1")
    assert alone["state.h5"] != files(checkpoint / "policies/p0")["state.h5"]
    assert alone["state.h5"] != files(other / "policies/p1")["state.h5"]


def test_building_leaves_the_random_numbers_of_the_process_alone(run_task: Runner) -> None:
    import torch

    before = torch.random.get_rng_state()
    run_task("save", checkpoint=CheckpointSettings(path="a"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_hdf5_to_pickle_and_back_is_equal_to_the_byte(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    first = run_task(
        "save", source=SourceSettings(path=str(checkpoint)), checkpoint=CheckpointSettings(path="b", backend="pickle")
    )
    second = run_task("save", source=SourceSettings(path="b"), checkpoint=CheckpointSettings(path="c"))
    hashes = {report.to_json()["checkpoint"]["content_hash"] for report in (first, second)}
    assert len(hashes) == 1
    assert files(tmp_path / "c/policies") == files(checkpoint / "policies")
    with (tmp_path / "b/policies/p2/state.pkl").open("rb") as file:
        pickled = pickle.load(file)
    original = arrays_of(checkpoint / "policies/p2")
    assert pickled.keys() == original.keys()
    assert all(np.array_equal(pickled[key], original[key]) for key in original)


def test_a_slim_checkpoint_has_inference_arrays_only_and_the_same_fingerprint(
    run_task: Runner, tmp_path: Path, checkpoint: Path
) -> None:
    source = SourceSettings(path=str(checkpoint))
    slim = run_task(
        "save", source=source, select=SelectSettings(roles=("inference",)), checkpoint=CheckpointSettings(path="slim")
    )
    full = run_task("save", source=source, checkpoint=CheckpointSettings(path="full"))
    for name, policy in full.to_json()["checkpoint"]["policies"].items():
        other = slim.to_json()["checkpoint"]["policies"][name]
        assert other["fingerprint"] == policy["fingerprint"]
        assert other["training"]["arrays"] == 0 < policy["training"]["arrays"]
        assert other["options"]["inference_only"] is True
        kept = {key for key, role in roles(checkpoint / "policies" / name).items() if role == "inference"}
        assert arrays_of(tmp_path / "slim/policies" / name).keys() == kept


def test_saving_a_slim_checkpoint_again_changes_nothing(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    slim = SelectSettings(roles=("inference",))
    run_task("save", source=SourceSettings(path=str(checkpoint)), select=slim, checkpoint=CheckpointSettings(path="a"))
    run_task("save", source=SourceSettings(path="a"), checkpoint=CheckpointSettings(path="b"))
    assert files(tmp_path / "a/policies") == files(tmp_path / "b/policies")


def test_module_options_of_one_policy(run_task: Runner, tmp_path: Path) -> None:
    slim, less = replace(PPO, inference_only=True), replace(PPO, non_inference_attributes=("vf",))
    policies = [
        PolicySettings(module=module, observation_space=box(4), action_space=Discrete(2))
        for module in (slim, less, PPO)
    ]
    built = algorithm(slim=policies[0], less=policies[1], full=policies[2])
    run_task("save", algorithm=built, checkpoint=CheckpointSettings(path="a"))
    full = roles(tmp_path / "a/policies/full")
    assert set(roles(tmp_path / "a/policies/slim").values()) == {"inference"}
    assert roles(tmp_path / "a/policies/slim").items() < full.items()
    training = {key for key, role in roles(tmp_path / "a/policies/less").items() if role == "training"}
    assert training == {"vf/weight", "vf/bias"}


def test_attributes_that_inference_needs_are_refused(run_task: Runner, tmp_path: Path) -> None:
    module = replace(PPO, non_inference_attributes=("vf", "pi"))
    built = algorithm(p0=PolicySettings(module=module, observation_space=box(4), action_space=Discrete(2)))
    with pytest.raises(ConfigError) as caught:
        run_task("save", algorithm=built, checkpoint=CheckpointSettings(path="a"))
    assert "pi" in caught.value.found
    assert "vf" not in caught.value.found.split(":")[0]
    assert not (tmp_path / "a").exists()


def test_a_foreign_file_becomes_a_checkpoint_that_acts_the_same(
    run_task: Runner, tmp_path: Path, sb3_zip: Path
) -> None:
    source = SourceSettings(path=str(sb3_zip), policy_id="walker")
    report = run_task("save", source=source, checkpoint=CheckpointSettings(path="a"))
    assert report.source.kind == "stable_baselines3"
    assert report.to_json()["skipped"]
    stream = io.StringIO()
    show(report.render(), stream)
    (said,) = (line for line in stream.getvalue().splitlines() if "left in the file" in line)
    assert "optimizer" in said
    assert len(said) < 200
    policy = rlpipe.restore(tmp_path / "a").policies["walker"]
    with np.load(sb3_zip.with_suffix(".npz")) as known:
        np.testing.assert_allclose(policy.compute_actions(known["observations"]), known["actions"], rtol=0, atol=1e-6)


def test_rename(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, rename={"p1": "p7"}, checkpoint=CheckpointSettings(path="a"))
    assert files(tmp_path / "a/policies/p7") == files(checkpoint / "policies/p1")
    assert not (tmp_path / "a/policies/p1").exists()
    with pytest.raises(SelectionError) as caught:
        run_task("save", source=source, rename={"p9": "p7"}, checkpoint=CheckpointSettings(path="b"))
    assert caught.value.pattern == "p9"
    with pytest.raises(ConfigError):
        run_task("save", source=source, rename={"p1": "p0"}, checkpoint=CheckpointSettings(path="b"))
    assert not (tmp_path / "b").exists()


def test_parts_of_policies_are_no_checkpoint(run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    for select in (SelectSettings(keys=("encoder/*",)), SelectSettings(roles=("training",))):
        with pytest.raises(ConfigError) as caught:
            run_task("save", source=source, select=select, checkpoint=CheckpointSettings(path="a"))
        assert caught.value.exit_code == 2


def test_what_is_there_is_not_overwritten(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, checkpoint=CheckpointSettings(path="a"))
    before = files(tmp_path / "a")
    with pytest.raises(RlpipeError):
        run_task("save", source=source, checkpoint=CheckpointSettings(path="a"))
    assert files(tmp_path / "a") == before
    run_task("save", checkpoint=CheckpointSettings(path="a", if_exists="replace"))
    assert files(tmp_path / "a") != before


def test_no_policy_to_build_and_no_spaces(run_task: Runner) -> None:
    with pytest.raises(ConfigError):
        run_task("save", algorithm=AlgorithmSettings())
    with pytest.raises(ConfigError) as caught:
        run_task("save", algorithm=algorithm(p0=PolicySettings(module=PPO)))
    assert "p0" in caught.value.subject


def test_spaces_come_from_the_environment(run_task: Runner, tmp_path: Path) -> None:
    report = run_task(
        "save",
        algorithm=algorithm(p0=PolicySettings(module=PPO)),
        env="CartPole-v1",
        checkpoint=CheckpointSettings(path="a"),
    )
    assert report.ok
    assert arrays_of(tmp_path / "a/policies/p0")["pi/logits/weight"].shape == (2, 8)
    with pytest.raises(ConfigError) as caught:
        run_task("save", algorithm=algorithm(p0=PolicySettings(module=PPO)), env="CartPole-v999")
    assert "CartPole" in caught.value.fix


def test_older_checkpoints_beside_the_new_one_go(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    def save(step: int | None, **rules: Any) -> Report:
        target = CheckpointSettings(
            path=f"run/{step}", step=step, score=-step if step else None, retention=Retention(**rules)
        )
        return run_task("save", source=SourceSettings(path=str(checkpoint)), checkpoint=target)

    for step in (1000, 2000, 2500, 3000):
        save(step)
    save(None)
    report = save(3500, keep_last=2, keep_every=2000)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["1000", "2000", "3000", "3500", "None"]
    assert report.to_json()["checkpoint"]["removed"] == ["run/2500"]
    assert "removed the older checkpoint run/2500" in report.notes


def test_what_cannot_be_removed_is_a_warning(
    run_task: Runner, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError("busy")

    monkeypatch.setattr(retention, "discard", refuse)
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, checkpoint=CheckpointSettings(path="run/a"))
    target = CheckpointSettings(path="run/b", retention=Retention(keep_last=1))
    report = run_task("save", source=source, checkpoint=target)
    assert report.ok
    assert "the older checkpoint run/a could not be removed: busy" in report.warnings


def test_without_fsync_where_that_was_said(run_task: Runner, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, checkpoint=CheckpointSettings(path="a", durability="none"))
    assert calls == []
    run_task("save", source=source, checkpoint=CheckpointSettings(path="b"))
    assert calls
