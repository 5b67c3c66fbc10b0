"""Directories of other libraries as sources: several policies, each read alone, under ids that they did not choose."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpipe
from rlpipe.checkpoint.restore import build
from rlpipe.errors import CheckpointNotFoundError, ConfigError, ForeignFormatError, IdError, SelectionError
from rlpipe.pipeline.locate import locate_path, recognise
from rlpipe.pipeline.settings import BaseSettings, CheckpointSettings, SelectSettings, SourceSettings
from rlpipe.pipeline.sources import foreign_source
from rlpipe.policies.policy import Policy
from tests.importers.rllib_folders import CONNECTORS, GOLDEN, MODULES, copied, known, module
from tests.pipeline.checkpoints import Runner

PAIR = str(GOLDEN / "pair")


def policies_in(path: str) -> dict[str, Policy]:
    """The policies of a checkpoint that was written."""
    found = Policy.from_checkpoint(path)
    assert isinstance(found, dict)
    return found


def test_a_checkpoint_of_rllib_is_recognised_wherever_it_is_entered(tmp_path: Path) -> None:
    for path in (GOLDEN / "ppo_choices", module("pair", "p_left"), GOLDEN / "old_filtered" / "policies/default_policy"):
        assert recognise(path) == "rllib"
    assert locate_path(PAIR, kind="rllib").kind == "rllib"
    with pytest.raises(ForeignFormatError):
        locate_path(PAIR, kind="stable_baselines3")
    with pytest.raises(CheckpointNotFoundError, match=f"name one of the checkpoints in it: {GOLDEN / 'dqn'}"):
        recognise(GOLDEN)
    with pytest.raises(CheckpointNotFoundError):
        recognise(tmp_path)


def test_a_manifest_wins_over_the_files_beside_it_and_the_others_are_named(
    run_task: Runner, tmp_path: Path, checkpoint: Path
) -> None:
    both = tmp_path / "both"
    shutil.copytree(checkpoint, both)
    shutil.copytree(GOLDEN / "pair", both, dirs_exist_ok=True)
    report = run_task("info", source=SourceSettings(path=str(both)))
    assert report.source.kind == "checkpoint"
    assert any("source=rllib reads" in warning for warning in report.warnings)
    assert run_task("info", source=SourceSettings(path=str(both), kind="rllib")).source.kind == "rllib"


def test_saved_policies_act_as_rllib_did(run_task: Runner) -> None:
    run_task("save", source=SourceSettings(path=PAIR), checkpoint=CheckpointSettings(path="out"))
    for name, policy in policies_in("out").items():
        observations, actions = known("pair", name)
        reach = 1e-6 * max(1.0, float(np.ptp(actions)))
        np.testing.assert_allclose(policy.compute_actions(observations), actions, rtol=0, atol=reach)


def test_globs_choose_policies_and_nothing_else_is_read(run_task: Runner, tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / "p_right" / "module_state.pkl").write_bytes(b"broken")
    report = run_task(
        "save",
        source=SourceSettings(path=str(root)),
        select=SelectSettings(policy_ids=("p_l*",)),
        checkpoint=CheckpointSettings(path="out"),
    )
    assert [facts.name for facts in report.checkpoint.components if facts.kind == "policy"] == ["p_left"]  # type: ignore[attr-defined]
    with pytest.raises(SelectionError, match="p_center"):
        run_task("info", source=SourceSettings(path=str(root)), select=SelectSettings(policy_ids=("p_center",)))


def test_ids_that_no_checkpoint_can_have_end_in_a_line_that_renames_them(run_task: Runner, tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / "p_left").rename(root / MODULES / "left hand")
    (root / MODULES / "p_right").rename(root / MODULES / "größe")
    source = SourceSettings(path=str(root))
    with pytest.raises(IdError) as caught:
        run_task("save", source=source, checkpoint=CheckpointSettings(path="out"))
    assert caught.value.fix == "add 'rename={left hand: left_hand}'"
    with pytest.raises(IdError) as caught:
        run_task("restore", source=source)
    assert caught.value.fix == "save it with other ids first: task=save 'rename={left hand: left_hand}'"
    assert "'rename={left hand: left_hand}'" in " ".join(run_task("info", source=source).warnings)
    run_task("save", source=source, rename={"left hand": "left_hand"}, checkpoint=CheckpointSettings(path="out"))
    assert sorted(policies_in("out")) == ["größe", "left_hand"]


def test_info_says_what_there_is_even_where_a_policy_cannot_be_imported(run_task: Runner, tmp_path: Path) -> None:
    root = copied("pair", tmp_path)
    (root / MODULES / "p_right" / "module_state.pkl").write_bytes(b"broken")
    report: Any = run_task("info", source=SourceSettings(path=str(root)))
    assert any(warning.startswith("p_right cannot be imported") for warning in report.warnings)
    assert report.policy_ids == ("p_left", "p_right")
    assert [facts.name for facts in report.components] == ["p_left"]
    assert report.layout["type"] == "Algorithm"
    assert report.layout["checkpoint_version"] == "2.1"
    report.tables()


def test_info_of_a_component_without_policies(run_task: Runner) -> None:
    report: Any = run_task("info", source=SourceSettings(path=str(GOLDEN / "ppo_choices" / CONNECTORS)))
    assert (report.layout["type"], report.policy_ids) == ("EnvToModulePipeline", ())
    report.tables()
    with pytest.raises(ForeignFormatError, match="holds no policy"):
        run_task("restore", source=SourceSettings(path=str(GOLDEN / "ppo_choices" / CONNECTORS)))


def test_info_of_the_oldest_layout(run_task: Runner, tmp_path: Path) -> None:
    worker = pickle.dumps({"state": {"walker": {"weights": np.ones(2)}}})
    (tmp_path / "checkpoint-10").write_bytes(pickle.dumps({"worker": worker}))
    for path in (tmp_path, tmp_path / "checkpoint-10"):
        report: Any = run_task("info", source=SourceSettings(path=str(path)))
        assert (report.layout["checkpoint_version"], report.layout["policy_ids"]) == ("0.1", ["walker"])
    with pytest.raises(ForeignFormatError, match=r"layout 0\.1"):
        run_task("restore", source=SourceSettings(path=str(tmp_path)))


def test_a_policy_s_directory_takes_an_id_and_others_do_not(run_task: Runner) -> None:
    alone = SourceSettings(path=str(module("pair", "p_left")), policy_id="walker")
    run_task("save", source=alone, checkpoint=CheckpointSettings(path="out"))
    assert list(policies_in("out")) == ["walker"]
    with pytest.raises(ConfigError, match=r"source\.policy_id"):
        run_task("info", source=SourceSettings(path=PAIR, policy_id="walker"))


def test_every_task_takes_a_directory(run_task: Runner, checkpoint: Path) -> None:
    source = SourceSettings(path=PAIR)
    assert run_task("restore", source=source).ok
    assert run_task("verify", source=source).ok
    assert run_task("diff", source=source, base=BaseSettings(path=PAIR)).ok
    select = SelectSettings(policy_ids=("p_left",))
    base = BaseSettings(path=str(checkpoint), on_mismatch="replace")
    run_task(
        "subset_restore",
        source=source,
        select=select,
        base=base,
        rename={"p_left": "p0"},
        checkpoint=CheckpointSettings(path="merged"),
    )
    assert policies_in("merged")["p0"].metadata["source"]["library"] == "rllib"


def test_exported_artifacts_act_as_rllib_did(tmp_path: Path) -> None:
    report = rlpipe.export(PAIR, tmp_path, targets=["numpy"], policy_ids=["p_right"])
    assert report.ok


def test_an_agent_is_handed_to_the_importer() -> None:
    with pytest.raises(ForeignFormatError, match="p_center"):
        rlpipe.restore(PAIR, hints={"filter_agent": {"p_center": "left"}})
    with pytest.raises(ConfigError, match=r"source\.filter_agent"):
        rlpipe.restore(GOLDEN.parent / "sb3" / "dqn.zip", hints={"filter_agent": {"p0": "left"}})


def test_a_source_reads_each_policy_once() -> None:
    located = locate_path(PAIR)
    source = foreign_source(located, SourceSettings(path=PAIR))
    first = source.read(SelectSettings(policy_ids=("p_left",)))
    second = source.read(SelectSettings())
    assert second.children["p_left"] is first.children["p_left"]
    assert all(name.startswith(("p_left: ", "p_right: ")) for name in source.report.imported)
    built: Any = build(second)
    assert sorted(built.keys()) == ["p_left", "p_right"]


def test_info_of_a_directory_imports_no_torch_and_opens_no_other_policy() -> None:
    script = f"""
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import rlpipe
rlpipe.get_checkpoint_info({PAIR!r}, policy_ids=["p_left"])
found = {{path.removeprefix({PAIR!r}) for path in opened if path.startswith({PAIR!r}) and "rl_module/p_" in path}}
print("torch" in sys.modules, sorted(found))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    names = ("class_and_ctor_args.pkl", "metadata.json", "module_state.pkl")
    expected = [f"/{MODULES}/p_left/{name}" for name in names]
    assert done.stdout.strip() == f"False {expected}", done.stdout + done.stderr
