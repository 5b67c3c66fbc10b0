"""Algorithms with a learner and runners: built whole and in part, changed, and told what is wrong at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.learner_snapshot import renamed_copies
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import (
    ConfigError,
    IdError,
    IntegrityError,
    SelectionError,
    SpecError,
    StateMismatchError,
    UntrustedClassError,
)
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.state import arrays, equal
from tests.algorithms.whole import TRUST, go, require_in_step, training, whole
from tests.algorithms.whole import cartpole_policy as policy

ROOT = Path(__file__).parents[2]
OPENS = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from rlpipe.algorithms.algorithm import Algorithm
path = sys.argv[1]
Algorithm.from_checkpoint(path, policy_ids=["p1"], trust=("tests.algorithms.training.*",))
print(json.dumps(sorted({each.removeprefix(path) for each in opened if each.startswith(path + "/")})))
print(json.dumps([name for name in sys.modules if name.split(".")[0] in ("gymnasium", "gym", "pettingzoo", "ale_py")]))
"""


@pytest.fixture(name="path", scope="module")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = whole("p0", "p1", "p2")
    go(made, 2, n=30)
    return Path(made.save_to_path(tmp_path_factory.mktemp("whole") / "a"))


def test_everything_comes_back_and_is_equal_when_saved_again(path: Path) -> None:
    made = Algorithm.from_checkpoint(path, trust=TRUST)
    assert content_hash(snapshot_of(made)) == _hash(path)
    require_in_step(made)
    assert made.counters["updates"] == 2
    assert made.policies_to_train == ("p0", "p1", "p2")


def _hash(path: Path) -> str:
    text: str = json.loads((path / "manifest.json").read_text())["content_hash"]
    return text


