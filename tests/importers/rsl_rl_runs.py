"""Small real training runs of rsl-rl-lib, whatever version is installed: a checkpoint, and what its policy does.

The library's own runner trains and saves. `Case` is in the words of version 5; older versions get the same in theirs.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

ENVS, ACTIONS, LENGTH = 4, 3, 200
GROUPS = {"policy": 6, "extra": 2, "privileged": 3}
ALGORITHM = {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 1, "schedule": "fixed"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One policy.

    Attributes:
        actor: Observation groups of the actor.
        critic: Observation groups of the critic.
        normalised: Whether both normalise what they see.
        memory: "", "lstm" or "gru".
        layers: Layers of the memory.
        std: "scalar" or "log".
        spread: "": one deviation for all observations; "state": computed from them; "beta": another distribution.
        distilled: Whether a student learns from a teacher.
        activation: In the library's words.
    """

    actor: tuple[str, ...] = ("policy",)
    critic: tuple[str, ...] = ("policy",)
    normalised: bool = True
    memory: str = ""
    layers: int = 1
    std: str = "scalar"
    spread: str = ""
    distilled: bool = False
    activation: str = "elu"
    hidden: tuple[int, ...] = field(default=(16, 8))


def major() -> int:
    """The first number of the installed version."""
    return int(version("rsl-rl-lib").partition(".")[0])


class Room:
    """Environments that only show numbers: each group its own, with means and deviations far from 0 and 1."""

    num_envs, num_actions, max_episode_length, device = ENVS, ACTIONS, 50, "cpu"

    def __init__(self, case: Case) -> None:
        self.case = case
        self.cfg: dict[str, Any] = {}
        self.random = torch.Generator().manual_seed(3)
        self.episode_length_buf = torch.zeros(ENVS, dtype=torch.long)
        self.unwrapped = self
        self.step_dt = 0.02

    def show(self) -> dict[str, torch.Tensor]:
        """One observation of each environment, by group."""
        return {
            name: torch.randn(ENVS, width, generator=self.random) * (1 + torch.arange(width)) + 10 * torch.arange(width)
            for name, width in GROUPS.items()
        }

    def get_observations(self) -> Any:
        """As the installed version wants them."""
        groups = self.show()
        if major() == 2:
            other = "teacher" if self.case.distilled else "critic"
            seen = {other: joined(groups, self.case.critic)} if self.case.critic != self.case.actor else {}
            return joined(groups, self.case.actor), {"observations": seen}
        tensordict = importlib.import_module("tensordict")
        return tensordict.TensorDict(groups, batch_size=[ENVS])

    def reset(self) -> Any:
        """Version 2 resets before it learns."""
        return self.get_observations()

    def step(self, actions: torch.Tensor) -> Any:
        """A reward for small actions; now and then an episode ends."""
        rewards = -actions.square().sum(dim=1)
        dones = (torch.rand(ENVS, generator=self.random) < 0.1).long()
        if major() == 2:
            observations, extras = self.get_observations()
            return observations, rewards, dones, extras
        return self.get_observations(), rewards, dones, {}


def joined(groups: dict[str, torch.Tensor], names: tuple[str, ...]) -> torch.Tensor:
    """Groups behind each other."""
    return torch.cat([groups[name] for name in names], dim=1)


def trained(case: Case, *, iterations: int = 2) -> Any:
    """The runner after a little learning, in eval mode."""
    torch.manual_seed(0)
    runners = importlib.import_module("rsl_rl.runners")
    name = "DistillationRunner" if case.distilled and major() > 2 else "OnPolicyRunner"
    runner = getattr(runners, name)(Room(case), config(case), log_dir=None, device="cpu")
    if case.distilled:
        for module in (runner.alg.policy,) if major() < 4 else (runner.alg.teacher,):
            module.loaded_teacher = True
        runner.alg.teacher_loaded = True
    runner.disable_logs = True  # version 2 and 3 copy the state of their repository into the log else
    if hasattr(runner, "logger") and major() == 3:
        # Version 3.3 logs and saves while it learns, whether there is a folder for it or not.
        runner.logger.log_dir, runner.logger.log, runner.save = "", lambda **_: None, lambda *_: None
    runner.learn(iterations)
    vars(runner).pop("save", None)
    runner.current_learning_iteration = iterations
    return runner


