from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ConfigError, IdError, SelectionError, SpecError, StateMismatchError, UntrustedClassError
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.state import equal
from tests.algorithms import training
from tests.algorithms.training import TRUST, learner, loss, policy, spec, step

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"lr": 1e-2}),
    "adamw_amsgrad": (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True, "betas": (0.8, 0.99)}),
    "adamw_foreach": (torch.optim.AdamW, {"foreach": True}),
    "adamw_fused": (torch.optim.AdamW, {"fused": True}),
    "adam_capturable_off": (torch.optim.Adam, {"capturable": False, "maximize": True}),
    "sgd_momentum": (torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "dampening": 0.1, "weight_decay": 1e-3}),
    "sgd": (torch.optim.SGD, {"lr": 1e-2}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 1e-3, "centered": True, "momentum": 0.5}),
    "adagrad": (torch.optim.Adagrad, {"lr": 1e-2}),
    "adafactor": (torch.optim.Adafactor, {"lr": 1e-2}),
    "lbfgs": (torch.optim.LBFGS, {"max_iter": 3, "history_size": 4}),
    "lists_of_none": (training.Believing, {"lr": 1e-2}),
}
SCHEDULERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "step": (torch.optim.lr_scheduler.StepLR, {"step_size": 2, "gamma": 0.5}),
    "milestones": (torch.optim.lr_scheduler.MultiStepLR, {"milestones": [1, 3], "gamma": 0.3}),
    "cosine": (torch.optim.lr_scheduler.CosineAnnealingLR, {"T_max": 10}),
    "plateau": (torch.optim.lr_scheduler.ReduceLROnPlateau, {"patience": 0, "factor": 0.5}),
    "cycle": (torch.optim.lr_scheduler.OneCycleLR, {"max_lr": 0.1, "total_steps": 50}),
}
PROGRAM = """
import sys
from rlpipe.algorithms.learner import Learner
from tests.algorithms.training import TRUST, step
learner = Learner.from_checkpoint(sys.argv[1], trust=TRUST)
step(learner, 3, 3)
learner.save_to_path(sys.argv[2])
"""


def how(name: str, **more: Any) -> TrainingSpec:
    kind, kwargs = OPTIMIZERS[name]
    return TrainingSpec(loss=more.pop("loss", loss), optimizer=kind, optimizer_kwargs=kwargs, **more)


def same(one: Learner, other: Learner) -> bool:
    return equal(one.get_state(), other.get_state())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_learner_goes_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    made = learner(how(name))
    step(made, 0, 3)
    path = made.save_to_path(tmp_path / "a")
    torch.manual_seed(7)
    restored = Learner.from_checkpoint(path, trust=TRUST)
    assert same(restored, made)
    assert content_hash(snapshot_of(restored)) == content_hash(snapshot_of(made))
    assert step(restored, 3, 3) == step(made, 3, 3)
    assert same(restored, made)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_types_of_settings_and_moments_come_back_exactly(name: str) -> None:
    made, other = learner(how(name)), learner(how(name))
    step(made, 0, 2)
    step(other, 5, 1)
    other.set_state(made.get_state())
    for one, two in zip(made["p0"].optimizer.param_groups, other["p0"].optimizer.param_groups, strict=True):
        assert {key: type(value) for key, value in one.items()} == {key: type(value) for key, value in two.items()}
        assert {key: value for key, value in one.items() if key != "params"} == {
            key: value for key, value in two.items() if key != "params"
        }
    left, right = made["p0"], other["p0"]
    for parameter, twin in zip(left.named.values(), right.named.values(), strict=True):
        ours, theirs = left.optimizer.state.get(parameter, {}), right.optimizer.state.get(twin, {})
        assert {key: type(value) for key, value in ours.items()} == {key: type(value) for key, value in theirs.items()}
        for key, value in ours.items():
            if isinstance(value, torch.Tensor):
                assert (value.device, value.dtype) == (theirs[key].device, theirs[key].dtype)
                assert value.data_ptr() != theirs[key].data_ptr()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedules_go_on(tmp_path: Path, name: str) -> None:
    kind, kwargs = SCHEDULERS[name]
    made = learner(how("sgd_momentum", scheduler=kind, scheduler_kwargs=kwargs))
    step(made, 0, 3)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert {key: type(value) for key, value in restored["p0"].scheduler.__dict__.items()} == {
        key: type(value) for key, value in made["p0"].scheduler.__dict__.items()
    }
    assert step(restored, 3, 4) == step(made, 3, 4)
    assert restored["p0"].get_hyperparameters() == made["p0"].get_hyperparameters()
    assert same(restored, made)


