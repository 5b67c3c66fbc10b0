"""Imported policies act as their trainer's predict(deterministic=True)."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="the trainer is not installed; golden files stand for it")

import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import CheckpointCallback

from rlpipe.checkpoint.restore import build
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.stable_baselines3 import Options, read
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from tests.importers.sb3_models import COUNT, Array, Case, SpacesOnly, enlarge, normalised, observations, saved

TINY: dict[str, Any] = {"policy_kwargs": {"net_arch": [8, 6]}}
ON: dict[str, Any] = {"n_steps": 8, **TINY}
PPO_ON: dict[str, Any] = {**ON, "batch_size": 8}
OFF: dict[str, Any] = {"buffer_size": 10, **TINY}

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
SKEWED = spaces.Box(np.array([-0.1, -3.0], np.float32), np.array([0.2, 100.0], np.float32))
IMAGE = spaces.Box(0, 255, (3, 7, 8), np.uint8)

ACTIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-2, 2, (1,), np.float32),
    "skewed box": SKEWED,
    "box of rows": spaces.Box(-1, 1, (2, 3), np.float32),
    "float64 box": spaces.Box(-0.1, 0.3, (2,), np.float64),
    "float16 box": spaces.Box(-0.1, 0.3, (2,), np.float16),
    "integer box": spaces.Box(-5, 5, (2,), np.int64),
    "discrete": spaces.Discrete(5),
    "discrete from 2": spaces.Discrete(3, start=2),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-discrete from 1": spaces.MultiDiscrete([3, 2], start=[1, 1]),
    "multi-binary": spaces.MultiBinary(4),
}
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "rows": spaces.Box(-1, 1, (2, 3), np.float32),
    "float64": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "bytes": spaces.Box(0, 255, (5,), np.uint8),
    "integers": spaces.Box(-1000, 1000, (3,), np.int64),
    "image": IMAGE,
    "discrete": spaces.Discrete(5),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(5),
    "multi-binary rows": spaces.MultiBinary((2, 3)),
}
ARCHITECTURES: dict[str, Any] = {
    "linear": [],
    "one": [5],
    "three": [7, 6, 5],
    "apart": {"pi": [6, 5], "vf": [4]},
    "actor only": {"pi": [6]},
    "critic only": {"vf": [6]},
    "linear actor": {"pi": [], "vf": [4, 3]},
}


def imported(path: Path, **options: Any) -> tuple[ImportedFile, Policy]:
    """The file and the policy, which was built from nothing but it."""
    found = read(path, Options(**options))
    policy = build(found.snapshot)
    assert isinstance(policy, Policy)
    return found, policy


def assert_acts_alike(policy: Policy, observed: Array, expected: Array) -> None:
    """Equal choices but for ties; numbers within 1e-6 of the largest range."""
    found = policy.compute_actions(observed)
    assert found.shape == expected.shape
    if np.issubdtype(expected.dtype, np.integer) or np.all(np.isinf(policy.margins(observed)) == 0):
        sure = policy.margins(observed) >= 1e-5
        assert sure.mean() > 0.9
        np.testing.assert_array_equal(found[sure], expected[sure])
        return
    space = policy.spec.action_space
    reach = max(1.0, float(np.max(space.high - space.low)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * reach)
    assert np.ptp(expected, axis=0).max() > 0.01, "the test would pass with a constant"


def check(case: Case, folder: Path, **options: Any) -> ImportedFile:
    model = case.model()
    found, policy = imported(saved(model, folder), **options)
    assert PolicySpec.from_spec(found.snapshot.spec).to_spec() == found.snapshot.spec
    observed = observations(case.observation)
    assert_acts_alike(policy, observed, model.predict(observed, deterministic=True)[0])
    return found


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("name", ACTIONS)
def test_on_policy_actions(algorithm: Any, name: str, tmp_path: Path) -> None:
    check(Case(algorithm, VECTOR, ACTIONS[name], PPO_ON if algorithm is PPO else ON), tmp_path)


@pytest.mark.parametrize("name", ["box", "skewed box", "box of rows", "float64 box", "integer box"])
def test_sac_actions(name: str, tmp_path: Path) -> None:
    check(Case(SAC, VECTOR, ACTIONS[name], OFF), tmp_path)


@pytest.mark.parametrize("name", ["discrete", "discrete from 2"])
def test_dqn_actions(name: str, tmp_path: Path) -> None:
    check(Case(DQN, VECTOR, ACTIONS[name], OFF), tmp_path)


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize(
    ("algorithm", "action", "settings"),
    [(PPO, SKEWED, PPO_ON), (A2C, spaces.Discrete(3), ON), (DQN, spaces.Discrete(3), OFF), (SAC, SKEWED, OFF)],
    ids=["ppo", "a2c", "dqn", "sac"],
)
def test_observations(algorithm: Any, action: Any, settings: dict[str, Any], name: str, tmp_path: Path) -> None:
    # Large numbers would drive every layer to its limit.
    scale = 0.06 if name in ("bytes", "integers") else 0.5
    check(Case(algorithm, OBSERVATIONS[name], action, settings, scale), tmp_path)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("action", [SKEWED, spaces.Discrete(3)], ids=["box", "discrete"])
def test_architectures_of_actor_and_critic(name: str, action: Any, tmp_path: Path) -> None:
    check(Case(PPO, VECTOR, action, {**PPO_ON, "policy_kwargs": {"net_arch": ARCHITECTURES[name]}}), tmp_path)


@pytest.mark.parametrize("net_arch", [[], [5], [7, 6, 5]])
def test_architectures_of_dqn(net_arch: list[int], tmp_path: Path) -> None:
    check(Case(DQN, VECTOR, spaces.Discrete(3), {**OFF, "policy_kwargs": {"net_arch": net_arch}}), tmp_path)


@pytest.mark.parametrize("net_arch", [[], [5], {"pi": [6], "qf": [5, 4]}, {"pi": [], "qf": [3]}])
@pytest.mark.parametrize("n_critics", [1, 3])
def test_architectures_of_sac(net_arch: Any, n_critics: int, tmp_path: Path) -> None:
    kwargs = {"net_arch": net_arch, "n_critics": n_critics}
    found = check(Case(SAC, VECTOR, SKEWED, {**OFF, "policy_kwargs": kwargs}), tmp_path)
    assert len(found.snapshot.state["qf"]) == n_critics


@pytest.mark.parametrize("torch_name", sorted(set(ACTIVATIONS.values()) - {"Identity"}))
def test_activations(torch_name: str, tmp_path: Path) -> None:
    kwargs = {"net_arch": [8], "activation_fn": getattr(torch.nn, torch_name)}
    check(Case(A2C, VECTOR, SKEWED, {**ON, "policy_kwargs": kwargs}), tmp_path)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("full_std", [False, True])
@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_state_dependent_exploration_on_policy(algorithm: Any, squash: bool, full_std: bool, tmp_path: Path) -> None:
    kwargs = {"net_arch": [6, 5], "squash_output": squash, "full_std": full_std, "use_expln": squash}
    settings = {**(PPO_ON if algorithm is PPO else ON), "use_sde": True, "policy_kwargs": kwargs}
    found = check(Case(algorithm, VECTOR, SKEWED, settings), tmp_path)
    assert found.snapshot.state["pi"]["log_std"].shape == (5, 2)


@pytest.mark.parametrize("clip_mean", [None, 0.7, 0.0])
def test_state_dependent_exploration_of_sac(clip_mean: float | None, tmp_path: Path) -> None:
    kwargs = {"net_arch": [6], **({} if clip_mean is None else {"clip_mean": clip_mean})}
    found = check(Case(SAC, VECTOR, SKEWED, {**OFF, "use_sde": True, "policy_kwargs": kwargs}), tmp_path)
    limit = found.snapshot.spec.config["module"]["model_config"]["mean_clip"]
    assert limit == {None: 2.0, 0.7: 0.7, 0.0: None}[clip_mean]


def test_a_fixed_entropy_coefficient_is_no_state(tmp_path: Path) -> None:
    found = check(Case(SAC, VECTOR, SKEWED, {**OFF, "ent_coef": 0.1}), tmp_path)
    assert "log_alpha" not in found.snapshot.state
    assert ("pytorch_variables.pth: ent_coef_tensor", "a setting of training") in found.report.skipped


def test_a_learned_entropy_coefficient_is_training_state(tmp_path: Path) -> None:
    found = check(Case(SAC, VECTOR, SKEWED, {**OFF, "ent_coef": "auto_0.3"}), tmp_path)
    np.testing.assert_allclose(found.snapshot.state["log_alpha"], np.log([0.3]), rtol=1e-6)
    assert found.snapshot.roles["log_alpha"] == "training"


def test_images_that_are_not_scaled(tmp_path: Path) -> None:
    kwargs = {"net_arch": [8], "normalize_images": False}
    check(Case(PPO, IMAGE, SKEWED, {**PPO_ON, "policy_kwargs": kwargs}), tmp_path)


@pytest.mark.parametrize("unshared", [False, True])
def test_features_shared_or_not_make_no_difference_without_weights(unshared: bool, tmp_path: Path) -> None:
    kwargs = {"net_arch": [8], "share_features_extractor": not unshared}
    check(Case(PPO, VECTOR, SKEWED, {**PPO_ON, "policy_kwargs": kwargs}), tmp_path)


NORMALISED: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (PPO, {"n_steps": 16, "batch_size": 16, "n_epochs": 1, **TINY}),
    "a2c": (A2C, {"n_steps": 16, **TINY}),
    "sac": (SAC, {"buffer_size": 100, "learning_starts": 40, **TINY}),
    "dqn": (DQN, {"buffer_size": 100, "learning_starts": 40, "action": spaces.Discrete(3), **TINY}),
}


@pytest.mark.parametrize("name", NORMALISED)
@pytest.mark.parametrize("norm", [{}, {"clip_obs": 2.0, "epsilon": 1e-3}, {"clip_obs": np.inf}, {"norm_obs": False}])
def test_normalised_observations(name: str, norm: dict[str, Any], tmp_path: Path) -> None:
    algorithm, settings = NORMALISED[name]
    model, env = normalised(algorithm, **settings, norm=norm)
    env.save(str(tmp_path / "any_name.pkl"))
    found, policy = imported(saved(model, tmp_path))
    assert any("proved" in note and "not proved" not in note for note in found.report.notes)
    # Half of them near the mean of 1000, half of mixed scales; without a clip nothing bounds what the networks see.
    rng = np.random.default_rng(0)
    mixed = observations(spaces.Box(-1, 1, (3,), np.float32))
    observed = (mixed + np.array([0, 1000, 0])).astype(np.float32)
    observed[::2, 1] = 1000 + rng.standard_normal(COUNT // 2)
    seen = np.asarray(env.normalize_obs(observed))
    assert_acts_alike(policy, observed, model.predict(seen, deterministic=True)[0])
    assert ("observation" in found.snapshot.state) == (norm.get("norm_obs", True))


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_every_checkpoint_of_a_callback_finds_its_own_statistics(name: str, tmp_path: Path) -> None:
    algorithm, settings = NORMALISED[name]
    callback = CheckpointCallback(20, str(tmp_path), save_vecnormalize=True)
    model, env = normalised(algorithm, **settings, callback=callback)
    env.save(str(tmp_path / "final.pkl"))
    saved(model, tmp_path)
    for steps in (20, 40):
        found = read(tmp_path / f"rl_model_{steps}_steps.zip", Options())
        normalizer = found.snapshot.metadata["source"]["normalizer"]["file"]
        assert normalizer == f"rl_model_vecnormalize_{steps}_steps.pkl"
    assert read(tmp_path / "model.zip", Options()).snapshot.metadata["source"]["normalizer"]["file"] == "final.pkl"


def test_actions_change_when_the_statistics_are_left_out(tmp_path: Path) -> None:
    model, env = normalised(PPO, **NORMALISED["ppo"][1])
    path = saved(model, tmp_path)
    _, policy = imported(path, normalizer="none")
    observed = observations(spaces.Box(-1, 1, (3,), np.float32))
    expected = model.predict(np.asarray(env.normalize_obs(observed)), deterministic=True)[0]
    assert np.abs(policy.compute_actions(observed) - expected).max() > 0.1


def test_a_compiled_policy_has_the_same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions kept the name of the wrapper of torch.compile in every key."""
    case = Case(PPO, VECTOR, SKEWED, PPO_ON)
    model = case.model()
    plain = dict(model.policy.state_dict())
    old = {f"_orig_mod.{key}": value for key, value in plain.items()}
    monkeypatch.setattr(model.policy, "state_dict", lambda: old)
    found, policy = imported(saved(model, tmp_path))
    assert any("torch.compile" in note for note in found.report.notes)
    observed = observations(VECTOR)
    assert_acts_alike(policy, observed, model.predict(observed, deterministic=True)[0])


def test_a_trained_model_says_so(tmp_path: Path) -> None:
    model = PPO("MlpPolicy", SpacesOnly(VECTOR, SKEWED), device="cpu", **deepcopy(PPO_ON))
    assert read(saved(model, tmp_path), Options()).snapshot.metadata["trained"] is False
    model.learn(16)
    enlarge(model)
    metadata = read(saved(model, tmp_path), Options()).snapshot.metadata
    assert metadata["trained"] is True
    assert metadata["source"]["algorithm"] == "PPO"
    assert metadata["source"]["timesteps"] == 16
    assert metadata["source"]["file"] == "model.zip"
