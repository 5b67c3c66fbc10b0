"""task=save: configured policies into a checkpoint that standard tools read."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.program import Run, digests, files, roles, run_program

POLICIES = ("p0", "p1", "p2")


def class_of(component: Path) -> str:
    """Last word of the module's class in a policy's manifest."""
    text = (component / "manifest.json").read_text()
    (found,) = {name for name in ("PPOModule", "SACModule", "DQNModule") if name in text}
    return found


def test_the_default_is_three_ppo_policies_in_hdf5(saved: Run, checkpoint: Path) -> None:
    assert checkpoint.name.endswith("-save")
    assert sorted(path.name for path in (checkpoint / "policies").iterdir() if path.is_dir()) == list(POLICIES)
    for policy in POLICIES:
        component = checkpoint / "policies" / policy
        assert class_of(component) == "PPOModule"
        assert (component / "state.h5").is_file()
        assert set(digests(component)) == set(roles(component))
        assert set(roles(component).values()) == {"inference", "training"}
    assert [policy for policy in POLICIES if policy not in saved.out] == []
    assert "SAMPLE" not in saved.text


def test_no_private_path_is_written(saved: Run, checkpoint: Path) -> None:
    private = [str(saved.folder).encode(), str(Path.home()).encode() + b"/"]
    assert [name for name, data in files(checkpoint).items() if any(text in data for text in private)] == []


@pytest.mark.slow
def test_the_sample_algorithm_and_the_pickle_backend(tmp_path: Path) -> None:
    run_program(
        "task=save", "algorithm=sample", "checkpoint=pickle", "checkpoint.path=made", folder=tmp_path
    ).succeeded()
    classes = {policy: class_of(tmp_path / "made/policies" / policy) for policy in POLICIES}
    assert classes == {"p0": "PPOModule", "p1": "SACModule", "p2": "DQNModule"}
    for policy in POLICIES:
        component = tmp_path / "made/policies" / policy
        assert not (component / "state.h5").exists()
        assert set(digests(component)) == set(roles(component)), "pickle.load with numpy alone"


@pytest.mark.slow
def test_inference_only_for_all_policies(tmp_path: Path, checkpoint: Path) -> None:
    run_program("task=save", "module.inference_only=true", "checkpoint.path=slim", folder=tmp_path).succeeded()
    for policy in POLICIES:
        slim, full = tmp_path / "slim/policies" / policy, roles(checkpoint / "policies" / policy)
        assert roles(slim) == {key: role for key, role in full.items() if role == "inference"}
        assert set(digests(slim)) == set(roles(slim))


@pytest.mark.slow
def test_inference_only_for_one_of_several(tmp_path: Path, checkpoint: Path) -> None:
    one = "algorithm.policies.p0.module.inference_only=true"
    run_program("task=save", one, "checkpoint.path=made", folder=tmp_path).succeeded()
    full = roles(checkpoint / "policies/p0")
    assert roles(tmp_path / "made/policies/p0") == {key: role for key, role in full.items() if role == "inference"}
    assert roles(tmp_path / "made/policies/p1") == full
    assert roles(tmp_path / "made/policies/p2") == full


@pytest.mark.slow
def test_non_inference_attributes_given_on_the_command_line(tmp_path: Path, checkpoint: Path) -> None:
    same, less = (
        run_program(
            "task=save", f"module.non_inference_attributes=[{names}]", f"checkpoint.path={where}", folder=tmp_path
        ).succeeded()
        for names, where in (("vf,encoder.critic_encoder", "same"), ("vf", "less"))
    )
    assert same.code == less.code == 0
    full = roles(checkpoint / "policies/p0")
    assert roles(tmp_path / "same/policies/p0") == full
    fewer = {key for key, role in roles(tmp_path / "less/policies/p0").items() if role == "training"}
    assert fewer == {key for key in full if key.split("/")[0] == "vf"}
    assert fewer < {key for key, role in full.items() if role == "training"}


@pytest.mark.slow
def test_a_list_that_prunes_what_inference_needs_is_refused(tmp_path: Path) -> None:
    run = run_program("task=save", "module.non_inference_attributes=[pi]", "checkpoint.path=made", folder=tmp_path)
    run.failed(1, 2)
    assert re.search(r"\bpi\b", run.text)
    assert "non_inference_attributes" in run.text
    assert not (tmp_path / "made").exists()


def test_manifests_are_whole_checkpoints(checkpoint: Path) -> None:
    for folder in (checkpoint, checkpoint / "policies", *(checkpoint / "policies" / policy for policy in POLICIES)):
        manifest = json.loads((folder / "manifest.json").read_text())
        assert {"format", "version"} <= set(manifest)
        assert manifest["version"] == 1
