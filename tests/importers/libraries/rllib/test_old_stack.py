"""Policies of the old stack: how they see, act, and what is said of what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.old_stack import read_old_policy
from tests.importers.rllib_folders import GOLDEN, copied

POLICY = "policies/default_policy"


def read(name: str) -> Any:
    return read_old_policy(GOLDEN / name / POLICY, "p")


def stages(found: Any, side: str) -> list[str]:
    return [stage["type"] for stage in found.snapshot.spec.config[side]]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("old_filtered", ["normalize"], ["unscale"]),
        ("old_dqn", [], ["argmax"]),
        ("old_sac", [], ["tanh", "unscale"]),
        ("old_lstm", [], ["unscale"]),
        ("old_image", ["cast", "layout"], ["argmax"]),
    ],
)
def test_stages_are_those_of_the_old_stack(name: str, before: list[str], after: list[str]) -> None:
    found = read(name)
    assert stages(found, "observation") == before
    assert stages(found, "action") == after


def test_only_the_new_stack_leaves_the_tanh_out_and_says_so() -> None:
    assert "no tanh" not in " ".join(read("old_sac").report.notes)


def test_state_of_training_is_left_out_and_named() -> None:
    skipped = dict(read("old_dqn").report.skipped)
    assert "only RLlib can train on" in skipped["_optimizer_variables"]
    assert "does not use it" in skipped["_value_branch._model.0.weight"]


def test_critics_of_sac_are_left_out_since_their_targets_are_not_saved() -> None:
    found = read("old_sac")
    assert found.snapshot.spec.options["inference_only"] is True
    assert "targets" in dict(found.report.skipped)["q_net._logits._model.0.weight"]


def test_statistics_come_along_with_a_policy_that_has_connectors(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "old_filtered" / POLICY, tmp_path / "alone")
    assert stages(read_old_policy(tmp_path / "alone", "p"), "observation") == ["normalize"]


def test_a_policy_without_its_file_is_refused(tmp_path: Path) -> None:
    root = copied("old_dqn", tmp_path)
    (root / POLICY / "policy_state.pkl").unlink()
    with pytest.raises(ForeignFormatError, match="has no state"):
        read_old_policy(root / POLICY, "p")