def config(case: Case) -> dict[str, Any]:
    """The settings of the installed version's runner."""
    algorithm = dict(ALGORITHM)
    if case.distilled:
        algorithm = {"class_name": "Distillation", "num_learning_epochs": 1, "gradient_length": 2}
    shared = {"num_steps_per_env": 8, "save_interval": 100, "algorithm": algorithm, "multi_gpu": None}
    if major() >= 4:
        return {**shared, "obs_groups": _groups(case), **_models(case)}
    return {**shared, "obs_groups": _groups(case), "empirical_normalization": case.normalised, "policy": _policy(case)}


def _groups(case: Case) -> dict[str, list[str]]:
    names = ("student", "teacher") if case.distilled else ("actor", "critic")
    if major() == 3:
        names = ("policy", names[1])
    return {names[0]: list(case.actor), names[1]: list(case.critic)}


def _policy(case: Case) -> dict[str, Any]:
    kind = "StudentTeacher" if case.distilled else "ActorCritic"
    roles = ("student", "teacher") if case.distilled else ("actor", "critic")
    policy: dict[str, Any] = {
        "class_name": f"{kind}Recurrent" if case.memory else kind,
        "activation": case.activation,
        **{f"{role}_hidden_dims": list(case.hidden) for role in roles},
    }
    if case.std != "scalar":
        policy["noise_std_type"] = case.std
    if case.spread == "state":
        policy["state_dependent_std"] = True
    if major() == 3 and case.distilled and case.memory:
        policy["teacher_recurrent"] = True  # version 3 sizes the teacher's layers as if it were
    if major() == 3:
        policy |= {f"{role}_obs_normalization": case.normalised for role in roles}
    return policy | _memory(case)


def _memory(case: Case) -> dict[str, Any]:
    if not case.memory:
        return {}
    return {"rnn_type": case.memory, "rnn_hidden_dim": 12, "rnn_num_layers": case.layers}


def _models(case: Case) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "class_name": "RNNModel" if case.memory else "MLPModel",
        "hidden_dims": list(case.hidden),
        "activation": case.activation,
        "obs_normalization": case.normalised,
        **_memory(case),
    }
    if major() == 4:
        noise = {"stochastic": True, "noise_std_type": case.std, "state_dependent_std": case.spread == "state"}
        quiet = {**shared, "stochastic": False}
        return _paired(case, {**shared, **noise}, quiet)
    name = {"": "Gaussian", "state": "HeteroscedasticGaussian", "beta": "Beta"}[case.spread]
    kind: dict[str, Any] = {"class_name": f"{name}Distribution"}
    if case.spread != "beta":
        kind["std_type"] = case.std
    return _paired(case, {**shared, "distribution_cfg": kind}, shared)


def _paired(case: Case, acting: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"student": acting, "teacher": other} if case.distilled else {"actor": acting, "critic": other}


def played(runner: Any, case: Case, *, steps: int = LENGTH) -> dict[str, np.ndarray[Any, Any]]:
    """What the runner's own inference policy does, step by step, with episodes that end now and then.

    Returns:
        `observations` (T, B, n), `starts` (T, B) where an episode begins, `actions` (T, B, m).
    """
    policy = runner.get_inference_policy(device="cpu")
    network = runner.alg.policy if hasattr(runner.alg, "policy") else policy
    random = torch.Generator().manual_seed(5)
    rows: dict[str, list[Any]] = {"observations": [], "starts": [], "actions": []}
    network.reset()
    for step in range(steps):
        starts = torch.rand(ENVS, generator=random) < (1.0 if step == 0 else 0.03)
        if step:
            network.reset(starts.long())
        groups = runner.env.show()
        with torch.no_grad():
            actions = policy(_given(groups, case))
        for name, value in (("observations", joined(groups, case.actor)), ("starts", starts), ("actions", actions)):
            rows[name].append(value.numpy().copy())
    return {name: np.stack(values) for name, values in rows.items()}


def _given(groups: dict[str, torch.Tensor], case: Case) -> Any:
    if major() == 2:
        return joined(groups, case.actor)
    return importlib.import_module("tensordict").TensorDict(groups, batch_size=[ENVS])


def save(runner: Any, path: Path) -> None:
    """The runner's own save, without a log to write to."""
    runner.logger_type = "none"
    if hasattr(runner, "logger"):
        runner.logger.save_model = lambda *_: None
    runner.save(str(path))