@pytest.mark.parametrize("name", ["adam", "sgd_momentum"])
def test_another_process_goes_on_bit_for_bit_with_the_generators_where_they_were(tmp_path: Path, name: str) -> None:
    training_spec = how(
        name,
        loss=training.noisy_loss,
        scheduler=torch.optim.lr_scheduler.ExponentialLR,
        scheduler_kwargs={"gamma": 0.9},
    )
    made = learner(training_spec, "p0", "p1")
    step(made, 0, 3)
    made.save_to_path(tmp_path / "k")
    step(made, 3, 3)
    made.save_to_path(tmp_path / "2k")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "k"), str(tmp_path / "resumed")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    straight, resumed = (Learner.from_checkpoint(tmp_path / name, trust=TRUST) for name in ("2k", "resumed"))
    expected, found = straight.get_state(), resumed.get_state()
    assert equal(expected, found)


def test_the_generators_are_those_of_the_process() -> None:
    made = learner()
    state = made.get_state()
    torch.manual_seed(1)
    drawn = torch.rand(3)
    made.set_state(state)
    again = torch.rand(3)
    made.set_state(state)
    assert torch.equal(again, torch.rand(3))
    assert not torch.equal(again, drawn)


def test_saving_draws_nothing(tmp_path: Path) -> None:
    made = learner(None, "p0", "p1")
    before = made.get_state()
    made.save_to_path(tmp_path / "a")
    assert equal(made.get_state(), before)


def test_moments_are_kept_by_name_and_found_in_any_order() -> None:
    made = learner(how("adam"))
    step(made, 0, 3)
    other = learner(TrainingSpec(loss=loss, optimizer_kwargs={"lr": 1e-2}))
    part = other["p0"]
    part.optimizer = torch.optim.Adam(list(reversed(list(part.named.values()))), lr=1e-2)
    other.set_state(made.get_state())
    ours = made["p0"]
    for name, parameter in ours.named.items():
        expected = ours.optimizer.state[parameter]
        found = part.optimizer.state[part.named[name]]
        assert torch.equal(expected["exp_avg"], found["exp_avg"])
    assert step(other, 3, 2) == step(made, 3, 2)


def test_frozen_parameters_stay_frozen_and_have_no_moments(tmp_path: Path) -> None:
    made = learner(how("adam"))
    frozen = made["p0"].named["encoder.actor_encoder.0.weight"]
    frozen.requires_grad = False
    before = frozen.clone()
    step(made, 0, 2)
    assert torch.equal(frozen, before)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    flags = {name: parameter.requires_grad for name, parameter in restored["p0"].named.items()}
    assert [name for name, flag in flags.items() if not flag] == ["encoder.actor_encoder.0.weight"]
    assert step(restored, 2, 2) == step(made, 2, 2)
    restored["p0"].named["encoder.actor_encoder.0.weight"].requires_grad = True
    step(restored, 4, 1)


def test_tied_parameters_have_one_set_of_moments_and_stay_tied(tmp_path: Path) -> None:
    made = learner(how("adam"), kind=training.Tied)
    step(made, 0, 2)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    module: Any = restored["p0"].policy.module
    assert module.trunk.weight is module.critic[0].weight
    assert step(restored, 2, 2) == step(made, 2, 2)
    assert same(restored, made)


def test_policies_that_share_a_layer_share_it_again(tmp_path: Path) -> None:
    policies = {"p0": policy(0, training.Tied), "p1": policy(1, training.Tied)}
    one, two = (cast("Any", each.module) for each in policies.values())
    two.trunk = two.critic[0] = one.trunk
    made = Learner.for_policies(policies, how("sgd_momentum"), trust=TRUST)
    step(made, 0, 2)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    first, second = (each.module for each in restored.policies.values())
    assert first.trunk.weight is second.trunk.weight  # type: ignore[union-attr]
    assert step(restored, 2, 2) == step(made, 2, 2)
    assert same(restored, made)


def test_groups_have_their_own_settings(tmp_path: Path) -> None:
    made = learner(TrainingSpec(loss=loss, groups={"encoder/*": {"lr": 0.5}}, optimizer_kwargs={"lr": 0.25}))
    assert made["p0"].get_hyperparameters()["lr"] == [0.5, 0.25]
    step(made, 0, 1)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert restored["p0"].get_hyperparameters()["lr"] == [0.5, 0.25]
    assert step(restored, 1, 1) == step(made, 1, 1)
    with pytest.raises(SelectionError):
        learner(TrainingSpec(loss=loss, groups={"encodr/*": {}}))


