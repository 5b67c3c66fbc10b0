from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.parameter_groups import parameter_groups
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import SelectionError, SpecError
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.state import equal
from tests.algorithms.training import TRUST, Believing, learner, loss, step

BIAS_FIRST = {"*/bias": {"lr": 0.5, "weight_decay": 0.0}, "encoder/*": {"lr": 0.25}}
ORDERS: dict[str, dict[str, dict[str, Any]]] = {
    "sorted": BIAS_FIRST,
    "not sorted": dict(reversed(BIAS_FIRST.items())),
    "apart": {"vf/*": {"lr": 0.5}, "pi/*": {"lr": 0.25}, "encoder/*": {}},
    "one in another": {"encoder/actor*": {"lr": 0.5}, "encoder/*": {"lr": 0.25}, "*": {"lr": 0.125}},
}


def groups_of(made: Learner) -> list[tuple[list[str], float]]:
    part = made["p0"]
    names = {id(parameter): name for name, parameter in part.named.items()}
    return [([names[id(each)] for each in group["params"]], group["lr"]) for group in part.optimizer.param_groups]


def test_the_first_pattern_that_matches_takes_a_parameter() -> None:
    named = {name: torch.zeros(1) for name in ("encoder.0.weight", "encoder.0.bias", "pi.bias", "pi.weight")}
    found = parameter_groups(named, BIAS_FIRST)
    names = {id(tensor): name for name, tensor in named.items()}
    assert [[names[id(each)] for each in group["params"]] for group in found] == [
        ["encoder.0.bias", "pi.bias"],
        ["encoder.0.weight"],
        ["pi.weight"],
    ]
    assert [group.get("lr") for group in found] == [0.5, 0.25, None]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, Believing])
def test_groups_go_on_bit_for_bit_in_their_order(tmp_path: Path, order: str, optimizer: Any) -> None:
    groups = ORDERS[order]
    if optimizer is Believing:
        settings = {"buffer": [[None, None], [None, [None]]]}
        groups = {pattern: {"lr": each.get("lr", 1.0), **settings} for pattern, each in groups.items()}
    made = learner(TrainingSpec(loss=loss, optimizer=optimizer, groups=groups))
    step(made, 0, 2)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert groups_of(restored) == groups_of(made)
    assert content_hash(snapshot_of(restored)) == content_hash(snapshot_of(made))
    assert snapshot_of(restored).children["p0"].spec == snapshot_of(made).children["p0"].spec
    assert step(restored, 2, 2) == step(made, 2, 2)
    assert equal(restored.get_state(), made.get_state())


def test_pairs_of_a_group_are_tuples_as_torch_has_them() -> None:
    made = learner(TrainingSpec(loss=loss, groups={"encoder/*": {"betas": [0.5, 0.9]}}))
    assert made["p0"].get_hyperparameters()["betas"] == [(0.5, 0.9), (0.9, 0.999)]


def test_moments_are_found_by_name_in_other_groups() -> None:
    made = learner(TrainingSpec(loss=loss, groups={"encoder/*": {}}))
    step(made, 0, 2)
    others: list[dict[str, dict[str, Any]]] = [{}, {"*/bias": {}}, {"pi/*": {}, "encoder/critic*": {}}]
    for groups in others:
        other = learner(TrainingSpec(loss=loss, groups=groups))
        other.set_state(made.get_state())
        ours, theirs = made["p0"], other["p0"]
        for name, parameter in ours.named.items():
            expected, found = ours.optimizer.state[parameter], theirs.optimizer.state[theirs.named[name]]
            assert torch.equal(expected["exp_avg"], found["exp_avg"])
        assert other.get_state(["p0/policy"]).keys() == made.get_state(["p0/policy"]).keys()


@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        ({"encodr/*": {}}, SelectionError, "no parameter matches"),
        ({"*": {}, "encoder/*": {}}, SelectionError, "patterns before it"),
        ({"encoder/*": {"learning_rate": 1}}, SpecError, "learning_rate for encoder"),
        ({"encoder/*": {"params": []}}, SpecError, "params for encoder"),
    ],
)
def test_what_would_be_skipped_is_told(groups: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        learner(TrainingSpec(loss=loss, groups=groups))


def test_the_closest_setting_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        learner(TrainingSpec(loss=loss, groups={"encoder/*": {"weight_decy": 1}}))
    assert "weight_decay" in str(caught.value)
