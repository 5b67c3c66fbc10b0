"""The packaged sample: whole, small, trained, and as good as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.algorithms.env_runner import make_env, rollout, spaces_of
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.policies.policy import Policy
from rlpipe.sample import sample_path
from rlpipe.sample.train import EPISODES, RECIPES
from rlpipe.snapshot.snapshot import Snapshot, component

MODULES = {"p0": "PPOModule", "p1": "SACModule", "p2": "DQNModule"}


@pytest.fixture(scope="module")
def policies() -> dict[str, Snapshot]:
    return dict(component(read_checkpoint(sample_path()), "policies").children)


def test_every_byte_is_as_written() -> None:
    assert verify_checkpoint(sample_path()).ok


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in Path(sample_path()).rglob("*") if path.is_file()) < 1_000_000


def test_it_holds_three_policies_with_all_their_weights(policies: dict[str, Snapshot]) -> None:
    modules = {name: policy.spec.config["module"]["class"].rpartition(".")[2] for name, policy in policies.items()}
    assert modules == MODULES
    for policy in policies.values():
        assert set(policy.roles.values()) == {"inference", "training"}
        assert policy.spec.options["inference_only"] is False


@pytest.mark.parametrize("policy_id", RECIPES)
def test_it_says_where_it_comes_from_and_how_good_it_is(policies: dict[str, Snapshot], policy_id: str) -> None:
    metadata, recipe = policies[policy_id].metadata, RECIPES[policy_id]
    assert metadata["trained"] is True
    assert metadata["env"] == recipe.env
    assert metadata["source"]["library"] == "stable_baselines3"
    assert metadata["source"]["algorithm"] == recipe.algorithm
    assert metadata["returns"]["episodes"] == len(metadata["returns"]["seeds"]) == EPISODES
    assert metadata["returns"]["mean"] >= recipe.threshold


@pytest.mark.parametrize("policy_id", RECIPES)
def test_an_episode_goes_as_well_as_it_says(policies: dict[str, Snapshot], policy_id: str) -> None:
    policy = build(policies[policy_id])
    assert isinstance(policy, Policy)
    returns = policies[policy_id].metadata["returns"]
    env = make_env(RECIPES[policy_id].env)
    found = rollout(env, spaces_of(env), policy.compute_actions, seed=returns["seeds"][0], max_steps=None)
    assert found.episode_return >= returns["mean"] - 4 * returns["std"]