def test_a_new_lr_applies_and_the_report_says_so(tmp_path: Path) -> None:
    made = learner(
        how("adam", scheduler=torch.optim.lr_scheduler.StepLR, scheduler_kwargs={"step_size": 1, "gamma": 0.5})
    )
    step(made, 0, 1)
    path = made.save_to_path(tmp_path / "a")
    report = made.restore_from_path(path, hyperparameters={"lr": 0.4})
    assert report.notes == ("p0: lr: 0.005 -> 0.4, 0.2 with its schedule",)
    assert made["p0"].get_hyperparameters()["lr"] == 0.2
    step(made, 1, 1)
    assert made["p0"].get_hyperparameters()["lr"] == pytest.approx(0.1)
    with pytest.raises(SpecError, match="no setting"):
        made.set_hyperparameters({"learning_rate": 1})


@pytest.mark.parametrize("name", [*SCHEDULERS, "cyclic", "warm"])
def test_a_schedule_goes_on_from_a_new_lr_as_it_would_have_from_the_old_one(tmp_path: Path, name: str) -> None:
    more: dict[str, tuple[Any, dict[str, Any]]] = {
        "cyclic": (torch.optim.lr_scheduler.CyclicLR, {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3}),
        "warm": (training.Warm, {"milestone": 3}),
    }
    kind, kwargs = {**SCHEDULERS, **more}[name]
    made = learner(how("sgd_momentum", scheduler=kind, scheduler_kwargs=kwargs))
    step(made, 0, 2)
    path = made.save_to_path(tmp_path / "a")
    base = made["p0"].optimizer.param_groups[0].get("initial_lr", made["p0"].get_hyperparameters()["lr"])

    def rates() -> list[float]:
        found = []
        for number in range(6):
            found.append(made["p0"].get_hyperparameters()["lr"])
            step(made, 2 + number, 1)
        return found

    made.restore_from_path(path)
    old = rates()
    made.restore_from_path(path, hyperparameters={"lr": base / 8})
    # A plateau looks at losses, which another rate changes.
    assert rates()[: 1 if name == "plateau" else None] == pytest.approx(
        [rate / 8 for rate in old][: 1 if name == "plateau" else None]
    )


@pytest.mark.parametrize(
    "values",
    [
        {"lr": -1},
        {"lr": "much"},
        {"lr": float("nan")},
        {"lr": float("inf")},
        {"betas": [0.9, 2]},
        {"amsgrad": True},
        {"lr": 0.1, "momentum": 0.9},
    ],
)
def test_settings_that_the_optimizer_cannot_go_on_with_change_nothing(tmp_path: Path, values: dict[str, Any]) -> None:
    made = learner(how("adam"), "p0", "p1")
    step(made, 0, 1)
    path = made.save_to_path(tmp_path / "a")
    step(made, 1, 1)
    state = made.get_state()
    with pytest.raises(SpecError):
        made.restore_from_path(path, hyperparameters=values)
    with pytest.raises(SpecError):
        made.set_hyperparameters(values)
    assert equal(made.get_state(), state)


def test_settings_go_into_what_is_restored_alone(tmp_path: Path) -> None:
    made = learner(how("adam"), "p0", "p1")
    path = Path(made.save_to_path(tmp_path / "a"))
    report = made.restore_from_path(path / "p1", component="p1", hyperparameters={"lr": 0.5})
    assert report.notes == ("p1: lr: 0.01 -> 0.5",)
    assert made["p0"].get_hyperparameters()["lr"] == 0.01
    assert made.set_hyperparameters({"lr": 0.2}, policy_ids=["p0"]) == ("p0: lr: 0.01 -> 0.2",)


def test_a_state_before_the_first_step_goes_into_a_learner_that_went_on() -> None:
    made = learner(how("sgd_momentum"))
    state = made.get_state()
    expected = step(made, 0, 3)
    made.set_state(state)
    assert made.update_count == 0
    assert made["p0"].optimizer.state == {}
    assert step(made, 0, 3) == expected


