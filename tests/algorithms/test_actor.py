from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.collected import counted
from rlpipe.algorithms.learner import Learner
from rlpipe.algorithms.runner import EnvRunner
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.errors import EnvironmentMismatchError, ObservationError
from rlpipe.modules.torch.ppo import PPOModule
from rlpipe.policies.history_stages import FrameStack
from rlpipe.policies.mask_stages import Mask
from rlpipe.policies.policy import Policy, PolicySpec
from rlpipe.snapshot.state import equal
from tests.algorithms.training import SMALL, TRUST, sequence_loss
from tests.algorithms.whole import cartpole_policy

ENV = "CartPole-v1"
CELLS = ("lstm", "gru")
PROGRAM = """
import sys
from rlpipe.algorithms.algorithm import Algorithm
from tests.algorithms.test_actor import go
from tests.algorithms.training import TRUST
made = Algorithm.from_checkpoint(sys.argv[1], trust=TRUST)
go(made, 2)
made.save_to_path(sys.argv[2])
"""


class Picky(gymnasium.Env[Any, Any]):
    """Allows, at each step, but the choice that is the step's number modulo three; episodes have five steps."""

    observation_space = Box(-1, 1, (2,))
    action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.count = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array([self.count / 10, 0], np.float32)

    def step(self, action: Any) -> Any:
        del action
        self.count += 1
        return self._seen(), 1.0, self.count >= 5, False, {}

    def action_masks(self) -> Any:
        return np.arange(3) != self.count % 3


class Seen(Picky):
    """As `Picky`, with the mask in the observation."""

    observation_space = Dict({"mask": MultiBinary(3), "x": Picky.observation_space})  # type: ignore[assignment]

    def _seen(self) -> Any:
        return {"mask": self.action_masks().astype(np.int8), "x": super()._seen()}


gymnasium.register("tests/Picky-v0", lambda **_: Picky())
gymnasium.register("tests/Seen-v0", lambda **_: Seen())


def remembering(kind: str = "lstm", *, shared: bool = False, normalised: bool = False) -> Policy:
    cell: dict[str, Any] = {"type": kind, "hidden_size": 4, "before": {"type": "mlp", "hidden": [4]}}
    config = {**SMALL, "shared": cell} if shared else {"actor": cell, "critic": cell}
    return cartpole_policy(normalised=normalised, model_config=config)


def runner(policy: Policy, **more: Any) -> EnvRunner:
    return EnvRunner({"p0": policy}, env=ENV, **more)


def whole(kind: str) -> Algorithm:
    policies = {"p0": remembering(kind, normalised=True)}
    how = TrainingSpec(loss=sequence_loss, optimizer_kwargs={"lr": 1e-2})
    learner = Learner.for_policies(policies, how, trust=TRUST)
    return Algorithm(policies, learner=learner, env_runner=EnvRunner(policies, env=ENV, num_envs=2, seed=3))


def go(made: Algorithm, rounds: int) -> list[dict[str, float]]:
    """Rounds that begin with new episodes, as after a restore."""
    losses = []
    for _ in range(rounds):
        assert made.runners is not None
        made.runners.first.reset()
        losses.append(made.update(made.sample(40)))
    return losses


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("shared", [False, True])
def test_samples_hold_what_the_learner_needs_to_think_the_same(kind: str, shared: bool) -> None:
    source = remembering(kind, shared=shared)
    made = runner(source, num_envs=3)
    for _ in range(2):
        found = made.sample(150)["p0"]
        assert found["obs"].shape == (3, 50, 4)
        assert found["loss_mask"].sum() < 150
        batch = {name: torch.from_numpy(found[name]) for name in ("obs", "episode_start")}
        state = {name: torch.from_numpy(value) for name, value in found["state_in"].items()}
        again = source.module.forward_train({**batch, "state_in": state})["logits"].detach()
        step_by_step = _stepped(made.policies["p0"], found)
        assert torch.allclose(again, step_by_step, atol=1e-5)
    assert any(value.any() for value in found["state_in"].values())
    made.close()


