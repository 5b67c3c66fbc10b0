from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.runner_spec import RunnerSpec
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.reader import read_manifest
from rlpipe.errors import ConfigError, EnvironmentMismatchError
from rlpipe.pipeline.settings import AlgorithmSettings, CheckpointSettings, PolicySettings, SelectSettings
from rlpipe.snapshot.spaces import Discrete
from tests.algorithms.training import TRUST
from tests.pipeline.checkpoints import PPO, Runner, box

HOW = TrainingSpec(loss="tests.algorithms.training.loss", optimizer_kwargs={"lr": 0.25, "betas": [0.8, 0.9]})
ACTING = RunnerSpec(env="CartPole-v1", num_envs=2, seed=4)


def settings(**more: Any) -> AlgorithmSettings:
    policy = PolicySettings(module=PPO, observation_space=box(4), action_space=Discrete(2))
    return AlgorithmSettings(policies={"p0": policy, "p1": policy}, seed=4, **more)


def save(run_task: Runner, name: str, algorithm: AlgorithmSettings, **more: Any) -> None:
    run_task("save", algorithm=algorithm, checkpoint=CheckpointSettings(path=name), trust=TRUST, **more)


def test_what_is_written_trains_and_acts(run_task: Runner) -> None:
    mapping = {"0": "p0", "*": "p1"}
    save(run_task, "c", settings(learner=HOW, env_runner=ACTING, policy_mapping_fn=mapping, policies_to_train=("p1",)))
    made = Algorithm.from_checkpoint("c", trust=TRUST)
    assert made.learner is not None
    assert made.policies_to_train == tuple(made.learner.policies) == ("p1",)
    assert made.learner["p1"].get_hyperparameters()["lr"] == 0.25
    assert made.learner["p1"].get_hyperparameters()["betas"] == (0.8, 0.9)
    samples = made.sample(20)
    assert sorted(samples) == ["p0", "p1"]
    assert list(made.update({"p1": samples["p1"]})) == ["p1"]


def test_several_runners_and_one_for_evaluation_are_written(run_task: Runner) -> None:
    mapping = {"0": "p0", "*": "p1"}
    evaluation = RunnerSpec(env="CartPole-v1", seed=7)
    save(
        run_task,
        "c",
        settings(env_runner=ACTING, num_env_runners=3, evaluation_runner=evaluation, policy_mapping_fn=mapping),
    )
    made = Algorithm.from_checkpoint("c")
    assert made.runners is not None
    assert len(made.runners) == 3
    assert made.evaluation is not None
    assert (made.evaluation.first.seed, made.evaluation.first.num_envs) == (7, 1)
    assert len(made.sample(30)["p0"]["rewards"]) >= 3
    assert [episode.seed for episode in made.evaluate(2)] == [7, 8]


def test_groups_of_parameters_are_written_in_their_order(run_task: Runner) -> None:
    groups: dict[str, dict[str, Any]] = {
        "encoder/actor*": {"lr": 0.5},
        "encoder/*": {"lr": 0.125, "betas": [0.5, 0.75]},
    }
    how = TrainingSpec(loss=HOW.loss, optimizer_kwargs={"lr": 0.25}, groups=groups)
    save(run_task, "c", settings(learner=how))
    made = Algorithm.from_checkpoint("c", trust=TRUST)
    assert made.learner is not None
    found = made.learner["p1"].get_hyperparameters()
    assert found["lr"] == [0.5, 0.125, 0.25]
    assert found["betas"] == [(0.9, 0.999), (0.5, 0.75), (0.9, 0.999)]


def test_a_runner_for_evaluation_alone_is_written(run_task: Runner) -> None:
    save(run_task, "c", settings(evaluation_runner=RunnerSpec(env="CartPole-v1"), policy_mapping_fn={"*": "p1"}))
    made = Algorithm.from_checkpoint("c")
    assert made.runners is None
    assert len(made.evaluate(1)) == 1


def test_equal_seeds_give_equal_algorithms_whatever_the_process_drew(run_task: Runner) -> None:
    import torch

    whole = settings(learner=HOW, env_runner=ACTING, policy_mapping_fn={"*": "p0"})
    save(run_task, "a", whole)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    save(run_task, "b", whole)
    assert torch.equal(torch.get_rng_state(), before)
    assert read_manifest("a").content_hash == read_manifest("b").content_hash
    for name in ("learner", "env_runner", "policies"):
        assert (Path("a") / name / "manifest.json").read_bytes() == (Path("b") / name / "manifest.json").read_bytes()


def test_inference_alone_leaves_the_learner_behind(run_task: Runner) -> None:
    save(run_task, "c", settings(learner=HOW), select=SelectSettings(roles=("inference",)))
    assert list(read_manifest("c").children) == ["policies"]


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (settings(env_runner=ACTING), "policy_mapping_fn"),
        (settings(learner=TrainingSpec(loss="tests.algorithms.training.gone")), "gone"),
        (settings(learner=TrainingSpec(loss="os.path.join")), "os.path.join"),
        (settings(learner=TrainingSpec(loss=HOW.loss, optimizer_kwargs={"learning": 1})), "learning"),
        (settings(env_runner=RunnerSpec(env="CartPol-v1"), policy_mapping_fn={"*": "p0"}), "CartPole-v1"),
        (settings(policy_mapping_fn="os.getcwd"), "os.getcwd"),
        (settings(evaluation_runner=ACTING), "policy_mapping_fn"),
        (settings(learner=TrainingSpec(loss=HOW.loss, groups={"encodr/*": {}})), "encodr"),
        (settings(learner=TrainingSpec(loss=HOW.loss, groups={"encoder/*": {"rate": 1}})), "rate for encoder"),
        (settings(evaluation_runner=RunnerSpec(env="CartPol-v1"), policy_mapping_fn={"*": "p0"}), "CartPole-v1"),
    ],
)
def test_what_cannot_be_built_is_a_config_error(run_task: Runner, algorithm: AlgorithmSettings, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        save(run_task, "c", algorithm)
    assert words in str(caught.value)
    assert not Path("c").exists()


def test_an_environment_that_fits_nobody_is_told(run_task: Runner) -> None:
    with pytest.raises((ConfigError, EnvironmentMismatchError), match="Pendulum"):
        save(run_task, "c", settings(env_runner=RunnerSpec(env="Pendulum-v1"), policy_mapping_fn={"*": "p0"}))


def test_some_policies_cannot_be_chosen_beside_a_learner(run_task: Runner) -> None:
    with pytest.raises(ConfigError, match="policy_ids"):
        save(run_task, "c", settings(learner=HOW), select=SelectSettings(policy_ids=("p0",)))
