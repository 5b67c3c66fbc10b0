"""What a directory is, of every layout, whether or not its policies can be imported."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers import recognise as recognise_any
from rlpipe.importers.libraries.rllib import Options, policy_ids, read, recognise, survey
from tests.importers.rllib_folders import CONNECTORS, GOLDEN, MODULES, copied, module


def test_a_whole_checkpoint_has_all_its_components() -> None:
    found = survey(GOLDEN / "ppo_choices")
    assert (found.kind, found.version, found.encoding) == ("Algorithm", "2.1", "pickle")
    assert found.policy_ids == ("default_policy",)
    assert {part.path: part.class_name for part in found.components} == {
        "": "PPO",
        "env_runner": "SingleAgentEnvRunner",
        CONNECTORS: "EnvToModulePipeline",
        "env_runner/module_to_env_connector": "ModuleToEnvPipeline",
        "learner_group": "LearnerGroup",
        "learner_group/learner": "PPOTorchLearner",
        MODULES: "MultiRLModule",
        f"{MODULES}/default_policy": "DefaultPPOTorchRLModule",
    }
    assert all(part.nbytes > 0 for part in found.components)
    assert found.facts["ray_version"] == "2.60.0"
    assert json.loads(json.dumps(found.to_json()))["type"] == "Algorithm"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("learner_group", "LearnerGroup"),
        ("learner_group/learner", "PPOTorchLearner"),
        (MODULES, "MultiRLModule"),
        (f"{MODULES}/default_policy", "DefaultPPOTorchRLModule"),
        (CONNECTORS, "EnvToModulePipeline"),
    ],
)
def test_a_component_s_directory_says_its_class(place: str, kind: str) -> None:
    found = survey(GOLDEN / "ppo_choices" / place)
    assert (found.kind, found.version) == (kind, "2.1")
    assert found.components[0].path == ""


def test_the_old_stack_is_an_algorithm_with_policies() -> None:
    found = survey(GOLDEN / "old_filtered")
    assert (found.kind, found.version, found.policy_ids) == ("Algorithm", "1.1", ("default_policy",))
    assert [part.path for part in found.components] == ["", "policies/default_policy"]
    alone = survey(GOLDEN / "old_filtered" / "policies" / "default_policy")
    assert (alone.kind, alone.version) == ("Policy", "1.1")


def test_without_the_small_files_the_layout_is_told_by_the_others(tmp_path: Path) -> None:
    for name, version in (("ppo_choices", "2.0"), ("old_filtered", "1.0")):
        root = copied(name, tmp_path)
        for file in root.rglob("*.json"):
            file.unlink()
        assert recognise(root)
        found = survey(root)
        assert (found.kind, found.version) == ("Algorithm", version)
        assert sorted(read(root, Options()).snapshot.children) == ["default_policy"]


def test_layout_2_0_is_said_by_its_files() -> None:
    found = survey(GOLDEN / "ray_2_40")
    assert (found.kind, found.version, found.encoding) == ("Algorithm", "2.0", "pickle")
    assert found.facts["ray_version"] == "2.40.0"
    assert {part.class_name for part in found.components} >= {"MultiRLModule", "PPOTorchRLModule", "MeanStdFilter"}


def test_the_oldest_layout_is_surveyed_and_not_imported(tmp_path: Path) -> None:
    worker = {"filters": {}, "state": {"walker": {"x": np.ones(2)}, "runner": {}}}
    data = pickle.dumps({"worker": pickle.dumps(worker), "train_exec_impl": None})
    (tmp_path / "checkpoint-000010").write_bytes(data)
    (tmp_path / "checkpoint-000010.tune_metadata").write_bytes(b"\x80\x04N.")
    assert recognise(tmp_path)
    assert recognise_any(tmp_path / "checkpoint-000010") == "rllib"
    for path in (tmp_path, tmp_path / "checkpoint-000010"):
        found = survey(path)
        assert (found.kind, found.version, found.policy_ids) == ("Algorithm", "0.1", ("runner", "walker"))
    assert policy_ids(tmp_path) == ()
    with pytest.raises(ForeignFormatError, match=r"layout 0\.1"):
        read(tmp_path, Options())


def test_other_directories_are_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text("{}")
    (tmp_path / "policies").mkdir()
    (tmp_path / "checkpoint-best").write_bytes(b"")
    assert not recognise(tmp_path)
    assert not recognise(tmp_path / "nowhere")


def test_a_module_without_its_small_file_is_recognised(tmp_path: Path) -> None:
    shutil.copytree(module("dqn"), tmp_path / "p1")
    (tmp_path / "p1" / "metadata.json").unlink()
    assert recognise(tmp_path / "p1")
    assert read(tmp_path / "p1", Options()).snapshot.metadata["source"]["version"] == "unknown"