def test_a_state_of_another_optimizer_changes_nothing() -> None:
    made = learner(how("adam"))
    step(made, 0, 1)
    state = made.get_state()
    bad = made.get_state()
    bad["p0"]["moments"]["pi"]["logits"]["weight"][0]["exp_avg"] = np.zeros((9, 9), np.float32)
    with pytest.raises(StateMismatchError, match="moments/pi/logits/weight"):
        made.set_state(bad)
    bad = made.get_state()
    bad["random_states"]["torch"] = (np.zeros(3, np.uint8),)
    with pytest.raises(StateMismatchError, match="random number"):
        made.set_state(bad)
    assert equal(made.get_state(), state)


@pytest.mark.parametrize(
    ("one", "other"), [("adam", "sgd_momentum"), ("sgd_momentum", "adam"), ("rmsprop", "adagrad"), ("adam", "lbfgs")]
)
@pytest.mark.parametrize("steps", [0, 2])
def test_a_state_of_another_class_of_optimizer_changes_nothing(one: str, other: str, steps: int) -> None:
    made, strange = learner(how(one)), learner(how(other))
    step(made, 0, steps)
    step(strange, 0, 2)
    state = made.get_state()
    with pytest.raises(StateMismatchError, match="does not fit the optimizer"):
        made.set_state(strange.get_state())
    assert equal(made.get_state(), state)
    step(made, steps, 1)


def test_settings_that_keep_less_are_no_other_optimizer() -> None:
    made, plain = learner(how("adamw_amsgrad")), learner(TrainingSpec(loss=loss, optimizer=torch.optim.AdamW))
    step(made, 0, 1)
    step(plain, 0, 1)
    made.set_state(plain.get_state())
    assert step(made, 1, 2) == step(plain, 1, 2)
    assert same(made, plain)


@pytest.mark.parametrize(("one", "other"), [("step", "cosine"), ("cosine", "step"), ("plateau", "cycle")])
def test_a_state_of_another_schedule_changes_nothing(one: str, other: str) -> None:
    made, strange = (
        learner(how("sgd_momentum", scheduler=SCHEDULERS[name][0], scheduler_kwargs=SCHEDULERS[name][1]))
        for name in (one, other)
    )
    state = made.get_state()
    with pytest.raises(StateMismatchError, match="does not fit the scheduler"):
        made.set_state(strange.get_state())
    assert equal(made.get_state(), state)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_order_of_parameters_means_nothing(name: str) -> None:
    made, turned = learner(how(name), kind=training.Forward), learner(how(name), kind=training.Backward)
    step(made, 0, 3)
    turned.set_state(made.get_state())
    assert step(turned, 3, 3) == step(made, 3, 3)
    assert same(turned, made)


@pytest.mark.parametrize("schedule", [None, training.Warm, torch.optim.lr_scheduler.OneCycleLR])
def test_the_order_of_groups_is_that_of_the_state(tmp_path: Path, schedule: Any) -> None:
    groups = {"third/*": {"lr": 0.5}, "first/*": {"lr": 0.1}}
    peaks = {"max_lr": [0.5, 0.1, 0.2], "total_steps": 30} if schedule is torch.optim.lr_scheduler.OneCycleLR else {}

    def build(given: dict[str, Any]) -> Learner:
        how_to = TrainingSpec(loss=loss, groups=given, scheduler=schedule, scheduler_kwargs=peaks)
        return learner(how_to, kind=training.Forward)

    made, turned = build(groups), build(dict(reversed(groups.items())))
    step(made, 0, 3)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    turned.set_state(made.get_state())
    expected = step(made, 3, 3)
    for other in (restored, turned):
        assert step(other, 3, 3) == expected
        assert same(other, made)


def test_a_layer_that_is_put_in_is_trained_and_the_rest_goes_on(tmp_path: Path) -> None:
    made = learner(how("adam"), kind=training.Forward)
    step(made, 0, 2)
    module: Any = made["p0"].policy.module
    known = made["p0"].get_state()["moments"]
    module.second = torch.nn.Linear(4, 4)
    found = made["p0"].get_state()["moments"]
    assert equal(found["first"], known["first"])
    assert found["second"] == {"weight": ({},), "bias": ({},)}
    before = module.second.weight.detach().clone()
    step(made, 2, 1)
    assert not torch.equal(module.second.weight, before)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert step(restored, 3, 2) == step(made, 3, 2)


def test_only_policies_to_train_are_trained() -> None:
    made = learner(None, "p0", "p1")
    made.policies_to_train = ["p1"]
    before = made["p0"].policy.get_state()
    assert list(step(made, 0, 1)[0]) == ["p1"]
    assert equal(made["p0"].policy.get_state(), before)
    assert equal(made.get_state()["policies_to_train"], (["p1"],))


