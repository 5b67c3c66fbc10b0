"""Imported policies act as RLlib's own env runner does where it does not explore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="the trainer is not installed; golden directories stand for it")
import tree

from rlpipe.checkpoint.restore import build
from rlpipe.importers.libraries.rllib import Options, read
from rlpipe.snapshot.identity import content_hash
from tests.importers.rllib_models import (
    AGENTS,
    CASES,
    COUNT,
    acted,
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
MEMORYLESS = [name for name in CASES if "lstm" not in name]


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


def test_msgpack_holds_the_same_as_pickle(tmp_path: Path) -> None:
    pytest.importorskip("msgpack_numpy")
    algorithm = CASES["pair_filtered"].algorithm()
    pickled, packed = (
        read(saved(algorithm, tmp_path / name, use_msgpack=name == "packed"), Options()).snapshot
        for name in ("pickled", "packed")
    )
    assert content_hash(pickled) == content_hash(packed)
    algorithm.stop()
