from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from rlpipe.errors import ConfigError
from rlpipe.pipeline.settings import (
    BaseSettings,
    CheckpointSettings,
    PolicySettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.pipeline.tables import show
from rlpipe.snapshot.spaces import Discrete
from tests.pipeline.checkpoints import PPO, Runner, algorithm, box, roles, write


def test_a_checkpoint_is_the_same_as_its_copy_in_the_other_backend(run_task: Runner, checkpoint: Path) -> None:
    run_task(
        "save", source=SourceSettings(path=str(checkpoint)), checkpoint=CheckpointSettings(path="b", backend="pickle")
    )
    report = run_task("diff", source=SourceSettings(path="b"), base=BaseSettings(path=str(checkpoint)))
    assert report.exit_code == 0
    assert report.to_json()["same"] is True
    stream = io.StringIO()
    show(report.render(), stream)
    assert stream.getvalue().splitlines()[-1] == "the same, by the recorded hashes; task=verify reads the bytes"


def test_other_weights_are_named_key_by_key(run_task: Runner, checkpoint: Path, other: Path) -> None:
    report = run_task(
        "diff",
        source=SourceSettings(path=str(other)),
        base=BaseSettings(path=str(checkpoint)),
        select=SelectSettings(policy_ids=("p1",)),
    )
    assert report.exit_code == 1
    found = report.to_json()
    assert found["changed"] == sorted(f"policies/p1/{key}" for key in roles(checkpoint / "policies/p1"))
    assert found["missing"] == found["unexpected"] == found["mismatched"] == found["specs"] == []


def test_a_slim_one_lacks_keys_and_acts_the_same(run_task: Runner, checkpoint: Path) -> None:
    slim = SelectSettings(roles=("inference",))
    run_task("save", source=SourceSettings(path=str(checkpoint)), select=slim, checkpoint=CheckpointSettings(path="s"))
    found = run_task("diff", source=SourceSettings(path="s"), base=BaseSettings(path=str(checkpoint))).to_json()
    training = {key for key, role in roles(checkpoint / "policies/p0").items() if role == "training"}
    assert {key for key in found["missing"] if "/p0/" in key} == {f"policies/p0/{key}" for key in training}
    assert found["changed"] == []
    assert all(pair["base"] == pair["source"] for pair in found["components"].values())
    assert {spec["field"] for spec in found["specs"]} == {"options.inference_only"}


def test_specs_that_differ_are_shown_field_by_field(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    policy = PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(3))
    source = write(tmp_path / "wide", algorithm(p0=policy))
    report = run_task(
        "diff",
        source=SourceSettings(path=str(source)),
        base=BaseSettings(path=str(checkpoint)),
        select=SelectSettings(policy_ids=("p0",)),
    )
    found = report.to_json()
    assert {"component": "policies/p0", "field": "config.action_space.n", "base": "2", "source": "3"} in found["specs"]
    stream = io.StringIO()
    show(report.render(), stream)
    (row,) = (line for line in stream.getvalue().splitlines() if " config.action_space.n " in line)
    assert row.endswith(" 2 -> 3")
    assert any("pi/logits/weight" in key for key in found["mismatched"])


def test_policies_on_one_side_only(run_task: Runner, tmp_path: Path, checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint))
    run_task("save", source=source, rename={"p2": "p9"}, checkpoint=CheckpointSettings(path="b"))
    report = run_task("diff", source=SourceSettings(path="b"), base=BaseSettings(path=str(checkpoint)))
    assert report.exit_code == 1
    components = report.to_json()["components"]
    assert components["policies/p2"]["source"] == ""
    assert components["policies/p9"]["base"] == ""


def test_lone_policies_are_compared_whatever_they_are_called(
    run_task: Runner, tmp_path: Path, checkpoint: Path, sb3_zip: Path
) -> None:
    shutil.copytree(checkpoint / "policies/p1", tmp_path / "walker")
    original = BaseSettings(path=str(checkpoint / "policies/p1"))
    assert run_task("diff", source=SourceSettings(path="walker"), base=original).ok
    run_task("save", source=SourceSettings(path=str(sb3_zip)), checkpoint=CheckpointSettings(path="made"))
    foreign = run_task("diff", source=SourceSettings(path=str(sb3_zip)), base=BaseSettings(path="made/policies/p0"))
    assert foreign.ok
    tree = run_task("diff", source=SourceSettings(path=str(sb3_zip)), base=BaseSettings(path="made"))
    assert tree.ok


def test_there_has_to_be_a_base(run_task: Runner, checkpoint: Path) -> None:
    with pytest.raises(ConfigError):
        run_task("diff", source=SourceSettings(path=str(checkpoint)))
