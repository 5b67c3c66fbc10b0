from __future__ import annotations

from typing import Any

import pytest

from rlpipe.config.usage import unused
from rlpipe.config.validation import read_settings


@pytest.fixture(name="keys")
def _keys(composed: Any) -> Any:
    def keys(*overrides: str) -> list[str]:
        return [warning.split()[0] for warning in unused(read_settings(composed(*overrides)), overrides)]

    return keys


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=info", "source.path=x", "policy_ids=[a]"],
        ["task=info", "checkpoint.path=x"],
        ["task=info", "source.path=x", "source.which=best", "source.goal=min"],
        [
            "task=save",
            "checkpoint.keep_last=3",
            "checkpoint.durability=none",
            "checkpoint.step=1",
            "checkpoint.goal=min",
        ],
        ["task=verify", "source.path=x", "verify.sha256=show"],
        ["task=save", "module=sac", "module.inference_only=true", "algorithm=sample", "checkpoint=pickle"],
        ["task=save", "source.path=x", "source=stable_baselines3", "select.roles=[inference]", "rename={a: b}"],
        ["task=save", "+module@algorithm.policies.p1.module=sac", "algorithm.policies.p0.env=x"],
        ["task=export", "export=[onnx]", "export.onnx.atol=1", "artifact.path=x", "artifact.if_exists=replace"],
        ["task=restore", "restore.device=meta"],
        ["task=subset_restore", "base.path=x", "checkpoint=hdf5", "base.on_mismatch=replace"],
        ["task=pipeline", "task.steps=[save,export]", "export.onnx.atol=1", "module=sac"],
        ["experiment=slim"],
        ["task=info", "hydra.run.dir=x", "checkpoints_dir=y"],
    ],
)
def test_what_the_task_uses_is_not_mentioned(overrides: list[str], keys: Any) -> None:
    assert keys(*overrides) == []


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["task=info", "restore.device=meta", "export=[onnx]"], ["restore.device", "export"]),
        (["task=info", "checkpoint=pickle"], ["checkpoint"]),
        (["task=info", "checkpoint.keep_last=3", "verify.sha256=show"], ["checkpoint.keep_last", "verify.sha256"]),
        (["task=restore", "module.inference_only=true"], ["module.inference_only"]),
        (["task=save", "export.onnx.atol=1"], ["export.onnx.atol"]),
        (["task=save", "source.path=x", "module=sac", "algorithm.seed=1"], ["module", "algorithm.seed"]),
        (["task=subset_restore", "base.path=x", "algorithm=sample"], ["algorithm"]),
        (["task=export", "task.steps=[save]"], ["task.steps"]),
        (["task=pipeline", "task.steps=[save,verify]", "restore.device=cpu"], ["restore.device"]),
        (["task=save", "algorithm=sample", "module.model_config.squash=true"], ["module.model_config.squash"]),
    ],
)
def test_what_the_task_does_not_use_is_named(overrides: list[str], names: list[str], keys: Any) -> None:
    assert keys(*overrides) == names


def test_an_option_that_no_policy_takes_is_told_as_such(composed: Any) -> None:
    overrides = ("task=save", "algorithm=sample", "module.env=CartPole-v1")
    (warning,) = unused(read_settings(composed(*overrides)), overrides)
    assert warning == "module.env was given, but every policy of this algorithm has its own"
