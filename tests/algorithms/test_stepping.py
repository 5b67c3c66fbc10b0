from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from rlpipe.algorithms.collected import Collected
from rlpipe.algorithms.stepping import Stepping, spaces_of_policy
from rlpipe.errors import ConfigError, EnvironmentMismatchError
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.policy import Policy, PolicySpec
from tests.algorithms.training import SMALL
from tests.algorithms.whole import cartpole_policy

CELL = {"type": "gru", "hidden_size": 4}


class Echo(gymnasium.Env[Any, Any]):
    """Rewards with the action that it got, a hundred times the number of the step added; three steps."""

    observation_space = Box(0, 10, (1,), np.float32)
    action_space: Any = Discrete(3)
    open_count = 0

    def __init__(self) -> None:
        Echo.open_count += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.count = 0
        return np.array([self.np_random.random()], np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return np.array([self.count], np.float32), 100.0 * self.count + self._number(action), self.count >= 3, False, {}

    def _number(self, action: Any) -> float:
        return float(action)

    def close(self) -> None:
        Echo.open_count -= 1


class EchoParts(Echo):
    """The action is a Dict."""

    action_space = Dict({"a": Discrete(3), "b": Discrete(3)})

    def _number(self, action: Any) -> float:
        return float(action["a"] + 10 * action["b"])


gymnasium.register("tests/Echo-v0", lambda **_: Echo())
gymnasium.register("tests/EchoParts-v0", lambda **_: EchoParts())


def always(choice: int, env: type[Echo] = Echo, **config: Any) -> Policy:
    """A policy that chooses the same, in every part of the action."""
    spec = PolicySpec.default(PPOModule, env.observation_space, env.action_space, model_config={**SMALL, **config})
    made = spec.build()
    module: Any = made.module
    with torch.no_grad():
        for head in module.pi.modules():
            if isinstance(head, torch.nn.Linear):
                head.weight.zero_()
                head.bias.copy_(1000.0 * torch.nn.functional.one_hot(torch.tensor(choice), 3))
    return made


def begun(env: str, count: int, seeds: tuple[int, ...] = (1,), **policies: Policy) -> Stepping:
    made = Stepping(env, count, MultiRLModule(policies), sorted(policies))
    made.begin(seeds)
    return made


def collected(made: Stepping, rows: dict[str, list[int]], steps: int) -> dict[str, dict[str, Any]]:
    found = {name: Collected(made._policies[name]) for name in rows}
    for _ in range(steps):
        made.step(found, rows)
    return {name: each.arrays() for name, each in found.items()}


@pytest.mark.parametrize(("env", "kind", "factor"), [("Echo", Echo, 1), ("EchoParts", EchoParts, 11)])
def test_each_policy_acts_in_its_own_environments_and_keeps_what_came_of_it(
    env: str, kind: type[Echo], factor: int
) -> None:
    made = begun(f"tests/{env}-v0", 4, p1=always(1, kind), p2=always(2, kind))
    found = Collected(made._policies["p1"]), Collected(made._policies["p2"])
    rows = {"p2": [0, 3], "p1": [1, 2]}
    outcome = made.step({"p1": found[0], "p2": found[1]}, rows)
    assert outcome.rewards.tolist() == [100 + 2 * factor, 100 + factor, 100 + factor, 100 + 2 * factor]
    assert found[0].arrays()["rewards"].tolist() == [100 + factor] * 2
    assert found[1].arrays()["rewards"].tolist() == [100 + 2 * factor] * 2
    made.close()


def test_steps_that_only_begin_an_episode_are_left_out() -> None:
    made = begun("tests/Echo-v0", 2, p0=always(0))
    found = collected(made, {"p0": [0, 1]}, 8)["p0"]
    assert found["rewards"].tolist() == [100, 100, 200, 200, 300, 300] * 2
    assert found["terminated"].tolist() == [False, False, False, False, True, True] * 2
    assert np.array_equal(found["next_obs"][:, 0], found["rewards"] // 100)
    made.close()


def test_equal_seeds_give_equal_steps() -> None:
    policies = {"p0": cartpole_policy()}
    runs = []
    for seeds in ((1, 2), (1, 2), (1, 3)):
        made = begun("CartPole-v1", 2, seeds, **policies)
        runs.append(collected(made, {"p0": [0, 1]}, 20)["p0"])
        made.begin(seeds)
        again = collected(made, {"p0": [0, 1]}, 20)["p0"]
        assert all(np.array_equal(again[name], runs[-1][name]) for name in again)
        made.close()
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert not np.array_equal(runs[0]["obs"][0], runs[2]["obs"][0])


def test_a_forgotten_policy_remembers_nothing() -> None:
    made = begun("tests/Echo-v0", 1, p0=always(0, actor=CELL, critic=CELL))
    assert collected(made, {"p0": [0]}, 1)["p0"]["episode_start"].tolist() == [[True]]
    goes_on = collected(made, {"p0": [0]}, 1)["p0"]
    assert goes_on["episode_start"].tolist() == [[False]]
    assert goes_on["state_in"]["actor/h"].any()
    made.forget("p0")
    anew = collected(made, {"p0": [0]}, 1)["p0"]
    assert anew["episode_start"].tolist() == [[True]]
    assert not anew["state_in"]["actor/h"].any()
    made.forget("unknown")
    made.close()


def test_what_cannot_act_there_is_told_and_no_environment_is_left_open() -> None:
    before = Echo.open_count
    with pytest.raises(EnvironmentMismatchError, match="p1"):
        Stepping("tests/Echo-v0", 2, MultiRLModule({"p0": always(0), "p1": cartpole_policy()}), ["p0", "p1"])
    assert Echo.open_count == before
    with pytest.raises(ConfigError, match="tests/Ecko-v0"):
        Stepping("tests/Ecko-v0", 2, MultiRLModule({"p0": always(0)}), ["p0"])
    made = Stepping("tests/Echo-v0", 2, MultiRLModule({"p0": always(0), "p1": cartpole_policy()}), ["p0"])
    made.close()
    assert Echo.open_count == before


def test_the_spaces_of_a_policy_are_those_of_its_environment() -> None:
    found = spaces_of_policy(always(0))
    assert [found.observation.describe(), found.action.describe()] == ["Box(0..10, (1,), float32)", "Discrete(3)"]
