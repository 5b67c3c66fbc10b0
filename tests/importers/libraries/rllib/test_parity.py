"""Imported policies act as RLlib's own env runner does where it does not explore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="the trainer is not installed; golden directories stand for it")
import torch
import tree

from rlpipe.checkpoint.restore import build
from rlpipe.importers.libraries.rllib import Options, read
from rlpipe.snapshot.identity import content_hash
from tests.importers.rllib_models import (
    AGENTS,
    CASES,
    COUNT,
    acted,
    acted_in_an_episode,
    acted_in_steps,
    observation_space,
    observations,
    saved,
    sequences,
    stacked,
    start,
)

pytestmark = [
    pytest.mark.slow,
    # ray and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

REMEMBERING = [name for name in CASES if "lstm" in name]
MEMORYLESS = [name for name in CASES if "lstm" not in name and "frames" not in name]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    import ray

    start()
    yield
    ray.shutdown()


@pytest.mark.parametrize("name", MEMORYLESS)
def test_actions_are_those_of_rllib(name: str, tmp_path: Path) -> None:
    algorithm = CASES[name].algorithm()
    found = read(saved(algorithm, tmp_path / name), Options()).snapshot
    agents = {policy: agent for agent, policy in AGENTS.items()}
    for policy_id, snapshot in found.children.items():
        agent = agents.get(policy_id)
        observed = observations(observation_space(algorithm, agent), COUNT)
        expected = acted(algorithm, observed, agent)
        policy: Any = build(snapshot)
        actions = policy.compute_actions(stacked(observed))
        for found_leaf, leaf in zip(tree.flatten(actions), tree.flatten(expected), strict=True):
            reach = 1e-6 * max(1.0, float(np.ptp(leaf))) if leaf.dtype.kind == "f" else 0
            np.testing.assert_allclose(found_leaf, leaf, rtol=0, atol=reach, err_msg=policy_id)
    algorithm.stop()


@pytest.mark.parametrize("name", REMEMBERING)
def test_policies_with_memory_act_as_rllib_does_step_by_step(name: str, tmp_path: Path) -> None:
    algorithm = CASES[name].algorithm()
    policy: Any = build(read(saved(algorithm, tmp_path / name), Options()).snapshot.children["default_policy"])
    observed = sequences(40, 25, observation_space(algorithm))
    expected = acted_in_steps(algorithm, observed)
    state = None
    for step, one in enumerate(observed):
        actions, state = policy.step(one, state)
        reach = 1e-6 * max(1.0, float(np.ptp(expected))) if actions.dtype.kind == "f" else 0
        np.testing.assert_allclose(actions, expected[step], rtol=0, atol=reach, err_msg=f"step {step}")
    algorithm.stop()


def test_the_last_images_of_an_episode_are_seen(tmp_path: Path) -> None:
    algorithm = CASES["ppo_frames"].algorithm()
    policy: Any = build(read(saved(algorithm, tmp_path / "frames"), Options()).snapshot.children["default_policy"])
    observed = observations(observation_space(algorithm), 50)
    expected = acted_in_an_episode(algorithm, observed)
    state = None
    for step, one in enumerate(observed):
        actions, state = policy.step(one[None], state)
        assert actions[0] == expected[step], f"step {step}"
    algorithm.stop()


@pytest.mark.parametrize("name", ["ppo_heads", "ppo_image_heads", "ppo_choices", "appo"])
def test_values_are_those_of_rllib_s_critic(name: str, tmp_path: Path) -> None:
    algorithm = CASES[name].algorithm()
    policy: Any = build(read(saved(algorithm, tmp_path / name), Options()).snapshot.children["default_policy"])
    policy.module.double()
    obs = stacked(observations(observation_space(algorithm), 100)).astype(np.float64)
    module = algorithm.learner_group._learner.module["default_policy"].double()
    with torch.no_grad():
        expected = module.compute_values({"obs": torch.from_numpy(obs)})
        found = policy.module.forward_train({"obs": seen_by_rlpipe(obs)})["value"]
    assert_same(found, expected)
    algorithm.stop()


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("sac")])
def test_values_are_those_of_rllib_s_soft_critics(name: str, tmp_path: Path) -> None:
    algorithm = CASES[name].algorithm()
    policy: Any = build(read(saved(algorithm, tmp_path / name), Options()).snapshot.children["default_policy"])
    policy.module.double()
    obs = stacked(observations(observation_space(algorithm), 100)).astype(np.float64)
    actions = torch.rand(100, 2, dtype=torch.float64) * 2 - 1
    module = algorithm.learner_group._learner.module["default_policy"].double()
    given = {"obs": torch.from_numpy(obs), "actions": actions}
    critics = [part for part in ("qf", "qf_twin") if hasattr(module, part)]
    with torch.no_grad():
        found = policy.module.forward_train({"obs": seen_by_rlpipe(obs), "actions": actions})
        for kind, prefix in (("critic_q", ""), ("target_q", "target_")):
            for index, part in enumerate(critics):
                features = getattr(module, f"{prefix}{part}_encoder")(given)["encoder_out"]
                assert_same(found[kind][:, index], getattr(module, prefix + part)(features).squeeze(1))
    algorithm.stop()


@pytest.mark.parametrize("name", ["dqn", "dqn_plain", "dqn_atoms", "dqn_atoms_plain", "dqn_image"])
def test_q_values_are_those_of_rllib_and_its_target(name: str, tmp_path: Path) -> None:
    algorithm = CASES[name].algorithm()
    policy: Any = build(read(saved(algorithm, tmp_path / name), Options()).snapshot.children["default_policy"])
    policy.module.double()
    obs = stacked(observations(observation_space(algorithm), 100)).astype(np.float64)
    module = algorithm.learner_group._learner.module["default_policy"].double()
    with torch.no_grad():
        found = policy.module.forward_train({"obs": seen_by_rlpipe(obs), "next_obs": seen_by_rlpipe(obs)})
        assert_same(found["q"], module.compute_q_values({"obs": torch.from_numpy(obs)})["qf_preds"])
        assert_same(found["next_target_q"], module.forward_target({"obs": torch.from_numpy(obs)})["qf_preds"])
    algorithm.stop()


def seen_by_rlpipe(obs: Any) -> torch.Tensor:
    """Observations as a module of rlpipe takes them, channels first."""
    return torch.from_numpy(np.moveaxis(obs, -1, 1).copy() if obs.ndim == 4 else obs)


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the float32 of some constants; with weights as large as here, layers would not be."""
    reach = 1e-6 * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(found, expected, rtol=0, atol=reach)


def test_msgpack_holds_the_same_as_pickle(tmp_path: Path) -> None:
    pytest.importorskip("msgpack_numpy")
    algorithm = CASES["pair_filtered"].algorithm()
    pickled, packed = (
        read(saved(algorithm, tmp_path / name, use_msgpack=name == "packed"), Options()).snapshot
        for name in ("pickled", "packed")
    )
    assert content_hash(pickled) == content_hash(packed)
    algorithm.stop()
