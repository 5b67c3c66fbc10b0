"""Names, scales and offsets from the settings beside a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlpipe.checkpoint.restore import build
from rlpipe.errors import ConfigError, ForeignFormatError, NormalizerError
from rlpipe.exporters.labels import plain
from rlpipe.importers.libraries.rsl_rl import Options, read
from rlpipe.importers.libraries.rsl_rl.agent import Agent
from rlpipe.importers.libraries.rsl_rl.deployment import Deployment, Given, deployment_of
from rlpipe.importers.libraries.rsl_rl.settings import Settings
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy_spec import PolicySpec
from tests.importers.libraries.rsl_rl.test_importer import golden, run_of

JOINTS = ("LF_HAA", "LF_HFE", "LF_KFE")
REST = (0.0, 0.4000000059604645, -0.800000011920929)
TERM: dict[str, Any] = {
    "class_type": "isaaclab.envs.mdp.actions.joint_actions:JointPositionAction",
    "asset_name": "robot",
    "joint_names": [".*"],
    "scale": 0.5,
    "offset": 0.0,
    "use_default_offset": True,
}
ROBOT = {"robot": {"init_state": {"joint_pos": {".*_HFE": 0.4, "LF_KFE": -0.8}}}}


def deployed(term: dict[str, Any] | None = None, given: Given | None = None, **env: Any) -> Deployment:
    whole = {"scene": ROBOT, "actions": {"joint_pos": {**TERM, **(term or {})}}, **env}
    return deployment_of(Settings(env=whole), Agent(), given or Given(), inputs=4, actions=3)


def described(**changes: Any) -> Deployment:
    """With an IO descriptor."""
    action = {"name": "a", "full_path": "x.JointPositionAction", "shape": [3], "joint_names": list(JOINTS)}
    action |= {"scale": 0.5, "offset": 0.0, "clip": None} | changes
    return deployment_of(Settings(descriptors={"actions": [action]}), Agent(), Given(), inputs=4, actions=3)


def test_a_descriptor_names_elements_and_leads_to_targets() -> None:
    found = read(golden("v5_mlp"), Options())
    metadata, spec = found.snapshot.metadata, PolicySpec.from_spec(found.snapshot.spec)
    assert metadata["names"]["obs"] == [
        *("base_lin_vel.X", "base_lin_vel.Y", "base_lin_vel.Z"),
        *("joint_pos_rel.LF_HAA", "joint_pos_rel.LF_HFE", "joint_pos_rel.LF_KFE"),
        *("contact@-1", "contact@0"),
    ]
    assert metadata["names"]["action"] == list(JOINTS)
    assert metadata["deployment"]["rate_hz"] == 50
    assert metadata["deployment"]["robot"]["kp"] == [80.0, 80.0, 60.0]
    assert [stage.to_json() for stage in spec.target] == [{"type": "affine", "scale": 0.5, "offset": list(REST)}]
    assert not found.report.warnings


def test_names_of_joints_find_their_numbers_in_the_settings_of_the_environment() -> None:
    found = read(golden("v2_mlp"), Options(joint_names=JOINTS))
    (stage,) = PolicySpec.from_spec(found.snapshot.spec).target
    assert stage.to_json() == {"type": "affine", "scale": [0.25, 0.5, 0.5], "offset": list(REST)}


def test_without_names_of_joints_there_is_no_target_and_a_note_that_says_how_to_get_it() -> None:
    found = read(golden("v2_mlp"), Options())
    assert "target" not in found.snapshot.spec.config
    assert any("source.joint_names" in note for note in found.report.warnings)


def test_what_the_caller_gives_comes_first() -> None:
    options = Options(action_scale=0.1, action_offset=(1.0, 2.0, 3.0), observation_names=tuple("abcdefgh"))
    found = read(golden("v5_mlp"), options)
    (stage,) = PolicySpec.from_spec(found.snapshot.spec).target
    assert stage.to_json() == {"type": "affine", "scale": 0.1, "offset": [1.0, 2.0, 3.0]}
    assert found.snapshot.metadata["names"]["obs"] == list("abcdefgh")


def test_what_the_caller_leaves_out_stays_as_the_settings_say() -> None:
    found = deployed({"use_default_offset": False, "offset": 0.3}, Given(action_scale=2.0))
    assert (found.scale, found.offset) == ((2.0,) * 3, (0.3,) * 3)
    found = deployed(given=Given(action_offset=0.1))  # whose rest nobody knows without the names of the joints
    assert (found.scale, found.offset) == ((0.5,) * 3, (0.1,) * 3)
    found = deployed({"class_type": "a:RelativeJointPositionAction"}, Given(action_offset=0.1))
    assert (found.scale, found.offset) == ((1.0,) * 3, (0.1,) * 3)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (Given(observation_names=("a",)), "source.observation_names"),
        (Given(joint_names=("a", "b")), "source.joint_names"),
        (Given(action_scale=(1.0,)), "source.action_scale"),
        (Given(action_offset=(1.0, 2.0)), "source.action_offset"),
    ],
)
def test_another_count_is_refused(given: Given, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        deployed(given=given)


@pytest.mark.parametrize(
    ("term", "scale", "offset"),
    [
        ({}, (0.5, 0.5, 0.5), (0.0, 0.4, -0.8)),
        ({"scale": {".*_HAA": 0.25}}, (0.25, 1.0, 1.0), (0.0, 0.4, -0.8)),
        ({"use_default_offset": False, "offset": {".*": 0.1}}, (0.5, 0.5, 0.5), (0.1, 0.1, 0.1)),
        ({"class_type": "a:JointEffortAction", "use_default_offset": False}, (0.5, 0.5, 0.5), (0.0, 0.0, 0.0)),
    ],
)
def test_patterns_are_what_the_trainer_makes_of_them(term: Any, scale: Any, offset: Any) -> None:
    found = deployed(term, Given(joint_names=JOINTS))
    assert (found.scale, found.offset) == (scale, offset)


@pytest.mark.parametrize(
    "term",
    [
        {"class_type": "isaaclab:RelativeJointPositionAction"},
        {"class_type": "isaaclab:BinaryJointPositionAction"},
        {"class_type": None},
        {"scale": "a lot"},
        {"asset_name": None},
        {"clip": {".*": ["x", 1]}},
    ],
)
def test_what_is_not_sure_gives_no_target(term: Any) -> None:
    found = deployed(term, Given(joint_names=JOINTS))
    assert found.scale is None
    assert found.notes


def test_one_number_for_all_needs_no_names() -> None:
    assert deployed({"use_default_offset": False}).scale == (0.5, 0.5, 0.5)


def test_names_in_an_order_that_is_kept_need_no_others() -> None:
    found = deployed({"joint_names": list(JOINTS), "preserve_order": True})
    assert (found.joint_names, found.offset) == (JOINTS, (0.0, 0.4, -0.8))


def test_settings_of_mjlab_have_other_places() -> None:
    term: dict[str, Any] = {
        "class_type": "mjlab.envs.mdp.actions.joint_actions.JointPositionAction",
        "entity_name": "robot",
    }
    term |= {"actuator_names": [".*_HAA", ".*(HFE|KFE)"], "scale": 0.5, "use_default_offset": True}
    env = {"scene": {"entities": ROBOT}, "actions": {"joint_pos": term}, "decimation": 4}
    env["sim"] = {"mujoco": {"timestep": 0.005}}
    found = deployment_of(Settings(env=env), Agent(), Given(joint_names=JOINTS), inputs=4, actions=3)
    assert (found.scale, found.offset, found.facts["rate_hz"]) == ((0.5,) * 3, (0.0, 0.4, -0.8), 50)


def test_several_patterns_for_one_joint_are_refused() -> None:
    with pytest.raises(ForeignFormatError, match="LF_KFE"):
        deployed({"scale": {".*KFE": 1.0, "LF.*": 2.0}}, Given(joint_names=JOINTS))


@pytest.mark.parametrize("field", ["scale", "clip", "joint_names"])
@pytest.mark.parametrize("pattern", ["RF_.*", "[", "HAA"])
def test_a_pattern_that_fits_no_joint_shows_a_typo(field: str, pattern: str) -> None:
    value = [".*HAA", pattern] if field == "joint_names" else {pattern: 2.0}
    with pytest.raises(ForeignFormatError, match="other joints"):
        deployed({field: value}, Given(joint_names=JOINTS))


@pytest.mark.parametrize("pattern", ["(a+)+b", "a*a*a*a*b", "x" * 101, "a{1000}"])
def test_patterns_that_could_take_long_are_not_tried(pattern: str) -> None:
    with pytest.raises(ForeignFormatError, match="not tried"):
        deployed({"scale": {pattern: 2.0}}, Given(joint_names=JOINTS))


@pytest.mark.parametrize(
    ("changes", "clip"),
    [
        ({"clip": [[-1.0, 1.0], [-2, 2], [float("-inf"), float("inf")]]}, ((-1, 1), (-2, 2), (-np.inf, np.inf))),
        ({"scale": [[0.5, 0.5, 0.5]] * 4}, ()),
    ],
)
def test_descriptors_of_all_shapes(changes: Any, clip: Any) -> None:
    found = described(**changes)
    assert (found.scale, found.clip) == ((0.5, 0.5, 0.5), clip)
    assert plain(dict(found.facts))


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": [[1.0, -1.0]] * 3},
        {"clip": [[-1.0, 1.0]]},
        {"clip": "none"},
        {"clip": [[float("nan"), 1.0]] * 3},
        {"scale": None},
        {"scale": float("nan")},
        {"offset": [0.0]},
        {"offset": "x"},
    ],
)
def test_a_descriptor_that_is_not_sure_gives_no_target(changes: Any) -> None:
    assert described(**changes).scale is None


def test_a_descriptor_of_another_action_is_refused() -> None:
    with pytest.raises(ForeignFormatError, match="does not belong"):
        described(shape=[4], joint_names=["a", "b", "c", "d"])


def edited(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = run_of("v5_mlp", tmp_path)
    file = path.parent / "io_descriptors" / "IO_descriptors.yaml"
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))
    return path


def test_a_descriptor_of_another_observation_is_left_aside_with_a_note(tmp_path: Path) -> None:
    path = edited(tmp_path, lambda content: content["observations"]["policy"].pop())
    found = read(path, Options())
    assert "obs" not in found.snapshot.metadata["names"]
    assert any("5 elements" in note for note in found.report.warnings)


@pytest.mark.parametrize(
    "value", [None, 3, "text", [], [None], {"policy": 3}, {"policy": [{"name": ["x"], "shape": [10**9]}]}]
)
def test_parts_of_another_kind_say_nothing(tmp_path: Path, value: Any) -> None:
    def change(content: dict[str, Any]) -> None:
        content.update(observations=value, articulations=value, scene=value)

    assert read(edited(tmp_path, change), Options()).snapshot.metadata["names"]["action"] == list(JOINTS)


def test_two_descriptors_of_different_content_are_too_many(tmp_path: Path) -> None:
    path = run_of("v5_mlp", tmp_path)
    (path.parent / "walk_IO_descriptors.yaml").write_text("actions: []")
    with pytest.raises(ForeignFormatError, match="several"):
        read(path, Options())


def test_a_folder_of_settings_can_be_named(tmp_path: Path) -> None:
    params = golden("v5_mlp").parent / "params"
    found = read(golden("v5_mlp"), Options(params=str(params)))
    assert [item["file"] for item in found.snapshot.metadata["source"]["settings"]] == ["agent.yaml", "env.yaml"]
    path = run_of("v1_mlp", tmp_path)
    with pytest.raises(NormalizerError, match="no statistics"):
        read(path, Options(params=str(params)))
    with pytest.raises(ConfigError, match="no settings"):
        read(path, Options(params=str(tmp_path)))
    with pytest.raises(ConfigError, match="no folder"):
        read(path, Options(params=str(tmp_path / "nowhere")))


def test_no_setting_leaves_a_path_or_a_device_behind() -> None:
    text = str(read(golden("v5_mlp"), Options()).snapshot.metadata)
    assert "cuda" not in text
    assert "/Robot" not in text


def test_targets_are_what_the_environment_makes_of_actions() -> None:
    """The environment: raw * scale + offset, then clipped."""
    path = golden("v5_lstm")
    with np.load(path.with_suffix(".npz")) as known:
        observations, raw = known["observations"][0], known["actions"][0]
    policy: Any = build(read(path, Options()).snapshot)
    begin = {f"state.{index}": np.zeros((4, 2, 12), np.float32) for index in (0, 1)}
    named = {"obs": observations, **begin, "episode_start": np.ones(4, bool)}
    found = policy.answers(named, GraphOptions(action="target"))["action"]
    np.testing.assert_allclose(found, np.clip(raw * 0.5 + np.array(REST), -1, 1), rtol=0, atol=1e-6)
