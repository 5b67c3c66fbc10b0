from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.errors import SelectionError, SpecError
from rlpipe.snapshot.state import equal
from tests.algorithms.training import TRUST, learner, loss, step
from tests.algorithms.whole import go, whole

GROUPS = {"encoder/*": {"lr": 0.5}, "pi/*": {"lr": 0.25}}


def made_of_groups(**more: Any) -> Learner:
    return learner(TrainingSpec(loss=loss, groups=GROUPS, **more))


def test_settings_of_some_groups(tmp_path: Path) -> None:
    made = made_of_groups()
    step(made, 0, 1)
    path = made.save_to_path(tmp_path / "a")
    report = made.restore_from_path(path, hyperparameters={"lr": 0.125, "encoder/*": {"lr": 1.0, "betas": [0.5, 0.9]}})
    assert report.notes == (
        "p0: lr: [0.5, 0.25, 0.001] -> 0.125",
        "p0: encoder/*: lr: 0.125 -> 1.0",
        "p0: encoder/*: betas: (0.9, 0.999) -> (0.5, 0.9)",
    )
    assert made["p0"].get_hyperparameters()["lr"] == [1.0, 0.125, 0.125]


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (torch.optim.lr_scheduler.ExponentialLR, {"gamma": 0.5}),
        (torch.optim.lr_scheduler.StepLR, {"step_size": 1, "gamma": 0.5}),
        (torch.optim.lr_scheduler.LinearLR, {"start_factor": 1.0, "end_factor": 0.5, "total_iters": 2}),
        (torch.optim.lr_scheduler.ReduceLROnPlateau, {}),
    ],
)
def test_a_schedule_starts_from_the_new_rate_of_each_group(kind: Any, kwargs: dict[str, Any]) -> None:
    made, fresh = made_of_groups(scheduler=kind, scheduler_kwargs=kwargs), None
    changed = {"pi/*": {"lr": 0.125}}
    made.set_hyperparameters(changed)
    fresh = learner(TrainingSpec(loss=loss, groups=GROUPS | changed, scheduler=kind, scheduler_kwargs=kwargs))
    assert step(made, 0, 3) == step(fresh, 0, 3)
    assert made["p0"].get_hyperparameters()["lr"] == fresh["p0"].get_hyperparameters()["lr"]


def test_equal_settings_are_no_change() -> None:
    assert made_of_groups().set_hyperparameters({"encoder/*": {"lr": 0.5}, "weight_decay": 0}) == ()


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"learning_rate": 1}, SpecError, "no setting"),
        ({"lr": "fast"}, SpecError, "a number"),
        ({"lr": True}, SpecError, "a number"),
        ({"amsgrad": 1}, SpecError, "a flag"),
        ({"betas": 0.9}, SpecError, "a pair"),
        ({"params": 1}, SpecError, "no setting"),
        ({"encodr/*": {"lr": 1}}, SelectionError, "no parameter"),
        ({"encoder/*": {"rate": 1}}, SpecError, "no setting"),
        ({"encoder/actor*": {"lr": 1}}, SpecError, "a part of a group"),
        ({"lr": 1.0, "betas": 3}, SpecError, "a pair"),
    ],
)
def test_what_cannot_be_set_changes_nothing(
    tmp_path: Path, values: dict[str, Any], error: type[Exception], words: str
) -> None:
    made = learner(TrainingSpec(loss=loss, groups=GROUPS), "p0", "p1")
    path = made.save_to_path(tmp_path / "a")
    step(made, 0, 1)
    before = made.get_state()
    with pytest.raises(error, match=words):
        made.set_hyperparameters(values)
    with pytest.raises(error, match=words):
        made.restore_from_path(path, hyperparameters=values)
    assert equal(made.get_state(), before)


def test_an_algorithm_refuses_before_it_restores(tmp_path: Path) -> None:
    made = whole("p0")
    path = made.save_to_path(tmp_path / "a")
    go(made, 1)
    before = made.get_state()
    with pytest.raises(SpecError, match="no setting"):
        made.restore_from_path(path, hyperparameters={"rate": 1})
    assert equal(made.get_state(), before)
    with pytest.raises(SpecError, match="no setting"):
        Algorithm.from_checkpoint(path, hyperparameters={"rate": 1}, trust=TRUST)
    bare = Algorithm(dict(made.policies.items()))
    saved = bare.save_to_path(tmp_path / "b")
    with pytest.raises(SpecError, match="no learner"):
        bare.restore_from_path(saved, hyperparameters={"lr": 1})