def test_policies_come_and_go(tmp_path: Path) -> None:
    made = learner(None, "p0")
    made.add_policy("p1", policy(1), TrainingSpec(loss=loss), trust=TRUST)
    assert list(step(made, 0, 1)[0]) == ["p0", "p1"]
    made.remove_policy("p0")
    assert made.policies_to_train == ("p1",)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert list(restored.policies) == ["p1"]
    with pytest.raises(IdError):
        made.add_policy("p1", policy(1), TrainingSpec(loss=loss))
    with pytest.raises(IdError):
        made.add_policy("update_count", policy(1), TrainingSpec(loss=loss))


def test_one_part_alone(tmp_path: Path) -> None:
    made = learner(None, "p0", "p1")
    step(made, 0, 2)
    path = Path(made.save_to_path(tmp_path / "a"))
    kept, wanted = made["p0"].get_state(), made["p1"].get_state()
    step(made, 2, 2)
    later = made["p0"].get_state()
    made.restore_from_path(path / "p1", component="p1")
    assert equal(made["p1"].get_state(), wanted)
    assert equal(made["p0"].get_state(), later)
    assert not equal(later, kept)


def test_errors_come_at_once() -> None:
    with pytest.raises(SelectionError, match="'p2'"):
        learner().policies_to_train = ["p2"]
    with pytest.raises(ConfigError):
        Learner({}, policies_to_train=[])
    with pytest.raises(SelectionError):
        learner().update({"p9": {}})
    with pytest.raises(SelectionError):
        Learner.for_policies({"p0": policy()}, {"p1": TrainingSpec(loss=loss)})
    with pytest.raises(SpecError, match="inference only"):
        Learner.for_policies({"p0": spec(inference_only=True).build()}, TrainingSpec(loss=loss))
    with pytest.raises(SpecError, match="nothing to minimise"):
        step(learner(TrainingSpec(loss=training.no_loss)), 0, 1)
    with pytest.raises(SpecError, match="cannot be built"):
        learner(TrainingSpec(loss=loss, optimizer_kwargs={"lr": -1.0}))
    nameless = learner(TrainingSpec(loss=lambda module, batch: loss(module, batch) * 2))
    with pytest.raises(SpecError, match="found again"):
        snapshot_of(nameless)


@pytest.mark.parametrize(
    "training_spec",
    [
        TrainingSpec(loss="os.system"),
        TrainingSpec(loss=loss, optimizer="os.path.join"),
        TrainingSpec(loss=loss, scheduler="json.JSONDecoder"),
        TrainingSpec(loss="rlpipe.sample.train.os.system"),
    ],
)
def test_what_nobody_vouched_for_is_not_imported(training_spec: TrainingSpec) -> None:
    with pytest.raises((UntrustedClassError, SpecError)):
        Learner.for_policies({"p0": policy()}, training_spec)


def test_a_checkpoint_of_an_untrusted_loss_needs_trust(tmp_path: Path) -> None:
    path = learner().save_to_path(tmp_path / "a")
    with pytest.raises(UntrustedClassError) as caught:
        Learner.from_checkpoint(path)
    assert caught.value.class_path == "tests.algorithms.training.loss"


def test_meta_reads_no_array(tmp_path: Path) -> None:
    made = learner(how("adam"))
    step(made, 0, 1)
    path = Path(made.save_to_path(tmp_path / "a"))
    for file in path.rglob("state.h5"):
        file.unlink()
    assert all(
        tensor.is_meta for tensor in Learner.from_checkpoint(path, device="meta", trust=TRUST)["p0"].named.values()
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["adam", "adamw_fused", "sgd_momentum"])
def test_state_lies_on_the_device_of_its_parameter(tmp_path: Path, name: str) -> None:
    made = learner(how(name))
    step(made, 0, 2)
    restored = Learner.from_checkpoint(made.save_to_path(tmp_path / "a"), device="cuda", trust=TRUST)
    for state in restored["p0"].optimizer.state.values():
        assert {key: value.device.type for key, value in state.items() if value.ndim} == {
            key: "cuda" for key, value in state.items() if value.ndim
        }
    step(restored, 2, 2)
    path = restored.save_to_path(tmp_path / "b")
    back = Learner.from_checkpoint(path, trust=TRUST)
    assert equal(back["p0"].get_state(), restored["p0"].get_state())
    step(back, 4, 1)
