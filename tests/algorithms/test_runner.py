from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.weights import reduced
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ConfigError, EnvironmentMismatchError, SelectionError, StateMismatchError
from rlpipe.snapshot import content_hash
from rlpipe.snapshot.state import arrays, equal
from tests.algorithms.whole import FAMILIES, cartpole_policy


def runner(name: str = "ppo", *, normalised: bool = False, **more: Any) -> EnvRunner:
    return EnvRunner({"p0": cartpole_policy(name, normalised=normalised)}, env=FAMILIES[name][1], **more)


def same(one: Any, other: Any) -> bool:
    return equal(one, other)


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_are_what_was_met_and_done(name: str) -> None:
    made = runner(name, num_envs=3)
    found = made.sample(120)["p0"]
    spec = made.policies["p0"].spec
    count = len(found["obs"])
    assert count == made.env_steps <= 120
    assert found["obs"].shape == (count, *spec.module.observation_space.shape)
    assert spec.action_space.contains(found["actions"])
    assert {found[key].dtype.name for key in ("terminated", "truncated")} == {"bool"}
    assert found["rewards"].dtype == np.float32
    assert len(np.unique(found["actions"])) > 1
    made.close()


def test_steps_follow_on_each_other_and_none_joins_two_episodes() -> None:
    made = runner(num_envs=1)
    found = made.sample(200)["p0"]
    ended = found["terminated"] | found["truncated"]
    assert ended.sum() == made.episode_count > 1
    follows = np.all(found["next_obs"][:-1] == found["obs"][1:], axis=1)
    assert np.array_equal(follows, ~ended[:-1])
    made.close()


def test_a_runner_holds_copies_of_what_acts() -> None:
    source = cartpole_policy()
    made = EnvRunner({"p0": source}, env="CartPole-v1")
    copy = made.policies["p0"]
    assert copy.module.inference_only
    assert not [key for key in copy.get_own_roles() if key.startswith("vf")]
    with torch.no_grad():
        source.module.pi.logits.weight.zero_()  # type: ignore[union-attr,operator]
    assert copy.module.pi.logits.weight.abs().sum() > 0


def test_making_a_runner_draws_nothing() -> None:
    source = cartpole_policy()
    before = torch.get_rng_state()
    EnvRunner({"p0": source}, env="CartPole-v1")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_restored_runner_goes_on_as_the_one_that_was_reset(tmp_path: Path, name: str) -> None:
    made = runner(name, num_envs=2, normalised=True, seed=5)
    made.sample(30)
    restored = EnvRunner.from_checkpoint(made.save_to_path(tmp_path / "a"))
    assert content_hash(snapshot_of(restored)) == content_hash(snapshot_of(made))
    made.reset()
    assert same(restored.sample(30), made.sample(30))
    assert same(restored.get_state(), made.get_state())
    made.close()
    restored.close()


def test_statistics_follow_what_is_sampled_and_stay_in_evaluation() -> None:
    made = runner(normalised=True, num_envs=2)
    prior = made.policies["p0"].get_statistics()["normalize"]
    assert np.array_equal(prior["mean"], np.zeros(4))
    rows = []
    copy = made.policies["p0"]
    for _ in range(3):
        before = copy.get_statistics()["normalize"]
        found = made.sample(50)["p0"]["obs"]
        rows.append(found * np.sqrt(before["var"] + 1e-8) + before["mean"])
    seen = np.concatenate(rows)
    statistics = copy.get_statistics()["normalize"]
    assert made.observation_counts == {"p0": len(seen)}
    assert np.allclose(statistics["mean"], seen.mean(axis=0), atol=1e-5)
    assert np.allclose(statistics["var"], seen.var(axis=0), atol=1e-5)
    made.evaluate(2)
    assert same(copy.get_statistics()["normalize"], statistics)
    made.close()


def test_evaluation_is_repeatable_and_leaves_sampling_alone() -> None:
    one, other = runner(seed=3), runner(seed=3)
    one.sample(10)
    other.sample(10)
    episodes = one.evaluate(3, max_steps=50)
    assert episodes == one.evaluate(3, max_steps=50)
    assert [episode.seed for episode in episodes] == [3, 4, 5]
    assert same(one.sample(20), other.sample(20))


def test_agents_are_mapped_to_policies() -> None:
    policies = {"p0": cartpole_policy(), "p1": cartpole_policy("dqn")}
    made = EnvRunner(policies, env="CartPole-v1", num_envs=3, policy_mapping_fn={"1": "p1", "*": "p0"})
    found = made.sample(30)
    assert sorted(found) == ["p0", "p1"]
    assert len(found["p0"]["obs"]) + len(found["p1"]["obs"]) == made.env_steps
    made.close()
    with pytest.raises(ConfigError, match="policy_mapping_fn"):
        EnvRunner(policies, env="CartPole-v1").sample(1)
    with pytest.raises(SelectionError, match="'p7'"):
        EnvRunner(policies, env="CartPole-v1", policy_mapping_fn={"*": "p7"})


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_arrive_reduced_and_measured(name: str) -> None:
    source = cartpole_policy(name)
    made = EnvRunner({"p0": source}, env=FAMILIES[name][1])
    with torch.no_grad():
        for parameter in source.module.parameters():
            parameter.add_(1)
    weights, transfer = reduced(source)
    made.set_weights({"p0": weights})
    assert same(made.policies["p0"].get_state(), source.get_state(inference_only=True))
    assert transfer.full == sum(array.nbytes for array in arrays(source.get_state()).values())
    assert transfer.sent == sum(array.nbytes for array in arrays(weights).values())
    assert 0 < transfer.saved < 1
    assert "saved" in str(transfer)


def test_other_weights_change_nothing() -> None:
    made = runner()
    before = made.policies["p0"].get_state()
    wide = cartpole_policy(model_config={})
    with pytest.raises(StateMismatchError):
        made.set_weights({"p0": reduced(wide)[0]})
    with pytest.raises(SelectionError):
        made.set_weights({"p1": before})
    assert same(made.policies["p0"].get_state(), before)


def test_wrong_numbers_and_environments_are_told_at_once() -> None:
    with pytest.raises(ConfigError):
        runner(num_envs=0)
    with pytest.raises(ConfigError):
        runner().sample(0)
    with pytest.raises(ConfigError):
        runner().evaluate(0)
    lost = EnvRunner({"p0": cartpole_policy()}, env="CartPoll-v1")
    with pytest.raises(ConfigError, match="CartPole-v1"):
        lost.sample(1)
    other = EnvRunner({"p0": cartpole_policy()}, env="Pendulum-v1")
    with pytest.raises(EnvironmentMismatchError):
        other.sample(1)
    with pytest.raises(EnvironmentMismatchError):
        other.evaluate(1)