def test_one_of_many_opens_its_files_alone_and_no_environment(path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", OPENS, path], check=True, cwd=ROOT, capture_output=True, text=True)
    opened, environments = map(json.loads, found.stdout.splitlines())
    assert not [name for name in opened if "/p0" in name or "/p2" in name]
    assert "/policies/p1/state.h5" in opened
    assert "/learner/p1/state.h5" in opened
    assert environments == []


def test_some_policies_are_trained_and_run_as_if_the_others_had_never_been(path: Path) -> None:
    made = Algorithm.from_checkpoint(path, ["p0", "p2"], trust=TRUST)
    whole_one = Algorithm.from_checkpoint(path, trust=TRUST)
    assert list(made.policies) == ["p0", "p2"]
    assert made.policies_to_train == ("p0", "p2")
    require_in_step(made)
    for name in ("p0", "p2"):
        assert equal(made.learner[name].get_state(), whole_one.learner[name].get_state())  # type: ignore[index]
    with pytest.raises(SelectionError, match="maps '1' to no policy"):
        made.sample(1)
    made.set_policy_mapping({"1": "p0", "0": "p0", "2": "p2"})
    go(made, 1)
    restored = made.get_state()
    assert "p1" not in restored["policies"]


def test_a_lone_policy_acts_for_all(path: Path) -> None:
    made = Algorithm.from_checkpoint(path, ["p1"], {"*": "p1"}, ["p1"], trust=TRUST)
    assert list(go(made, 1)[0]) == ["p1"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"policy_ids": ["p7"]}, SelectionError),
        ({"policy_ids": ["q*"]}, SelectionError),
        ({"policy_ids": []}, ConfigError),
        ({"policy_ids": "p1"}, ConfigError),
        ({"policy_ids": ["p1", "p1"]}, ConfigError),
        ({"policies_to_train": []}, ConfigError),
        ({"policies_to_train": ["p7"]}, SelectionError),
        ({"policy_ids": ["p0"], "policies_to_train": ["p1"]}, SelectionError),
        ({"policy_mapping_fn": {"*": "p7"}}, SelectionError),
        ({"policy_ids": ["p0"], "policy_mapping_fn": {"*": "p1"}}, SelectionError),
        ({"policy_mapping_fn": {"*": 1}}, ConfigError),
        ({"policy_mapping_fn": 3}, ConfigError),
        ({"policy_mapping_fn": "os.getcwd"}, UntrustedClassError),
        ({"num_env_runners": 0}, ConfigError),
    ],
)
def test_wrong_arguments_are_told(path: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Algorithm.from_checkpoint(path, trust=TRUST, **arguments)


def test_damage_in_any_file_is_noticed_and_nothing_changes(path: Path, tmp_path: Path) -> None:
    live = Algorithm.from_checkpoint(path, trust=TRUST)
    go(live, 1)
    files = [file.relative_to(path) for file in path.rglob("state.h5")]
    assert len(files) > 10
    for index, file in enumerate(files):
        damaged = tmp_path / str(index)
        shutil.copytree(path, damaged)
        held = bytearray((damaged / file).read_bytes())
        stored: Any = arrays(read_checkpoint((path / file).parent, arrays="later").state)
        held[next(iter(stored.values())).extent.offset] ^= 1
        (damaged / file).write_bytes(held)
        with pytest.raises(IntegrityError):
            Algorithm.from_checkpoint(damaged, trust=TRUST)
        before = live.get_state()
        with pytest.raises(IntegrityError):
            live.restore_from_path(damaged)
        assert equal(live.get_state(), before)


@pytest.mark.parametrize(
    "change",
    [{"num_env_runners": 2}, {"env": "CartPole-v1"}, {"hyperparameters": {"lr": 0.1}}, {"policies_to_train": ["p0"]}],
)
def test_a_change_of_what_was_not_saved_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = Path(Algorithm({"p0": policy()}).save_to_path(tmp_path / "a"))
    for place, ids in ((path, None), (path, ["p0"]), (path / "policies", ["p0"])):
        with pytest.raises((ConfigError, SpecError)):
            Algorithm.from_checkpoint(place, ids, **change)


def test_policies_that_come_or_go_behind_the_algorithms_back_are_noticed_before_anything_is_written(
    tmp_path: Path,
) -> None:
    made = whole("p0", "p1")
    made.policies.rename_rl_module("p1", "p2")
    with pytest.raises((SpecError, SelectionError), match=r"p[12]"):
        made.save_to_path(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    made.policies.rename_rl_module("p2", "p1")
    made.save_to_path(tmp_path / "a")


def test_what_was_trained_before_another_update_failed_acts_all_the_same() -> None:
    made = whole("p0", "p1")
    batches: Any = made.sample(20)
    batches["p1"]["obs"] = np.full_like(batches["p1"]["obs"], np.nan)
    before = made.get_policy("p0").get_state()
    with pytest.raises(SpecError, match="nothing to minimise"):
        made.update(batches)
    assert not equal(made.get_policy("p0").get_state(), before)
    require_in_step(made)


def test_policies_to_train_need_a_learner(tmp_path: Path) -> None:
    path = Algorithm({"p0": policy()}).save_to_path(tmp_path / "a")
    with pytest.raises(SpecError, match="nothing that trains"):
        Algorithm.from_checkpoint(path, policies_to_train=["p0"])
    for call in ("update", "sample", "evaluate"):
        with pytest.raises(SpecError, match="has no"):
            getattr(Algorithm.from_checkpoint(path), call)({} if call == "update" else 1)


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_runners(path: Path, count: int) -> None:
    made = Algorithm.from_checkpoint(path, num_env_runners=count, trust=TRUST)
    assert made.runners is not None
    assert len(made.runners) == count
    require_in_step(made)
    go(made, 1, n=60)
    require_in_step(made)
    counts = {json.dumps(runner.observation_counts) for runner in made.runners.runners}
    assert len(counts) == 1
    seeds = {int(runner._running().rng.bit_generator.state["state"]["state"]) for runner in made.runners.runners}
    assert len(seeds) == count


def test_statistics_of_runners_are_joined_and_reach_every_copy() -> None:
    made = whole("p0", runners=3)
    before = made.get_policy("p0").get_statistics()["normalize"]
    found = made.sample(90)["p0"]["obs"]
    seen = found * np.sqrt(before["var"] + 1e-8) + before["mean"]
    statistics = made.get_policy("p0").get_statistics()["normalize"]
    assert np.allclose(statistics["mean"], seen.mean(axis=0), atol=1e-5)
    assert np.allclose(statistics["var"], seen.var(axis=0), atol=1e-5)
    require_in_step(made)
    assert made.counters["env_steps"] == len(found)


def test_other_hyperparameters_and_another_environment(path: Path) -> None:
    made = Algorithm.from_checkpoint(path, hyperparameters={"lr": 0.5}, env="CartPole-v0", trust=TRUST)
    assert made.learner is not None
    assert made.learner["p1"].get_hyperparameters()["lr"] == 0.5
    assert {group.first.env for group in made.parts.groups} == {"CartPole-v0"}
    report = made.restore_from_path(path, hyperparameters={"lr": 0.25})
    assert report.notes == tuple(f"{name}: lr: 0.01 -> 0.25" for name in ("p0", "p1", "p2"))


def test_other_hyperparameters_are_for_what_is_restored(path: Path) -> None:
    made = Algorithm.from_checkpoint(path, trust=TRUST)
    assert made.learner is not None
    report = made.restore_from_path(path / "learner/p1", component="learner/p1", hyperparameters={"lr": 0.5})
    assert report.notes == ("p1: lr: 0.01 -> 0.5",)
    assert [made.learner[name].get_hyperparameters()["lr"] for name in ("p0", "p1", "p2")] == [0.01, 0.5, 0.01]
    before = made.get_state()
    with pytest.raises(SpecError, match="no optimizer to set"):
        made.restore_from_path(path / "policies/p1", component="policies/p1", hyperparameters={"lr": 0.5})
    assert equal(made.get_state(), before)


def test_meta_reads_no_array(path: Path) -> None:
    for ids in (None, ["p1"]):
        made = Algorithm.from_checkpoint(path, ids, device="meta", trust=TRUST)
        assert all(tensor.is_meta for tensor in made.get_policy("p1").module.parameters())


def test_policies_come_and_go(tmp_path: Path) -> None:
    made = whole("p0", "p1")
    go(made, 1)
    fresh = policy(normalised=True, seed=8)
    made.add_policy("p2", fresh.spec, state=fresh.get_state(), training=training(), trust=TRUST)
    assert equal(made.get_policy("p2").get_state(), fresh.get_state())
    assert made.policies_to_train == ("p0", "p1", "p2")
    require_in_step(made)
    made.set_policy_mapping({"0": "p2", "1": "p0"})
    assert sorted(go(made, 1)[0]) == ["p0", "p2"]
    with pytest.raises(SelectionError, match="'p2'"):
        made.remove_policy("p2")
    made.remove_policy("p2", policy_mapping_fn={"0": "p0", "1": "p1"})
    made.remove_policy("p1", policy_mapping_fn={"*": "p0"})
    require_in_step(made)
    path = made.save_to_path(tmp_path / "a")
    restored = Algorithm.from_checkpoint(path, trust=TRUST)
    assert list(restored.policies) == ["p0"]
    assert equal(restored.get_state(), made.get_state())
    with pytest.raises(IdError):
        made.add_policy("p0", fresh.spec)
    with pytest.raises(SelectionError):
        made.remove_policy("p9")
    with pytest.raises(StateMismatchError):
        made.add_policy("p3", fresh.spec, state={"pi": 1})
    assert list(made.policies) == ["p0"]


def test_weights_go_in_whole_or_as_what_acts() -> None:
    source, target = whole("p0", "p1", seed=5), whole("p0", "p1")
    critic = target.get_policy("p0").get_state()["vf"]
    target.set_weights(source.get_weights(["p0"], inference_only=True))
    assert equal(target.get_weights(["p0"], inference_only=True), source.get_weights(["p0"], inference_only=True))
    assert equal(target.get_policy("p0").get_state()["vf"], critic)
    target.set_weights(source.get_weights())
    assert equal(target.get_weights(), source.get_weights())
    require_in_step(target)
    before = target.get_state()
    with pytest.raises(StateMismatchError):
        target.set_weights({"p0": source.get_weights()["p0"], "p1": {"pi": np.zeros(2)}})
    with pytest.raises(SelectionError):
        target.set_weights({"p9": {}})
    assert equal(target.get_state(), before)


def test_training_reaches_the_runners_and_says_how_much_was_sent() -> None:
    made = whole("p0")
    go(made, 1)
    require_in_step(made)
    (transfer,) = made.sync().values()
    assert 0 < transfer.sent < transfer.full


def test_a_learner_of_other_policies_is_refused() -> None:
    policies = {"p0": policy()}
    learner = Learner.for_policies({"p0": policy(seed=1)}, training(), trust=TRUST)
    with pytest.raises(SpecError, match="trains other policies"):
        Algorithm(policies, learner=learner)
    with pytest.raises(SelectionError):
        Algorithm({"p1": policy()}, env_runner=whole("p0").runners.first)  # type: ignore[union-attr]


def test_saving_leaves_the_callers_state_alone(tmp_path: Path) -> None:
    made = whole("p0")
    go(made, 1)
    state = made.get_state()
    copy = made.get_state()
    go(made, 1)
    path = made.save_to_path(tmp_path / "a", state=state)
    assert equal(state, copy)
    assert equal(Algorithm.from_checkpoint(path, trust=TRUST).get_state(), copy)
    assert Path(made.save_to_path()).is_dir()


def test_parts_of_the_state_by_name() -> None:
    made = whole("p0", "p1")
    assert sorted(made.get_state(components="learner/p1")["learner"]) == ["p1"]
    assert "learner" not in made.get_state(not_components=["learner", "*runner"])
    with pytest.raises(SelectionError):
        made.get_state(components="lerner")


def test_training_goes_on_bit_for_bit_with_runners(tmp_path: Path) -> None:
    made = whole("p0", "p1", runners=2)
    go(made, 2)
    path = made.save_to_path(tmp_path / "a")
    assert made.runners is not None
    for runner in made.runners.runners:
        runner.reset()
    expected = go(made, 2)
    torch.manual_seed(99)
    restored = Algorithm.from_checkpoint(path, trust=TRUST)
    assert go(restored, 2) == expected
    assert equal(restored.get_state(), made.get_state())


def test_an_algorithm_from_a_state_trains_on() -> None:
    made = whole("p0", "p1")
    go(made, 2)
    state = made.get_state(not_components="*_runner")
    specs = {name: each.spec for name, each in made.policies.items()}
    again = Algorithm.from_state(state, specs, training=training(), trust=TRUST)
    assert equal(again.get_state(), state)
    with pytest.raises(StateMismatchError):
        Algorithm.from_state(made.get_state(), specs, training=training(), trust=TRUST)
    with pytest.raises(StateMismatchError):
        Algorithm.from_state(state, specs)


@pytest.mark.parametrize("runners", [1, 2])
def test_a_state_with_runners_makes_an_algorithm_that_goes_on(runners: int) -> None:
    made = whole(runners=runners)
    go(made, 2)
    assert made.runners is not None
    again = Algorithm.from_state(
        made.get_state(),
        {name: policy.spec for name, policy in made.policies.items()},
        training=training(),
        env_runner=RunnerSpec(env="CartPole-v1", num_envs=2),
        num_env_runners=runners,
        evaluation_runner=RunnerSpec(env="CartPole-v1"),
        policy_mapping_fn={"0": "p0", "1": "p1"},
        trust=TRUST,
    )
    assert equal(again.get_state(), made.get_state())
    assert content_hash(snapshot_of(again)) == content_hash(snapshot_of(made))
    require_in_step(again)
    state = made.get_state()
    for runner in made.runners.runners:
        runner.reset()
    expected = go(made, 2)
    again.set_state(state)
    assert go(again, 2) == expected


def test_a_state_with_runners_is_not_of_an_algorithm_without() -> None:
    made = whole()
    specs = {name: policy.spec for name, policy in made.policies.items()}
    with pytest.raises(StateMismatchError):
        Algorithm.from_state(made.get_state(), specs, training=training(), trust=TRUST)
    acting = RunnerSpec(env="CartPole-v1")
    with pytest.raises(SelectionError, match="'p7'"):
        Algorithm.from_state({}, specs, env_runner=acting, policy_mapping_fn={"*": "p7"})


def test_a_policy_that_a_mapping_of_the_runners_leads_to_stays(tmp_path: Path) -> None:
    policies = {name: policy() for name in ("p0", "p1")}
    runner = EnvRunner(policies, env="CartPole-v1", policy_mapping_fn={"*": "p1"})
    made = Algorithm(policies, env_runner=runner)
    with pytest.raises(SelectionError, match="'p1'"):
        made.remove_policy("p1")
    assert sorted(made.policies) == ["p0", "p1"]
    made.remove_policy("p1", policy_mapping_fn={"*": "p0"})
    restored = Algorithm.from_checkpoint(made.save_to_path(tmp_path / "a"))
    assert list(restored.sample(1)) == ["p0"]


def test_the_order_of_globs_of_agents_comes_back(tmp_path: Path) -> None:
    made = whole("p0", "p1", "p2")
    made.set_policy_mapping({"0*": "p1", "*": "p0", "1": "p2"})
    path = made.save_to_path(tmp_path / "a")
    expected = {"0": "p1", "1": "p2", "2": "p0"}
    for restored in (
        Algorithm.from_checkpoint(path, trust=TRUST),
        Algorithm.from_checkpoint(path, ["p*"], trust=TRUST),
    ):
        assert restored.runners is not None
        assert {agent: restored.runners.first.policy_of(agent) for agent in expected} == expected
        assert content_hash(snapshot_of(restored)) == content_hash(snapshot_of(made))
    some = Algorithm.from_checkpoint(path, ["p0", "p1"], trust=TRUST)
    assert some.runners is not None
    assert [some.runners.first.policy_of(agent) for agent in "01"] == ["p1", "p0"]
    renamed = renamed_copies(read_checkpoint(path), {"p1": "p9"})
    mapping = renamed.children["env_runner"].spec.options["policy_mapping"]
    assert mapping == renamed.spec.options["policy_mapping"] == [["0*", "p9"], ["*", "p0"], ["1", "p2"]]


def test_a_layer_that_policies_share_is_trained_by_each_after_a_restore(tmp_path: Path) -> None:
    policies: dict[str, Any] = {name: policy(seed=seed) for seed, name in enumerate(("p0", "p1"))}
    policies["p1"].module.encoder = policies["p0"].module.encoder
    made = Algorithm(policies, learner=Learner.for_policies(policies, training(), trust=TRUST))
    batches: Any = {name: {"obs": np.ones((4, 4), np.float32), "actions": np.array([0, 1, 1, 1])} for name in policies}
    made.update(batches)
    restored = Algorithm.from_checkpoint(made.save_to_path(tmp_path / "a"), trust=TRUST)
    assert [restored.update(batches) for _ in range(3)] == [made.update(batches) for _ in range(3)]
    assert equal(restored.get_state(), made.get_state())


def test_a_layer_that_policies_share_acts_in_both_when_one_is_trained() -> None:
    policies: dict[str, Any] = {name: policy(seed=seed) for seed, name in enumerate(("p0", "p1"))}
    policies["p1"].module.encoder = policies["p0"].module.encoder
    runner = EnvRunner(policies, env="CartPole-v1", num_envs=2, policy_mapping_fn={"0": "p0", "1": "p1"})
    learner = Learner.for_policies(policies, training(), trust=TRUST)
    made = Algorithm(
        policies, learner=learner, env_runner=runner, evaluation_runner=EnvRunner(policies, env="CartPole-v1")
    )
    made.update({"p0": made.sample(10)["p0"]})
    require_in_step(made)


def test_settings_that_a_restore_replaces_are_told(tmp_path: Path) -> None:
    path = whole("p0", "p1").save_to_path(tmp_path / "run")
    live = whole("p0", "p1")
    assert live.learner is not None
    assert live.restore_from_path(path).notes == ()
    live.learner.set_hyperparameters({"lr": 0.05, "betas": (0.5, 0.9)}, policy_ids=["p1"])
    expected = ("p1: lr: 0.05 -> 0.01, as saved", "p1: betas: (0.5, 0.9) -> (0.9, 0.999), as saved")
    assert live.restore_from_path(path).notes == expected
    live.learner.set_hyperparameters({"lr": 0.05}, policy_ids=["p1"])
    assert live.restore_from_path(Path(path) / "learner" / "p1", component="learner/p1").notes == expected[:1]
    live.learner.set_hyperparameters({"lr": 0.05}, policy_ids=["p1"])
    assert live.learner.restore_from_path(Path(path) / "learner").notes == expected[:1]


def test_what_a_schedule_moves_is_no_other_setting(tmp_path: Path) -> None:
    policies = {"p0": policy()}
    spec = replace(training(), scheduler=torch.optim.lr_scheduler.StepLR, scheduler_kwargs={"step_size": 1})
    made = Learner.for_policies(policies, spec, trust=TRUST)
    path = made.save_to_path(tmp_path / "a")
    made.update({"p0": {"obs": np.ones((4, 4), np.float32), "actions": np.array([0, 1, 1, 1])}})
    assert made["p0"].get_hyperparameters()["lr"] < 0.01
    assert made.restore_from_path(path).notes == ()
