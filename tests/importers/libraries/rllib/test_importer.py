"""The importer of RLlib on golden directories, without ray."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.restore import build
from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.rllib import Options, policy_ids, read, read_policies, recognise
from tests.conformance.folder_suite import FolderSuite
from tests.importers.rllib_folders import CONNECTORS, GOLDEN, MODULES, copied, known, module

PLAIN = (
    *("ppo_choices", "ppo_box", "ppo_heads", "ppo_clipped", "ppo_filtered", "ppo_flattened"),
    *("ppo_lstm", "ppo_lstm_box", "dqn", "dqn_plain", "sac", "ray_2_40"),
    *("ppo_image_heads", "dqn_atoms", "sac_choices"),
)
OLD = (
    *("old_filtered", "ray_2_9_policy", "ray_2_9_module"),
    *("old_dqn", "old_sac", "old_lstm", "old_image"),
)


class TestRllib(FolderSuite):
    importer_id = "rllib"
    libraries = ("ray", "gymnasium", "msgpack", "cloudpickle")
    flips = 4

    @staticmethod
    def examples() -> Mapping[str, Path]:
        pairs = {f"pair {name}": module("pair", name) for name in ("p_left", "p_right")}
        old = {name: GOLDEN / name / "policies" / "default_policy" for name in OLD}
        return {name: module(name) for name in PLAIN} | pairs | old

    @staticmethod
    def root_of(path: Path) -> Path:
        return path.parents[1] if path.parent.name == "policies" else path.parents[3]

    @staticmethod
    def files_of(path: Path) -> tuple[Path, ...]:
        if path.parent.name == "policies":
            return (path / "policy_state.pkl",)
        connectors = path.parents[3] / CONNECTORS
        states = (*path.glob("module_state.*"), *connectors.glob("MeanStdFilter/state.pkl"))
        files = (path / "class_and_ctor_args.pkl", connectors / "class_and_ctor_args.pkl", path / "metadata.json")
        return (*files, *states, *path.parents[3].glob("env_runner/state.pkl"))

    def known(self, path: Path) -> tuple[Any, np.ndarray[Any, np.dtype[Any]]]:
        return known(self.root_of(path).name, path.name)


def policies(found: ImportedFile) -> Mapping[str, Any]:
    return found.snapshot.children


@pytest.mark.parametrize("place", ["", "learner_group", "learner_group/learner", MODULES])
def test_policies_are_found_from_every_directory_above_them(place: str) -> None:
    path = GOLDEN / "pair" / place
    assert recognise(path)
    assert policy_ids(path) == ("p_left", "p_right")
    found = read(path, Options())
    assert sorted(policies(found)) == ["p_left", "p_right"]
    assert all(": " in name for name in found.report.imported)


def test_a_copy_without_the_files_of_the_algorithm_is_recognised_by_its_modules(tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / "rllib_checkpoint.json").unlink()
    assert recognise(root)
    assert not recognise(tmp_path)


def test_a_policy_s_own_directory_is_that_policy() -> None:
    assert policy_ids(module("pair", "p_left")) is None
    alone, among = read(module("pair", "p_left"), Options()), read(GOLDEN / "pair", Options())
    assert alone.snapshot.spec == policies(among)["p_left"].spec


def test_only_files_of_chosen_policies_are_opened(tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    for file in (root / MODULES / "p_right").iterdir():
        file.write_bytes(b"not read")
    assert sorted(policies(read_policies(root, Options(), ["p_left"]))) == ["p_left"]
    with pytest.raises(UnsafePayloadError):
        read_policies(root, Options(), ["p_right"])


def test_strays_beside_policies_are_no_ids(tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / ".DS_Store").write_bytes(b"")
    (root / MODULES / "p_left.bak").write_bytes(b"")
    (root / MODULES / "plots").mkdir()
    assert policy_ids(root) == ("p_left", "p_right")
    skipped = dict(read(root, Options()).report.skipped)
    assert {".DS_Store", "p_left.bak", "plots"} <= skipped.keys()


def test_ids_come_from_directories_not_from_what_files_say(tmp_path: Path) -> None:
    root = copied("old_filtered", tmp_path)
    mark = root / "rllib_checkpoint.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "policy_ids": ["../../etc/passwd", "/root"]}))
    assert policy_ids(root) == ("default_policy",)


def test_ids_with_a_slash_are_found_in_nested_directories(tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / "team").mkdir()
    shutil.move(root / MODULES / "p_left", root / MODULES / "team" / "p_left")
    assert policy_ids(root) == ("p_right", "team/p_left")
    assert sorted(policies(read(root, Options()))) == ["p_right", "team/p_left"]


def test_a_module_taken_out_of_its_algorithm_is_imported_with_a_warning(tmp_path: Path) -> None:
    shutil.copytree(module("ppo_filtered"), tmp_path / "walker")
    found = read(tmp_path / "walker", Options())
    assert "what stood between environment and module is not known" in " ".join(found.report.notes)
    assert "trained" not in found.snapshot.metadata
    assert [stage["type"] for stage in found.snapshot.spec.config["action"]] == ["unscale"]


def test_sac_acts_as_rllib_does_and_says_so() -> None:
    found = read(module("sac"), Options())
    assert "no tanh" in " ".join(found.report.notes)
    assert [stage["type"] for stage in found.snapshot.spec.config["action"]] == ["unscale"]
    assert found.snapshot.spec.options["inference_only"] is False
    assert {name for name, role in found.snapshot.roles.items() if role == "inference"} == {
        name for name in found.snapshot.roles if name.startswith(("pi/", "pi_encoder/"))
    }


def test_layers_with_another_activation_are_a_link_of_their_own() -> None:
    found = read(module("ppo_heads"), Options())
    assert found.snapshot.spec.options["inference_only"] is False
    config = found.snapshot.spec.config["module"]["model_config"]
    for name in ("actor", "critic"):
        assert [link["activation"] for link in config[name]["links"]] == ["tanh", "silu"]


def test_heads_of_dqn_have_their_own_activation() -> None:
    config = read(module("dqn"), Options()).snapshot.spec.config["module"]["model_config"]
    assert (config["encoder"]["activation"], config["head_activation"], config["head_hidden"]) == ("tanh", "relu", [5])


def test_every_part_of_a_composite_action_is_decided() -> None:
    policy: Any = build(read(module("ppo_mixed"), Options()).snapshot)
    with np.load(GOLDEN / "ppo_mixed.npz") as found:
        arrays = {key.removeprefix("default_policy/"): found[key] for key in found}
    actions = policy.compute_actions(arrays["observations"])
    np.testing.assert_array_equal(actions["a"], arrays["actions/a"])
    np.testing.assert_array_equal(actions["b"][0], arrays["actions/b/0"])
    np.testing.assert_allclose(actions["b"][1], arrays["actions/b/1"], rtol=0, atol=1e-4)


def test_the_last_images_of_an_episode_are_seen() -> None:
    found = read(module("ppo_frames"), Options())
    assert found.snapshot.spec.config["observation"][0] == {
        "type": "frame_stack",
        "count": 3,
        "fill": "zeros",
        "axis": 2,
    }
    policy: Any = build(found.snapshot)
    observed, expected = known("ppo_frames")
    state = None
    for one, action in zip(observed, expected, strict=True):
        actions, state = policy.step(one[None], state)
        assert actions[0] == action


def test_noise_of_layers_is_left_out_and_atoms_are_centred_over_actions() -> None:
    found = read(GOLDEN / "ray_2_40_noisy" / "default_policy", Options())
    observed, actions = known("ray_2_40_noisy")
    policy: Any = build(found.snapshot)
    np.testing.assert_array_equal(policy.compute_actions(observed), actions)
    assert found.snapshot.spec.options["inference_only"] is False
    assert {"encoder.net.mlp.0.weight_sigma", "_target_af.net.mlp.0.bias_epsilon"} <= dict(found.report.skipped).keys()


@pytest.mark.parametrize("place", ["", "rl_module"])
def test_the_module_of_an_env_runner_is_one_policy(place: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "ppo_filtered" / "env_runner", tmp_path / "runner")
    shutil.copytree(module("ppo_filtered"), tmp_path / "runner" / "rl_module")
    assert policy_ids(tmp_path / "runner" / place) is None
    found = read(tmp_path / "runner" / place, Options())
    assert [stage["type"] for stage in found.snapshot.spec.config["observation"]] == ["normalize"]
    assert found.snapshot.metadata["trained"] is True


def test_memory_is_said_in_the_spec() -> None:
    module_spec = read(module("ppo_lstm_box"), Options()).snapshot.spec.config["module"]
    assert module_spec["state"] == {
        "actor/c": {"shape": [1, 5], "dtype": "float32"},
        "actor/h": {"shape": [1, 5], "dtype": "float32"},
    }
    assert module_spec["model_config"]["actor"]["after"] == {"type": "mlp", "hidden": [3], "activation": "tanh"}


def test_a_whole_checkpoint_builds_as_a_container() -> None:
    built: Any = build(read(GOLDEN / "pair", Options()).snapshot)
    for name in ("p_left", "p_right"):
        observations, actions = known("pair", name)
        np.testing.assert_allclose(built[name].compute_actions(observations), actions, rtol=0, atol=3e-6)


def test_a_filter_agent_of_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ForeignFormatError, match=r"source\.filter_agent names no policy.*p_center"):
        read(GOLDEN / "pair", Options(filter_agent={"p_center": "left"}))


@pytest.mark.parametrize("version", ["3.0", "10.1", "new"])
def test_a_layout_newer_than_known_is_refused(version: str, tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    (root / "rllib_checkpoint.json").write_text(json.dumps({"checkpoint_version": version}))
    with pytest.raises(ForeignFormatError, match=version):
        read(root, Options())


def test_a_directory_without_policies_says_where_they_would_be(tmp_path: Path) -> None:
    root = copied("ppo_choices", tmp_path)
    shutil.rmtree(root / "learner_group")
    with pytest.raises(ForeignFormatError, match="learner_group/learner/rl_module"):
        read(root, Options())
