from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpipe.algorithms.env_runner import EnvSpaces, make_env, observe, require_fit, rollout, spaces_of
from rlpipe.errors import ConfigError, EnvironmentMismatchError
from rlpipe.snapshot.spaces import Box, Discrete, from_gymnasium


class Nested(gymnasium.Env[Any, Any]):
    """Observations and actions of many kinds; ends after `length` steps, and keeps the actions it was given."""

    observation_space = spaces.Dict(
        {"b": spaces.Discrete(3, start=1), "a": spaces.Box(-1, 1, (2,), np.float64), "c": spaces.MultiBinary(2)}
    )
    action_space = spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (3,), np.float32)))

    def __init__(self, length: int = 4) -> None:
        self.length, self.step_number, self.actions = length, 0, list[Any]()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.observation_space.seed(seed)
        self.step_number = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.actions.append(action)
        self.step_number += 1
        return self.observation_space.sample(), 0.5, self.step_number == self.length, False, {}


def test_observations_come_as_batches_of_one_and_actions_go_as_the_environment_takes_them() -> None:
    env = Nested()
    found = spaces_of(env)
    given: list[Any] = []

    def act(batch: Any) -> Any:
        given.append(batch)
        return (np.array([1]), np.full((1, 3), 0.25, np.float32))

    episode = rollout(env, found, act, seed=3, max_steps=None)
    assert (episode.episode_return, episode.length, episode.ended, episode.seed) == (2.0, 4, "terminated", 3)
    assert {name: (array.shape, array.dtype.name) for name, array in given[0].items()} == {
        "a": ((1, 2), "float64"),
        "b": ((1,), "int64"),
        "c": ((1, 2), "int8"),
    }
    assert all(found.observation.contains(batch) for batch in given)
    assert env.actions[0][0] == 1


def test_observations_are_given_in_the_policys_dtype() -> None:
    env = Nested(length=1)
    narrow = from_gymnasium(spaces.Dict({**env.observation_space.spaces, "a": spaces.Box(-1, 1, (2,), np.float32)}))
    given: list[Any] = []

    def act(batch: Any) -> Any:
        given.append(batch)
        return (np.array([0]), np.zeros((1, 3), np.float32))

    rollout(env, EnvSpaces(narrow, spaces_of(env).action), act, seed=0, max_steps=None)
    assert given[0]["a"].dtype == np.float32


def test_the_same_seed_gives_the_same_episode() -> None:
    env = make_env("CartPole-v1")
    found = spaces_of(env)
    episodes = [rollout(env, found, lambda _: np.array([1]), seed=seed, max_steps=None) for seed in (1, 1, 2, 2)]
    env.close()
    assert episodes[0] == episodes[1]
    assert episodes[2] == episodes[3]
    assert len({episode.length for episode in episodes}) >= 1


def test_an_episode_is_stopped_at_the_limit() -> None:
    episode = rollout(
        Nested(length=9),
        spaces_of(Nested()),
        lambda _: (np.array([0]), np.zeros((1, 3), np.float32)),
        seed=0,
        max_steps=5,
    )
    assert (episode.length, episode.ended) == (5, "stopped")


def test_recorded_observations_are_in_the_space_and_go_over_episodes() -> None:
    env = Nested(length=3)
    found = spaces_of(env)
    batch = observe(env, found, 20, np.random.default_rng(0))
    assert found.observation.contains(batch)
    assert len(batch["a"]) == 20
    assert len(np.unique(batch["a"], axis=0)) > 10


def test_an_environment_that_is_not_there_names_near_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        make_env("CartPoll-v1")
    assert "CartPole-v1" in caught.value.fix
    for name in ("nothing", "no_such_module:Env-v0", "", "a/b/c"):
        with pytest.raises(ConfigError):
            make_env(name)


def test_what_does_not_fit_is_refused_whole_and_what_differs_a_little_is_told() -> None:
    policy = EnvSpaces(Box(np.full(4, -1.0), np.full(4, 1.0), np.dtype(np.float32)), Discrete(2))
    other = EnvSpaces(Box(np.full(3, -1.0), np.full(3, 1.0), np.dtype(np.float32)), Discrete(3))
    with pytest.raises(EnvironmentMismatchError) as caught:
        require_fit(policy, other, policy_id="p1", env_id="Other-v0")
    assert "observation" in caught.value.found
    assert "action" in caught.value.found
    wider = EnvSpaces(Box(np.full(4, -5.0), np.full(4, 5.0), np.dtype(np.float32)), Discrete(2))
    warnings = require_fit(policy, wider, policy_id="p1", env_id="Other-v0")
    assert warnings
    assert all("p1" in warning for warning in warnings)
    assert require_fit(policy, policy, policy_id="p1", env_id="Other-v0") == ()
