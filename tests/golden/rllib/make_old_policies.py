"""Makes golden policies of the old stack: python -m tests.golden.rllib.make_old_policies (needs ray, any since 2.9).

Each is a directory as Policy.export_checkpoint() writes it, `<name>/policies/default_policy`, with `<name>.npz` beside
it as make.py has them. No ray has to be started; the actions are those of the policies themselves.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import ray
from gymnasium import spaces
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.dqn_torch_policy import DQNTorchPolicy
from ray.rllib.algorithms.ppo import PPOConfig, PPOTorchPolicy
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.sac.sac_torch_policy import SACTorchPolicy
from ray.rllib.utils.spaces.space_utils import unsquash_action

from tests.golden.rllib.make import HERE, keep_known, named, scrub

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (12, 12, 2), np.uint8)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 100.0], np.float32))
CHOICES = spaces.Discrete(3)
SMALL = {"fcnet_hiddens": [8, 6]}
LSTM = {"use_lstm": True, "lstm_cell_size": 5}
ROWS = 8

POLICIES: dict[str, tuple[Any, Any, Any, Any, dict[str, Any]]] = {
    "old_lstm": (
        PPOConfig,
        PPOTorchPolicy,
        VECTOR,
        SKEWED,
        {"model": {**SMALL, "use_lstm": True, "lstm_cell_size": 5}},
    ),
    "old_image": (
        PPOConfig,
        PPOTorchPolicy,
        IMAGE,
        CHOICES,
        {"model": {"conv_filters": [[3, [4, 4], 2], [4, [6, 6], 1]], "post_fcnet_hiddens": [5, 4]}},
    ),
    "old_dqn": (DQNConfig, DQNTorchPolicy, VECTOR, CHOICES, {"model": SMALL, "hiddens": [5], "num_atoms": 4}),
    "old_sac": (
        SACConfig,
        SACTorchPolicy,
        VECTOR,
        SKEWED,
        {"policy_model_config": {**SMALL, "fcnet_activation": "tanh"}, "q_model_config": {"fcnet_hiddens": [7, 5]}},
    ),
}


def main() -> None:
    """Make all of them."""
    for name, made in POLICIES.items():
        keep(name, *made)


def keep(name: str, config: Any, kind: Any, seen: Any, acted_in: Any, settings: dict[str, Any]) -> None:
    """One policy with random weights, and what it does."""
    made = config().framework("torch").environment(observation_space=seen, action_space=acted_in)
    made = made.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    policy = kind(seen, acted_in, made.training(**settings).to_dict())
    rng = np.random.default_rng(3)
    weights = {key: rng.normal(size=np.shape(value)) * 0.5 for key, value in policy.get_weights().items()}
    policy.set_weights({key: value.astype(np.float32) for key, value in weights.items()})
    folder = HERE / name / "policies" / "default_policy"
    shutil.rmtree(HERE / name, ignore_errors=True)
    policy.export_checkpoint(str(folder))
    facts = {"type": "Algorithm", "checkpoint_version": "1.1", "ray_version": ray.__version__}
    (HERE / name / "rllib_checkpoint.json").write_text(json.dumps(facts))
    observed = observations(seen)
    actions = acted(policy, observed, name)
    keep_known(name, named("default_policy", observed.reshape(-1, ROWS, 4) if "lstm" in name else observed, actions))
    scrub(HERE / name)


def observations(space: Any) -> Any:
    """Mixed scales 1e-3 to 1e3, or images."""
    rng = np.random.default_rng(5)
    if space is IMAGE:
        return rng.integers(0, 256, size=(16, *space.shape), dtype=np.uint8)
    return (rng.standard_normal((64, 4)) * 10.0 ** rng.uniform(-3, 3, size=(64, 1))).astype(np.float32)


def acted(policy: Any, observed: Any, name: str) -> Any:
    """What a policy does without exploring; one with a memory over steps (T, B, n)."""
    if "lstm" not in name:
        return _in_bounds(policy, policy.compute_actions(observed, explore=False)[0])
    state = [np.stack([part] * ROWS) for part in policy.get_initial_state()]
    found = []
    for step in observed.reshape(-1, ROWS, 4):
        actions, state, _ = policy.compute_actions(step, state_batches=state, explore=False)
        found.append(_in_bounds(policy, actions))
    return np.stack(found)


def _in_bounds(policy: Any, actions: Any) -> Any:
    return np.stack([unsquash_action(one, policy.action_space) for one in actions])


if __name__ == "__main__":
    main()
