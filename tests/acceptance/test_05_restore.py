"""task=restore: policies on a device, from the checkpoint alone."""

import re
import shutil
from pathlib import Path

import h5py
import pytest

from tests.acceptance.program import FINGERPRINT, Run, digests, flip_byte, roles, run_program

POLICIES = ("p0", "p1", "p2")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """The sample with one byte flipped in a training array of p1."""
    copy = tmp_path_factory.mktemp("damaged") / "checkpoint"
    shutil.copytree(sample, copy)
    component = copy / "policies" / "p1"
    key = next(key for key, role in roles(component).items() if role == "training" and key.endswith("weight"))
    with h5py.File(component / "state.h5", "r") as file:
        offset = file[key].id.get_offset()
    flip_byte(component / "state.h5", at=offset + 5)
    return copy


def test_restore_on_the_cpu(saved: Run) -> None:
    """`latest` is the checkpoint that was just saved."""
    run = run_program("task=restore", "restore.device=cpu", folder=saved.folder).succeeded()
    assert [word for word in (*POLICIES, "cpu") if word not in run.out] == []
    assert set(re.findall(FINGERPRINT, run.out)) == set(re.findall(FINGERPRINT, saved.out))
    assert "SAMPLE" not in run.text


@pytest.mark.slow
def test_a_sweep_over_devices_ends_in_one_table(saved: Run) -> None:
    run = run_program("-m", "task=restore", "restore.device=cpu,meta", folder=saved.folder).succeeded()
    end = "\n".join(run.out.splitlines()[-25:])
    assert "cpu" in end
    assert "meta" in end


@pytest.mark.slow
def test_a_sweep_with_one_failing_device_fails_and_shows_the_others(saved: Run) -> None:
    run = run_program("-m", "task=restore", "restore.device=meta,nonsense", folder=saved.folder).failed(1, 2)
    assert "nonsense" in run.text
    assert "meta" in run.out


def test_no_training_array_is_read_for_inference(damaged: Path, tmp_path: Path) -> None:
    """The damage lies in an array that inference does not need: only a restore of everything may stumble over it."""
    inference = run_program("task=restore", f"source.path={damaged}", "select.roles=[inference]", folder=tmp_path)
    inference.succeeded()
    assert "training" in inference.out, "what was not restored"
    everything = run_program("task=restore", f"source.path={damaged}", folder=tmp_path).failed(1)
    assert "p1" in everything.text
    meta = run_program("task=restore", f"source.path={damaged}", "restore.device=meta", folder=tmp_path).succeeded()
    assert "meta" in meta.out, "keys and shapes only"


@pytest.mark.slow
def test_one_policy_does_not_open_its_siblings(damaged: Path, tmp_path: Path) -> None:
    run = run_program("task=restore", f"source.path={damaged}", "policy_ids=[p0]", folder=tmp_path).succeeded()
    assert "p0" in run.out


@pytest.mark.slow
def test_a_slim_checkpoint_has_the_same_fingerprints(sample: Path, tmp_path: Path) -> None:
    slim = run_program(
        "task=save", f"source.path={sample}", "select.roles=[inference]", "checkpoint.path=slim", folder=tmp_path
    ).succeeded()
    known = run_program("task=info", f"source.path={sample}", folder=tmp_path).succeeded()
    after = run_program("task=info", "source.path=slim", folder=tmp_path).succeeded()
    for policy in POLICIES:
        component, original = tmp_path / "slim/policies" / policy, sample / "policies" / policy
        assert set(roles(component).values()) == {"inference"}
        kept = {key: digest for key, digest in digests(original).items() if roles(original)[key] == "inference"}
        assert digests(component) == kept
    prints = set(re.findall(FINGERPRINT, slim.out))
    assert len(prints) == 3
    assert prints <= set(re.findall(FINGERPRINT, known.out))
    assert prints <= set(re.findall(FINGERPRINT, after.out))


@pytest.mark.slow
def test_a_foreign_file_can_be_slimmed_too(foreign: Path, tmp_path: Path) -> None:
    zip_path = foreign / "sac" / "model.zip"
    slim, full = (
        run_program(
            "task=save", f"source.path={zip_path}", f"checkpoint.path={name}", *more, folder=tmp_path
        ).succeeded()
        for name, more in (("slim", ("select.roles=[inference]",)), ("full", ()))
    )
    assert set(re.findall(FINGERPRINT, slim.out)) == set(re.findall(FINGERPRINT, full.out)) != set()
    assert set(roles(tmp_path / "slim/policies/p0").values()) == {"inference"}
    assert set(roles(tmp_path / "full/policies/p0").values()) == {"inference", "training"}