def _stepped(policy: Policy, found: dict[str, Any]) -> torch.Tensor:
    """The logits of a slim copy, one step after another."""
    state, logits = {name: torch.from_numpy(value) for name, value in found["state_in"].items()}, []
    for step in range(found["obs"].shape[1]):
        begins = torch.from_numpy(found["episode_start"][:, step]).reshape(-1, 1, 1)
        state = {name: torch.where(begins, torch.zeros_like(value), value) for name, value in state.items()}
        with torch.no_grad():
            outputs = policy.module.forward_inference(
                {"obs": torch.from_numpy(found["obs"][:, step]), "state_in": state}
            )
        state = outputs["state_out"]
        logits.append(outputs["logits"])
    return torch.stack(logits, dim=1)


def test_memory_goes_on_between_samples_and_begins_with_episodes() -> None:
    source = remembering()
    made = runner(source, num_envs=2)
    first, second = made.sample(60)["p0"], made.sample(60)["p0"]
    assert first["episode_start"][:, 0].all()
    for found in (first, second):
        ended = found["terminated"] | found["truncated"]
        assert np.array_equal(~found["loss_mask"][:, 1:], ended[:, :-1])
        assert np.array_equal(found["episode_start"][:, 1:], ~found["loss_mask"][:, :-1])
    state = {name: torch.from_numpy(value) for name, value in first["state_in"].items()}
    batch = {name: torch.from_numpy(first[name]) for name in ("obs", "episode_start")}
    last = source.module.forward_train({**batch, "state_in": state})["state_out"]
    goes_on = ~second["episode_start"][:, 0]
    for name, value in second["state_in"].items():
        assert np.allclose(value[goes_on], last[name].detach().numpy()[goes_on], atol=1e-5)
    made.reset()
    assert not any(value.any() for value in made.sample(2)["p0"]["state_in"].values())
    made.close()


def test_counts_leave_out_steps_that_only_begin() -> None:
    made = runner(remembering(), num_envs=2)
    found = made.sample(200)
    assert counted(found) == {"env_steps": made.env_steps, "episodes": made.episode_count}
    assert made.episode_count > 0
    made.close()


@pytest.mark.parametrize("kind", CELLS)
def test_an_update_on_samples_is_one_real_step(kind: str) -> None:
    made = whole(kind)
    before = made.get_policy("p0").get_state()
    (losses,) = go(made, 1)
    assert losses["p0"] > 0
    assert not equal(made.get_policy("p0").get_state(), before)
    assert made.learner is not None
    moved = made.learner["p0"].optimizer.state
    assert all(moved[parameter]["exp_avg"].any() for parameter in made.learner["p0"].named.values())
    assert len(made.evaluate(1, max_steps=20)) == 1


@pytest.mark.parametrize("kind", CELLS)
def test_another_process_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    made = whole(kind)
    go(made, 2)
    made.save_to_path(tmp_path / "k")
    go(made, 2)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "k"), str(tmp_path / "resumed")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    resumed = Algorithm.from_checkpoint(tmp_path / "resumed", trust=TRUST)
    assert equal(resumed.get_state(), made.get_state())


def test_stacked_frames_are_those_of_the_episode() -> None:
    made = runner(_stacking(), num_envs=2)
    found = made.sample(120)["p0"]
    assert found["obs"].shape[1:] == found["next_obs"].shape[1:] == (12,)
    assert np.array_equal(found["obs"][:, 8:], found["next_obs"][:, 4:8])
    assert np.array_equal(found["obs"][:, 4:8], found["next_obs"][:, :4])
    assert np.array_equal(found["obs"][0, :4], found["obs"][0, 8:])
    assert "state_in" not in found
    made.close()


def _stacking() -> Policy:
    plain = cartpole_policy().spec
    stages = (*plain.observation, FrameStack(3))
    module = replace(plain.module, observation_space=stages[-1].output_space(plain.module.observation_space))
    return replace(plain, module=module, observation=stages).build()


