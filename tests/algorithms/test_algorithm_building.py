"""Algorithms of a checkpoint, of what was read of one, and of a state, built without the class around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.algorithm_building import Wanted, algorithm_at, algorithm_of_children, algorithm_of_state
from rlpipe.algorithms.changes import Changes
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import (
    CheckpointNotFoundError,
    ConfigError,
    SelectionError,
    SpecError,
    StateMismatchError,
    UntrustedClassError,
)
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import equal
from tests.algorithms.whole import TRUST, cartpole_policy, go, training, whole

NOTHING = Changes()
CLASS = "rlpipe.algorithms.algorithm.Algorithm"
ENV = "CartPole-v1"


class Mine(Algorithm):
    """A subclass, as people make them."""


@pytest.fixture(name="path", scope="module")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = whole("p0", "p1")
    go(made, 1)
    return Path(made.save_to_path(tmp_path_factory.mktemp("building") / "a"))


def at(path: Path, *ids: str, changes: Changes = NOTHING, kind: Any = Algorithm, **more: Any) -> Any:
    options: dict[str, Any] = {"device": "cpu", "trust": TRUST, **more}
    return algorithm_at(kind, path, list(ids) or None, changes, **options)


def test_everything_in_eval_mode(path: Path) -> None:
    made = at(path)
    assert sorted(made.policies) == ["p0", "p1"]
    assert not any(policy.module.training for policy in made.policies.values())
    assert content_hash(snapshot_of(made)) == content_hash(snapshot_of(Algorithm.from_checkpoint(path, trust=TRUST)))


def test_a_container_alone_gives_policies_alone(path: Path) -> None:
    made = at(path / "policies", "p*", changes=Changes({"*": "p1"}))
    assert sorted(made.policies) == ["p0", "p1"]
    assert (made.learner, made.runners) == (None, None)
    assert made.mapping.policy_id("anyone", ["p1"]) == "p1"
    with pytest.raises(SelectionError):
        at(path / "policies", "q*")


def test_a_subclass_comes_back_as_what_it_is(tmp_path: Path, path: Path) -> None:
    mine = Mine({"p0": cartpole_policy()})
    saved = Path(mine.save_to_path(tmp_path / "mine"))
    assert type(at(saved, kind=Mine)) is Mine
    assert type(at(saved, trust=("tests.*",))) is Mine
    with pytest.raises(UntrustedClassError):
        at(saved, trust=())
    with pytest.raises(SpecError):
        at(path, kind=Mine)


def test_changes_apply_once_it_is_built(path: Path) -> None:
    changes = Changes({"*": "p0"}, ["p0"], 2, "CartPole-v0", {"lr": 0.5})
    made = at(path, changes=changes)
    assert made.policies_to_train == ("p0",)
    assert len(made.runners) == 2
    assert {runner.env for runner in (*made.runners.runners, *made.evaluation.runners)} == {"CartPole-v0"}
    assert {runner.index for runner in made.runners.runners} == {0, 1}
    assert made.learner["p0"].get_hyperparameters()["lr"] == 0.5
    assert made.learner["p1"].get_hyperparameters()["lr"] != 0.5


@pytest.mark.parametrize(
    ("ids", "changes", "error"),
    [
        (["p9"], NOTHING, SelectionError),
        ([], Changes({"*": "p9"}), SelectionError),
        (["p0"], Changes(policies_to_train=["p1"]), SelectionError),
        ([], Changes(num_env_runners=0), ConfigError),
        ([], Changes("os.getcwd"), UntrustedClassError),
    ],
)
def test_wrong_arguments_are_told_before_an_array_is_read(
    tmp_path: Path, path: Path, ids: list[str], changes: Changes, error: type[Exception]
) -> None:
    copied = tmp_path / "a"
    for file in path.rglob("manifest.json"):
        target = copied / file.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    with pytest.raises(error):
        at(copied, *ids, changes=changes)


def test_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError):
        at(tmp_path / "none")


def test_on_meta_there_are_shapes_alone(path: Path) -> None:
    made = at(path, device="meta")
    assert all(parameter.is_meta for policy in made.policies.values() for parameter in policy.module.parameters())


def children(**more: Any) -> dict[str, Any]:
    policies = {name: cartpole_policy(seed=seed) for seed, name in enumerate(("p0", "p1"))}
    return {"policies": MultiRLModule(policies), **more}


def test_the_learner_of_children_trains_the_policies_of_the_algorithm() -> None:
    other = {"p1": cartpole_policy(seed=5)}
    parts = children(learner=Learner.for_policies(other, training(), trust=TRUST))
    made = algorithm_of_children(Algorithm, Spec(CLASS), parts, trust=())
    assert made.learner is not None
    assert list(made.learner.policies) == ["p1"]
    assert made.learner["p1"].policy is made.get_policy("p1")
    live = {id(parameter) for parameter in made.get_policy("p1").module.parameters()}
    trained = [id(each) for group in made.learner["p1"].optimizer.param_groups for each in group["params"]]
    assert set(trained) == live


def test_options_say_how_many_runners_and_who_acts() -> None:
    parts = children()
    parts["env_runner"] = EnvRunner(dict(parts["policies"].items()), env=ENV)
    spec = Spec(CLASS, {}, {"num_env_runners": 3, "policy_mapping": [["1*", "p1"], ["*", "p0"]]})
    made = algorithm_of_children(Algorithm, spec, parts, trust=())
    assert made.runners is not None
    assert len(made.runners) == 3
    assert [made.runners.first.policy_of(agent) for agent in ("10", "2")] == ["p1", "p0"]
    bare = algorithm_of_children(Algorithm, Spec(CLASS), children(), trust=())
    assert (bare.runners, bare.mapping) == (None, None)
    with pytest.raises(UntrustedClassError):
        algorithm_of_children(Algorithm, Spec(CLASS, {}, {"policy_mapping": "os.getcwd"}), children(), trust=())


def test_a_state_is_put_into_what_is_wanted() -> None:
    made = whole("p0", "p1")
    go(made, 1)
    specs = {name: policy.spec for name, policy in made.policies.items()}
    runner = RunnerSpec(env=ENV, num_envs=2)
    wanted = Wanted(training(), runner, 2, RunnerSpec(env=ENV), {"0": "p0", "1": "p1"})
    options: dict[str, Any] = {"device": "cpu", "trust": TRUST}
    found = algorithm_of_state(Mine, made.get_state(), specs, wanted, **options)
    assert type(found) is Mine
    assert equal(found.get_state(), made.get_state())
    assert found.runners is not None
    assert len(found.runners) == 2
    assert found.mapping is not None
    assert found.mapping.policy_id("1", specs) == "p1"
    for less in (Wanted(training(), runner), Wanted(None, runner, 1, runner), Wanted()):
        with pytest.raises(StateMismatchError):
            algorithm_of_state(Algorithm, made.get_state(), specs, less, **options)


def test_each_policy_can_be_trained_in_its_own_way() -> None:
    specs = {name: cartpole_policy().spec for name in ("p0", "p1")}
    one = Algorithm({name: spec.build() for name, spec in specs.items()})
    policies = dict(one.policies.items())
    made = Algorithm(policies, learner=Learner.for_policies(policies, {"p1": training()}, trust=TRUST))
    wanted = Wanted({"p1": training()})
    found = algorithm_of_state(Algorithm, made.get_state(), specs, wanted, device="cpu", trust=TRUST)
    assert found.policies_to_train == ("p1",)
    wrong = Wanted({"p7": training()})
    with pytest.raises(SelectionError, match="'p7'"):
        algorithm_of_state(Algorithm, made.get_state(), specs, wrong, device="cpu", trust=TRUST)
