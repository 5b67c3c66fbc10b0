"""Makes the golden directories of older versions of ray: python -m tests.golden.rllib.make_older, once with each.

With ray 2.9 `ray_2_9_policy` and `ray_2_9_module`: policies of layout 1.1, of the old stack and around a module of the
new one. With ray 2.40 `ray_2_40`: modules and connectors of layout 2.0, whose statistics have another name and whose
states are called `.pt`; and `ray_2_40_noisy`, a module of the DQN of that time with noise and atoms. No ray has to be
started for any; the actions are those of its own policies and modules.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.utils.spaces.space_utils import unsquash_action

HERE = Path(__file__).parent
COUNT = 64
VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 100.0], np.float32))
MODEL = {"fcnet_hiddens": [8, 6]}


class Spaces(gymnasium.Env[Any, Any]):
    """An environment that is nothing but two spaces."""

    observation_space, action_space = VECTOR, SKEWED


def main() -> None:
    """Make those of the version of ray that is installed."""
    if ray.__version__.startswith("2.9."):
        keep_policy("ray_2_9_policy", is_new=False)
        keep_policy("ray_2_9_module", is_new=True)
    else:
        keep_module("ray_2_40")
        keep_noisy("ray_2_40_noisy")


def observations() -> Any:
    """Mixed scales 1e-3 to 1e3."""
    rng = np.random.default_rng(5)
    scales = 10.0 ** rng.uniform(-3, 3, size=(COUNT, 1))
    return (rng.standard_normal((COUNT, 4)) * scales).astype(np.float32)


def keep_policy(name: str, *, is_new: bool) -> None:
    """A policy in its own directory, as Policy.export_checkpoint() writes it."""
    from ray.rllib.algorithms.ppo import PPOTorchPolicy
    from ray.rllib.policy.policy import PolicySpec

    config = PPOConfig().framework("torch").environment(observation_space=VECTOR, action_space=SKEWED)
    config = config.training(model=MODEL).experimental(_enable_new_api_stack=is_new)
    settings = config.to_dict()
    if is_new:
        policies = {"default_policy": PolicySpec(PPOTorchPolicy, VECTOR, SKEWED, {})}
        specs = config.get_marl_module_spec(policy_dict=policies)
        specs.module_specs["default_policy"].model_config_dict = {**settings["model"], **MODEL}
        settings |= {"__marl_module_spec": specs, "__policy_id": "default_policy"}
    policy = PPOTorchPolicy(VECTOR, SKEWED, settings)
    rng = np.random.default_rng(3)
    weights = {key: rng.normal(size=np.shape(value)) * 0.5 for key, value in policy.get_weights().items()}
    policy.set_weights({key: value.astype(np.float32) for key, value in weights.items()})
    folder = HERE / name / "policies" / "default_policy"
    shutil.rmtree(HERE / name, ignore_errors=True)
    policy.export_checkpoint(str(folder))
    actions = policy.compute_actions(observations(), explore=False)[0]
    keep_known(name, np.stack([unsquash_action(one, SKEWED) for one in actions]))
    (HERE / name / "rllib_checkpoint.json").write_text(
        json.dumps({"type": "Algorithm", "checkpoint_version": "1.1", "ray_version": ray.__version__})
    )


def keep_module(name: str) -> None:
    """A module and the connectors around it, each saved as a component."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    shutil.rmtree(HERE / name, ignore_errors=True)
    config = PPOConfig().environment(observation_space=VECTOR, action_space=SKEWED).rl_module(model_config=MODEL)
    config = config.env_runners(env_to_module_connector=lambda _: MeanStdFilter())
    modules = config.get_multi_rl_module_spec(spaces={"default_policy": (VECTOR, SKEWED)}).build()
    module = modules["default_policy"]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    env = gymnasium.vector.SyncVectorEnv([Spaces])
    before = config.build_env_to_module_connector(env)
    before.connectors[0]._init_new_filters()
    statistics = before.connectors[0]._filters[None]
    for row in np.random.default_rng(7).normal([0, 10, -5, 100], [1, 5, 0.1, 20], size=(40, 4)):
        statistics(row.astype(np.float32), update=True)
    modules.save_to_path(str(HERE / name / "learner_group/learner/rl_module"))
    before.save_to_path(str(HERE / name / "env_runner/env_to_module_connector"))
    config.build_module_to_env_connector(env).save_to_path(str(HERE / name / "env_runner/module_to_env_connector"))
    seen = np.stack([statistics(one, update=False) for one in observations()])
    with torch.no_grad():
        outputs = module.forward_inference({"obs": torch.from_numpy(seen)})["action_dist_inputs"]
    decided = module.get_inference_action_dist_cls().from_logits(outputs).to_deterministic().sample().numpy()
    keep_known(name, np.stack([unsquash_action(one, SKEWED) for one in decided]))
    facts = {"checkpoint_version": "2.0", "ray_version": ray.__version__, "state_file": "algorithm_state"}
    (HERE / name / "rllib_checkpoint.json").write_text(json.dumps(facts))


def keep_noisy(name: str) -> None:
    """A module alone, which leaves its noise out where it does not explore."""
    from ray.rllib.algorithms.dqn import DQNConfig

    choices = gymnasium.spaces.Discrete(3)
    config = DQNConfig().environment(observation_space=VECTOR, action_space=choices).rl_module(model_config=MODEL)
    config = config.training(noisy=True, num_atoms=5, v_min=-1.0, v_max=3.0)
    module = config.get_multi_rl_module_spec(spaces={"default_policy": (VECTOR, choices)}).build()["default_policy"]
    module.make_target_networks()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
        outputs = module.forward_inference({"obs": torch.from_numpy(observations())})
    shutil.rmtree(HERE / name, ignore_errors=True)
    module.save_to_path(str(HERE / name / "default_policy"))
    keep_known(name, outputs["actions"].numpy())


def keep_known(name: str, actions: Any) -> None:
    """What the policy does, beside it."""
    known: dict[str, Any] = {"default_policy/observations": observations(), "default_policy/actions": actions}
    np.savez_compressed(HERE / f"{name}.npz", **known)


if __name__ == "__main__":
    main()
