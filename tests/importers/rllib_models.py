"""Small algorithms of RLlib for tests, and what their own env runners do to observations; needs ray."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import gymnasium
import numpy as np
import ray
import torch
import tree
from gymnasium import spaces
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.spaces.space_utils import unsquash_action
from ray.tune.registry import register_env

Array = np.ndarray[Any, np.dtype[Any]]
COUNT = 1000
VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 100.0], np.float32))
PARTS = spaces.Dict(
    {"b": spaces.Box(-1, 1, (2, 2), np.float32), "a": spaces.Discrete(3), "c": spaces.MultiDiscrete([2, 3])}
)
IMAGE = spaces.Box(-1, 1, (12, 10, 3), np.float32)
MIXED = spaces.Dict({"b": spaces.Tuple([spaces.Discrete(3), SKEWED]), "a": spaces.MultiDiscrete([2, 4])})
AGENTS = {"left": "p_left", "right": "p_right"}


class Drifting(gymnasium.Env[Any, Any]):
    """An environment whose observations have means and scales of their own, and whose rewards are noise."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.rng = np.random.default_rng(0)
        self.time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.time = 0
        return drawn(self.observation_space, self.rng), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        del action
        self.time += 1
        return drawn(self.observation_space, self.rng), float(self.rng.normal()), self.time >= 10, False, {}