def test_forbidden_choices_are_never_drawn_and_masks_are_kept() -> None:
    plain = PolicySpec.default(PPOModule, Picky.observation_space, Picky.action_space, model_config=SMALL)
    policy = replace(plain, action=(Mask((3,)), *plain.action)).build()
    made = EnvRunner({"p0": policy}, env="tests/Picky-v0", num_envs=2)
    found = made.sample(120)["p0"]
    rows = np.arange(len(found["actions"]))
    assert found["action_mask"][rows, found["actions"]].all()
    assert (found["action_mask"].sum(axis=1) == 2).all()
    forbidden, upcoming = (~found[name] for name in ("action_mask", "next_action_mask"))
    assert np.array_equal((forbidden.argmax(axis=1) + 1) % 3, upcoming.argmax(axis=1))
    assert len(np.unique(found["actions"])) == 3
    assert len(made.evaluate(2)) == 2
    made.close()


def test_a_mask_in_the_observation_counts_too() -> None:
    policy = PolicySpec.default(PPOModule, Seen.observation_space, Seen.action_space, action_mask="mask").build()
    made = EnvRunner({"p0": policy}, env="tests/Seen-v0", num_envs=2)
    found = made.sample(60)["p0"]
    assert found["action_mask"][np.arange(len(found["actions"])), found["actions"]].all()
    assert found["action_mask"].shape == found["next_action_mask"].shape == (len(found["actions"]), 3)
    made.close()


def test_an_agent_that_changes_its_policy_is_new_to_it() -> None:
    policies = {"p0": remembering(), "p1": remembering("gru")}
    made = EnvRunner(policies, env=ENV, policy_mapping_fn={"*": "p0"})
    made.sample(5)
    before = made.mapping
    made.mapping = type(before)({"*": "p1"})  # type: ignore[misc]
    made.sample(2)
    made.mapping = before
    assert made.sample(1)["p0"]["episode_start"].all()
    made.close()


class Telling(Picky):
    """As `Picky`, with the mask in the info and nowhere else; of two choices, each in an array of its own."""

    action_space = MultiDiscrete([3, 2])  # type: ignore[assignment]
    action_masks = None  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seen, _ = super().reset(seed=seed, options=options)
        return seen, self._info()

    def step(self, action: Any) -> Any:
        assert all(mask[choice] for mask, choice in zip(self._info()["action_mask"], action, strict=True))
        return *super().step(action)[:4], self._info()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": (np.arange(3) != self.count % 3, np.array([True, self.count % 2 == 0]))}


class TellingRow(Telling):
    """As `Telling`, the flags in one row of numbers."""

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.concatenate(super()._info()["action_mask"]).astype(np.int8)}

    def step(self, action: Any) -> Any:
        first, second = np.split(self._info()["action_mask"], [3])
        assert first[action[0]]
        assert second[action[1]]
        return *Picky.step(self, action)[:4], self._info()


gymnasium.register("tests/Telling-v0", lambda **_: Telling())
gymnasium.register("tests/TellingRow-v0", lambda **_: TellingRow())


def _masked(space: Any) -> Policy:
    return PolicySpec.default(PPOModule, Picky.observation_space, space, model_config=SMALL, action_mask="").build()


@pytest.mark.parametrize("env", ["tests/Telling-v0", "tests/TellingRow-v0"])
def test_masks_that_infos_tell_count_in_sampling_and_evaluation(env: str) -> None:
    made = EnvRunner({"p0": _masked(Telling.action_space)}, env=env, num_envs=2)
    found = made.sample(120)["p0"]
    assert found["action_mask"].shape == (len(found["actions"]), 5)
    assert (found["action_mask"][:, :3].sum(axis=1) == 2).all()
    assert found["action_mask"][:, 4].mean() == pytest.approx(0.6, abs=0.05)
    assert np.array_equal((~found["action_mask"][:, :3]).argmax(axis=1), np.round(found["obs"][:, 0] * 10) % 3)
    assert [episode.length for episode in made.evaluate(3)] == [5, 5, 5]
    made.close()


def test_a_mask_of_another_number_of_choices_is_told() -> None:
    class Short(Telling):
        def _info(self) -> dict[str, Any]:
            return {"action_mask": np.ones(4, bool)}

    gymnasium.register("tests/Short-v0", lambda **_: Short())
    made = EnvRunner({"p0": _masked(Telling.action_space)}, env="tests/Short-v0")
    with pytest.raises(EnvironmentMismatchError, match="5 flags"):
        made.sample(1)
    with pytest.raises(ObservationError, match="action_mask"):
        made.evaluate(1)
