from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rlpipe.errors import ConfigError, DeviceError, IntegrityError, SelectionError
from rlpipe.pipeline.settings import CheckpointSettings, RestoreSettings, SelectSettings, SourceSettings
from tests.pipeline.checkpoints import Runner, roles


def test_policies_are_rebuilt_and_act(run_task: Runner, checkpoint: Path) -> None:
    report: Any = run_task("restore", source=SourceSettings(path=str(checkpoint)))
    assert sorted(report.policies) == ["p0", "p1", "p2"]
    policy = report.policies["p0"]
    assert not policy.module.training
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)
    with h5py.File(checkpoint / "policies/p0/state.h5", "r") as file:
        layer, head = file["encoder/actor_encoder/0"], file["pi/logits"]
        hidden = np.tanh(observations @ layer["weight"][()].T + layer["bias"][()])
        logits = hidden @ head["weight"][()].T + head["bias"][()]
    np.testing.assert_array_equal(policy.compute_actions(observations), logits.argmax(axis=1))


def test_restored_and_left_are_told(run_task: Runner, checkpoint: Path) -> None:
    select = SelectSettings(policy_ids=("p1",), roles=("inference",))
    report = run_task("restore", source=SourceSettings(path=str(checkpoint)), select=select)
    found = report.to_json()
    assert found["not_restored"] == ["policies/p0", "policies/p2"]
    (policy,) = found["policies"]
    known = roles(checkpoint / "policies/p1")
    assert policy["restored"] == sorted(key for key, role in known.items() if role == "inference")
    assert policy["not_restored"] == {key: role for key, role in known.items() if role == "training"}


def test_meta_opens_no_array_file(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    for file in (tmp_path / "a").rglob("state.h5"):
        file.unlink()
    report: Any = run_task("restore", source=SourceSettings(path="a"), restore=RestoreSettings(device="meta"))
    assert {parameter.device.type for parameter in report.policies["p0"].module.parameters()} == {"meta"}
    cpu = run_task("restore", source=SourceSettings(path=str(checkpoint)))
    prints = [[policy["fingerprint"] for policy in one.to_json()["policies"]] for one in (report, cpu)]
    assert prints[0] == prints[1]


def test_no_byte_of_a_training_array_is_read_for_inference(
    run_task: Runner, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[tuple[str, int, int]] = []
    read_one, read_many = os.pread, os.preadv

    def noted(descriptor: int, size: int, position: int) -> None:
        ranges.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), position, position + size))

    def pread(descriptor: int, size: int, position: int) -> bytes:
        noted(descriptor, size, position)
        return read_one(descriptor, size, position)

    def preadv(descriptor: int, buffers: Any, position: int, *rest: int) -> int:
        noted(descriptor, sum(memoryview(buffer).nbytes for buffer in buffers), position)
        return read_many(descriptor, buffers, position, *rest)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(os, "preadv", preadv)
    select = SelectSettings(roles=("inference",))
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, select=select, checkpoint=CheckpointSettings(path="s"))
    run_task("restore", source=source, select=select)
    assert len(ranges) >= 6
    for name in ("p0", "p1", "p2"):
        file_path = checkpoint / "policies" / name / "state.h5"
        with h5py.File(file_path, "r") as file:
            places = {
                key: (file[key].id.get_offset(), file[key].id.get_storage_size())
                for key in roles(checkpoint / "policies" / name)
            }
        read = [(start, end) for path, start, end in ranges if path == str(file_path)]
        for key, role in roles(checkpoint / "policies" / name).items():
            start, size = places[key]
            touched = any(begin < start + size and start < end for begin, end in read)
            assert touched == (role == "inference"), key


def test_damage_outside_of_what_is_chosen_does_not_matter(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "a")
    shutil.rmtree(tmp_path / "a/policies/p0")
    report = run_task("restore", source=SourceSettings(path="a"), select=SelectSettings(policy_ids=("p1",)))
    assert report.ok
    with pytest.raises(IntegrityError):
        run_task("restore", source=SourceSettings(path="a"))


def test_a_lone_policy_goes_by_its_directory_or_its_given_name(
    run_task: Runner, tmp_path: Path, checkpoint: Path
) -> None:
    shutil.copytree(checkpoint / "policies/p1", tmp_path / "walker")
    report: Any = run_task("restore", source=SourceSettings(path="walker"))
    assert list(report.policies) == ["walker"]
    named: Any = run_task("restore", source=SourceSettings(path="walker", policy_id="runner"))
    assert list(named.policies) == ["runner"]
    with pytest.raises(ConfigError):
        run_task("restore", source=SourceSettings(path=str(checkpoint), policy_id="runner"))


def test_a_bare_module_is_restored_too(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    whole: Any = run_task("restore", source=SourceSettings(path=str(checkpoint)))
    whole.policies["p0"].module.save_to_path(tmp_path / "module")
    bare: Any = run_task("restore", source=SourceSettings(path="module"))
    observations = np.random.default_rng(1).uniform(-1, 1, (9, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        bare.policies["module"].compute_actions(observations), whole.policies["p0"].compute_actions(observations)
    )
    container = tmp_path / "container"
    shutil.copytree(checkpoint / "policies", container)
    chosen = SelectSettings(policy_ids=("p2",))
    report: Any = run_task("restore", source=SourceSettings(path="container"), select=chosen)
    assert list(report.policies) == ["p2"]


def test_a_device_that_is_not_there_is_named(run_task: Runner, checkpoint: Path) -> None:
    with pytest.raises(DeviceError) as caught:
        run_task("restore", source=SourceSettings(path=str(checkpoint)), restore=RestoreSettings(device="cuda:7"))
    assert "cuda:7" in caught.value.subject
    assert "cpu" in caught.value.expected
    with pytest.raises(DeviceError) as caught:
        run_task("restore", source=SourceSettings(path=str(checkpoint)), restore=RestoreSettings(device="gpu"))
    assert caught.value.found == "a name that torch does not know"


def test_an_unknown_policy_id_names_the_closest(run_task: Runner, checkpoint: Path) -> None:
    for patterns in (("p11",), ("q*",), ("p1", "p11")):
        with pytest.raises(SelectionError) as caught:
            run_task("restore", source=SourceSettings(path=str(checkpoint)), select=SelectSettings(policy_ids=patterns))
        assert caught.value.pattern in patterns
        assert "one of p0, p1, p2" in str(caught.value)


def test_globs_choose(run_task: Runner, checkpoint: Path) -> None:
    report: Any = run_task(
        "restore", source=SourceSettings(path=str(checkpoint)), select=SelectSettings(policy_ids=("p[01]",))
    )
    assert sorted(report.policies) == ["p0", "p1"]


def test_metadata_comes_along(run_task: Runner, checkpoint: Path, tmp_path: Path) -> None:
    report: Any = run_task("restore", source=SourceSettings(path=str(checkpoint)))
    report.policies["p0"].save_to_path(tmp_path / "again")
    again = run_task("restore", source=SourceSettings(path="again"))
    assert "never trained" in again.warnings[0]