class Pair(MultiAgentEnv):  # type: ignore[misc]
    """Two agents that see and do different things."""

    possible_agents = agents = list(AGENTS)  # noqa: RUF012 - the names are RLlib's

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.time = 0
        wide = {"left": (3,), "right": (2,)}
        self.observation_spaces = {name: spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in wide.items()}
        self.action_spaces = {"left": spaces.Discrete(3), "right": spaces.Box(-2, 1, (2,), np.float32)}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:  # noqa: ARG002 - named by RLlib
        self.time = 0
        return self._seen(), {}

    def step(self, action_dict: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.time += 1
        rewards = {name: float(self.rng.normal()) for name in action_dict}
        return self._seen(), rewards, {"__all__": self.time >= 10}, {"__all__": False}, {}

    def _seen(self) -> dict[str, Any]:
        return {name: drawn(space, self.rng) for name, space in self.observation_spaces.items()}


def drawn(space: spaces.Space[Any], rng: Any) -> Any:
    """A value whose elements have different means and spreads where nothing bounds them."""
    if isinstance(space, spaces.Box) and not space.is_bounded():
        places = np.arange(space.shape[0])
        return (rng.normal(size=space.shape) * 5.0**places + 10 * places).astype(space.dtype)
    return space.sample()


def mapped(agent_id: str, *_: Any, **__: Any) -> str:
    """Which policy an agent plays."""
    return AGENTS[agent_id]


def filtering(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """The connector that normalises observations."""
    return MeanStdFilter()


def filtering_agents(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """The connector that normalises each agent's observations."""
    return MeanStdFilter(multi_agent=True)


def stacking(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """The connector that shows the last three images."""
    return FrameStackingEnvToModule(num_frames=3)


def with_frames(config: Any) -> Any:
    """The last three images, also where the learner sees them."""
    config = config.env_runners(env_to_module_connector=stacking)
    return config.training(learner_connector=lambda *_: FrameStackingLearner(num_frames=3))


def flattening(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """The connector that makes one row of a Dict, then one that normalises it."""
    return [FlattenObservations(), MeanStdFilter(clip_by_value=2.0)]


ENVIRONMENTS: dict[str, Callable[[], Any]] = {
    "rlpipe_choices": lambda: Drifting(VECTOR, spaces.Discrete(3)),
    "rlpipe_box": lambda: Drifting(VECTOR, SKEWED),
    "rlpipe_unbounded": lambda: Drifting(VECTOR, spaces.Box(-np.inf, np.inf, (2,), np.float32)),
    "rlpipe_wide": lambda: Drifting(VECTOR, spaces.Box(-0.1, 0.3, (2,), np.float64)),
    "rlpipe_several": lambda: Drifting(VECTOR, spaces.MultiDiscrete([3, 2])),
    "rlpipe_parts": lambda: Drifting(PARTS, spaces.Discrete(3)),
    "rlpipe_image": lambda: Drifting(IMAGE, spaces.Discrete(3)),
    "rlpipe_frame": lambda: Drifting(spaces.Box(-1, 1, (12, 10, 1), np.float32), spaces.Discrete(3)),
    "rlpipe_image_box": lambda: Drifting(IMAGE, SKEWED),
    "rlpipe_mixed": lambda: Drifting(VECTOR, MIXED),
    "rlpipe_pair": Pair,
}


@dataclass(frozen=True)
class Case:
    """One algorithm: its class, environment, networks and settings."""

    config: Callable[[], Any]
    env: str
    networks: dict[str, Any] = field(default_factory=dict)
    settings: Callable[[Any], Any] = lambda config: config

    def algorithm(self) -> Any:
        """The algorithm after one iteration, with weights that show in the actions."""
        for name, maker in ENVIRONMENTS.items():
            register_env(name, lambda _, maker=maker: maker())
        networks = DefaultModelConfig(**{"fcnet_hiddens": [8, 6], **self.networks})
        config = self.config().environment(self.env).env_runners(num_env_runners=0).learners(num_learners=0)
        algorithm = self.settings(config.rl_module(model_config=networks)).debugging(seed=1).build_algo()
        algorithm.train()
        enlarge(algorithm)
        return algorithm


def on_policy() -> Any:
    """PPO that learns from few steps."""
    return PPOConfig().training(train_batch_size_per_learner=40, minibatch_size=20, num_epochs=1)


def q_learning(**settings: Any) -> Any:
    """DQN that learns from few steps."""
    few = {"train_batch_size_per_learner": 8, "num_steps_sampled_before_learning_starts": 10}
    return DQNConfig().training(**few, **settings).reporting(min_sample_timesteps_per_iteration=20)


def soft(kind: Any = SACConfig, **settings: Any) -> Any:
    """SAC that learns from few steps."""
    few = {"train_batch_size_per_learner": 8, "num_steps_sampled_before_learning_starts": 10}
    return kind().training(**few, **settings).reporting(min_sample_timesteps_per_iteration=20)


def quantiles() -> Any:
    """TQC that learns from few steps."""
    from ray.rllib.algorithms.tqc import TQCConfig

    return soft(TQCConfig)


def asynchronous() -> Any:
    """APPO that learns from few steps."""
    from ray.rllib.algorithms.appo import APPOConfig

    return APPOConfig().training(train_batch_size_per_learner=20).env_runners(rollout_fragment_length=10)


def replaying_sequences(config: Any) -> Any:
    """A replay buffer that keeps whole episodes, as memories need."""
    return config.training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 1000})


def with_agents(config: Any) -> Any:
    """Two policies, one for each agent."""
    return config.multi_agent(policies=set(AGENTS.values()), policy_mapping_fn=mapped)


FILTERS = [[4, 4, 2], [6, 3, 1, "valid"]]
CASES: dict[str, Case] = {
    "ppo_choices": Case(on_policy, "rlpipe_choices"),
    "ppo_several": Case(on_policy, "rlpipe_several", {"fcnet_activation": "linear"}),
    "ppo_box": Case(on_policy, "rlpipe_box", {"vf_share_layers": False, "fcnet_activation": "relu"}),
    "ppo_heads": Case(
        on_policy,
        "rlpipe_box",
        {"vf_share_layers": False, "free_log_std": True, "head_fcnet_hiddens": [5], "head_fcnet_activation": "silu"},
    ),
    "ppo_clipped": Case(
        on_policy,
        "rlpipe_box",
        {"fcnet_activation": "ELU", "head_fcnet_hiddens": [5]},
        lambda config: config.environment(normalize_actions=False, clip_actions=True),
    ),
    "ppo_raw": Case(on_policy, "rlpipe_box", {}, lambda config: config.environment(normalize_actions=False)),
    "ppo_unbounded": Case(on_policy, "rlpipe_unbounded"),
    "ppo_wide": Case(on_policy, "rlpipe_wide"),
    "ppo_filtered": Case(
        on_policy, "rlpipe_box", {}, lambda config: config.env_runners(env_to_module_connector=filtering)
    ),
    "ppo_flattened": Case(
        on_policy, "rlpipe_parts", {}, lambda config: config.env_runners(env_to_module_connector=flattening)
    ),
    "ppo_lstm": Case(on_policy, "rlpipe_choices", {"use_lstm": True, "lstm_cell_size": 5, "max_seq_len": 4}),
    "ppo_lstm_box": Case(
        on_policy,
        "rlpipe_box",
        {
            "use_lstm": True,
            "lstm_cell_size": 5,
            "max_seq_len": 4,
            "vf_share_layers": False,
            "head_fcnet_hiddens": [3],
            "fcnet_activation": "relu",
            "head_fcnet_activation": "tanh",
        },
    ),
    "ppo_image": Case(on_policy, "rlpipe_image", {"conv_filters": FILTERS, "vf_share_layers": False}),
    "ppo_image_heads": Case(
        on_policy,
        "rlpipe_image_box",
        {"conv_filters": FILTERS, "conv_activation": "elu", "vf_share_layers": False, "head_fcnet_hiddens": [5]},
    ),
    "ppo_image_lstm": Case(
        on_policy,
        "rlpipe_image",
        {"conv_filters": FILTERS, "use_lstm": True, "lstm_cell_size": 5, "max_seq_len": 4},
    ),
    "ppo_frames": Case(on_policy, "rlpipe_frame", {"conv_filters": FILTERS}, with_frames),
    "ppo_mixed": Case(on_policy, "rlpipe_mixed"),
    "appo": Case(asynchronous, "rlpipe_box"),
    "pair": Case(on_policy, "rlpipe_pair", {}, with_agents),
    "pair_filtered": Case(
        on_policy,
        "rlpipe_pair",
        {},
        lambda config: with_agents(config).env_runners(env_to_module_connector=filtering_agents),
    ),
    "dqn": Case(q_learning, "rlpipe_choices", {"head_fcnet_hiddens": [5]}),
    "dqn_plain": Case(lambda: q_learning(dueling=False, double_q=False), "rlpipe_choices"),
    "dqn_atoms": Case(lambda: q_learning(num_atoms=7, v_min=-3.0, v_max=2.0), "rlpipe_choices"),
    "dqn_atoms_plain": Case(
        lambda: q_learning(num_atoms=5, dueling=False), "rlpipe_choices", {"head_fcnet_hiddens": [5]}
    ),
    "dqn_lstm": Case(
        q_learning, "rlpipe_choices", {"use_lstm": True, "lstm_cell_size": 5, "max_seq_len": 4}, replaying_sequences
    ),
    "dqn_image": Case(q_learning, "rlpipe_image", {"conv_filters": FILTERS}),
    "sac": Case(soft, "rlpipe_box", {"fusionnet_hiddens": [4]}),
    "sac_heads": Case(soft, "rlpipe_box", {"fusionnet_hiddens": [4, 3], "head_fcnet_hiddens": [5]}),
    "sac_single": Case(lambda: soft(twin_q=False), "rlpipe_box", {"fusionnet_hiddens": []}),
    "sac_choices": Case(soft, "rlpipe_choices"),
    "sac_image": Case(soft, "rlpipe_image_box", {"conv_filters": FILTERS}),
    "tqc": Case(quantiles, "rlpipe_box"),
}


def enlarge(algorithm: Any) -> None:
    """Gives every parameter a random value large enough to show in the actions, in learner and env runner."""
    generator = torch.Generator().manual_seed(3)
    modules = algorithm.learner_group._learner.module
    with torch.no_grad():
        for name in sorted(modules.keys()):
            for parameter in modules[name].parameters():
                spread = 0.5 if parameter[0].numel() < 40 else 0.1
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    acting = algorithm.env_runner.module
    for name in modules.keys():  # noqa: SIM118 - it iterates over modules
        target = acting[name] if len(AGENTS) == len(modules.keys()) else acting
        target.load_state_dict(modules[name].state_dict(), strict=False)


def observations(space: spaces.Space[Any], count: int = COUNT) -> list[Any]:
    """Mixed scales 1e-3 to 1e3 where nothing bounds, samples elsewhere."""
    rng = np.random.default_rng(5)
    space.seed(5)
    if not isinstance(space, spaces.Box) or space.is_bounded():
        return [space.sample() for _ in range(count)]
    scales = 10.0 ** rng.uniform(-3, 3, size=(count, 1))
    return list((rng.standard_normal((count, *space.shape)) * scales).astype(space.dtype))


def stacked(observed: list[Any]) -> Any:
    """A batch of observations, for a Dict one of each key."""
    if isinstance(observed[0], dict):
        return {key: np.stack([one[key] for one in observed]) for key in observed[0]}
    return np.stack(observed)


def observation_space(algorithm: Any, agent: str | None = None) -> Any:
    """What the environment gives to an agent."""
    space = algorithm.env_runner._env_to_module.input_observation_space
    return space if agent is None else space[agent]


def acted(algorithm: Any, observed: list[Any], agent: str | None = None) -> Any:
    """What the algorithm's own env runner does without exploring, statistics of observations left as they are."""
    runner = algorithm.env_runner
    if isinstance(runner.module.action_space, spaces.Dict) and len(observed) > 1:
        # RLlib adds up the likelihoods of an action's parts in shapes that fit a single row only.
        found = [acted(algorithm, [one], agent) for one in observed]
        return tree.map_structure(lambda *rows: np.concatenate(rows), *found)
    for piece in runner._env_to_module.connectors:
        if isinstance(piece, MeanStdFilter):
            piece._update_stats = False
    episodes = [_episode(algorithm, one, agent) for one in observed]
    shared: dict[str, Any] = {}
    given = {"episodes": episodes, "rl_module": runner.module, "explore": False, "shared_data": shared}
    with torch.no_grad():
        outputs = runner.module.forward_inference(runner._env_to_module(batch={}, **given))
        batch = runner._module_to_env(batch=outputs, **given)
    actions = batch.get("actions_for_env", batch["actions"])
    if isinstance(actions, dict):
        return actions
    return tree.map_structure(
        lambda *parts: np.stack(parts), *(one if agent is None else one[agent] for one in actions)
    )


def acted_in_an_episode(algorithm: Any, observed: list[Any]) -> Array:
    """What the algorithm's env runner does in an episode with these observations, without exploring."""
    runner = algorithm.env_runner
    found = []
    for end in range(1, len(observed) + 1):
        past = {"actions": [0] * (end - 1), "rewards": [0.0] * (end - 1), "len_lookback_buffer": 0}
        space = observation_space(algorithm)
        episode = SingleAgentEpisode(observations=observed[:end], observation_space=space, **past)
        shared: dict[str, Any] = {}
        given = {"episodes": [episode], "rl_module": runner.module, "explore": False, "shared_data": shared}
        with torch.no_grad():
            outputs = runner.module.forward_inference(runner._env_to_module(batch={}, **given))
            batch = runner._module_to_env(batch=outputs, **given)
        found.append(batch.get("actions_for_env", batch["actions"])[0])
    return np.stack(found)


def acted_in_steps(algorithm: Any, observed: Array) -> Array:
    """What the algorithm's module does over steps of several rows (T, B, n), its memory empty before the first."""
    module = algorithm.env_runner.module
    rows = observed.shape[1]
    state = tree.map_structure(lambda part: torch.as_tensor(part)[None].repeat(rows, 1, 1), module.get_initial_state())
    found = []
    with torch.no_grad():
        for one in observed:
            outputs = module.forward_inference({"obs": torch.from_numpy(one)[:, None], "state_in": state})
            state = outputs["state_out"]
            if "actions" in outputs:
                actions = outputs["actions"][:, 0].numpy()
            else:
                decided = module.get_inference_action_dist_cls().from_logits(outputs["action_dist_inputs"][:, 0])
                actions = decided.to_deterministic().sample().numpy()
            found.append(np.stack([unsquash_action(row, module.action_space) for row in actions]))
    return np.stack(found)


def sequences(steps: int = 12, rows: int = 8, space: spaces.Space[Any] = VECTOR) -> Array:
    """Observations (T, B, ...) of mixed scales."""
    flat = np.stack(observations(space, steps * rows))
    return flat.reshape(steps, rows, *flat.shape[1:])


def _episode(algorithm: Any, observed: Any, agent: str | None) -> Any:
    if agent is None:
        return SingleAgentEpisode(observations=[observed], observation_space=observation_space(algorithm))
    return MultiAgentEpisode(observations=[{agent: observed}], agent_to_module_mapping_fn=mapped)


def start() -> None:
    """A ray of this process alone."""
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
        ignore_reinit_error=True,
    )


def saved(algorithm: Any, folder: Path, *, use_msgpack: bool = False) -> Path:
    """The algorithm's checkpoint in a folder."""
    algorithm.save_to_path(str(folder), use_msgpack=use_msgpack)
    return folder
