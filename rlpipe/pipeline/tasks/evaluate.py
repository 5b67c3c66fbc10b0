"""task=evaluate: roll policies or artifacts out in an environment, from fixed seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import RenderableType

from rlpipe.algorithms.algorithm_reader import RUNNER
from rlpipe.algorithms.env_runner import EnvSpaces, Episode, make_env, require_fit, rollout, spaces_of
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.errors import ConfigError, listed
from rlpipe.pipeline import tables
from rlpipe.pipeline.contenders import Contender, contenders
from rlpipe.pipeline.environment import require_all_fit
from rlpipe.pipeline.inspect import untrained
from rlpipe.pipeline.live import spaces_of as spaces_of_policy
from rlpipe.pipeline.locate import CHECKPOINT, Located, locate, reading_path
from rlpipe.pipeline.outlook import Outlook
from rlpipe.pipeline.progress import Progress, Step
from rlpipe.pipeline.recorded import recorded_env
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import EvaluateSettings, RunSettings

USES = frozenset({"source", "checkpoint.path", "select", "evaluate", "env", "trust"})
READS_ARTIFACTS = True
_NAME_IT = "name it: env=CartPole-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How one contender did; returns are undiscounted.

    Attributes:
        policy_id: Its id.
        form: "policy", or the id of the artifact's target.
        env: The environment.
        fingerprint: First digits of its inference hash.
        episodes: All of them, in order of their seeds.
    """

    policy_id: str
    form: str
    env: str
    fingerprint: str
    episodes: tuple[Episode, ...]

    @property
    def returns(self) -> list[float]:
        """The return of each episode."""
        return [episode.episode_return for episode in self.episodes]

    @property
    def mean(self) -> float:
        """Mean of the returns."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns, of these episodes as a population (divided by N)."""
        return float(np.std(self.returns))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "policy_id": self.policy_id,
            "form": self.form,
            "env": self.env,
            "fingerprint": self.fingerprint,
            "mean": self.mean,
            "std": self.std,
            "min": min(self.returns),
            "max": max(self.returns),
            "returns": self.returns,
            "seeds": [episode.seed for episode in self.episodes],
            "lengths": [episode.length for episode in self.episodes],
            "ended": [episode.ended for episode in self.episodes],
        }


@dataclass(frozen=True, kw_only=True)
class EvaluateReport(Report):
    """How policies did."""

    task = "evaluate"
    evaluations: tuple[Evaluation, ...]

    def body(self) -> dict[str, Any]:
        """With every episode."""
        return {"evaluations": [evaluation.to_json() for evaluation in self.evaluations]}

    def tables(self) -> Sequence[RenderableType]:
        """A row for each; single episodes are in the JSON."""
        rows = [
            (
                one.policy_id,
                one.form,
                one.env,
                len(one.episodes),
                f"{one.mean:.2f}",
                f"{one.std:.2f}",
                one.fingerprint,
            )
            for one in self.evaluations
        ]
        columns = ("policy", "form", "env", "episodes", "mean", "std", "fingerprint")
        return (tables.table(*columns, rows=rows, right=("episodes", "mean", "std")),)


def run(settings: RunSettings, *, progress: Progress) -> EvaluateReport:
    """Roll out what is chosen of ``source.path``.

    Raises:
        ConfigError: The environment is not known or cannot be made.
        EnvironmentMismatchError: Its spaces are not the policy's.
    """
    located = locate(settings, given=reading_path(settings))
    found, notes = contenders(located, settings)
    if settings.env is not None:
        require_all_fit({one.policy_id: one.spaces for one in found}, settings.env)
    envs = [settings.env or _recorded(contender, located) for contender in found]
    warnings = [*located.notes, *notes, *untrained(one.policy_id for one in found if one.trained is False)]
    evaluations = []
    with progress.bar(len(found) * settings.evaluate.episodes) as step:
        for contender, env_id in zip(found, envs, strict=True):
            evaluation, differences = _evaluate(contender, env_id, settings.evaluate, step)
            evaluations.append(evaluation)
            warnings += differences
    unique = tuple(dict.fromkeys(warnings))
    return EvaluateReport(source=located.facts, warnings=unique, evaluations=tuple(evaluations))


def check_ahead(settings: RunSettings, outlook: Outlook) -> None:
    """Check that there is an environment for every policy, and that they can act in one that is named.

    Raises:
        ConfigError: One is not known or cannot be made.
        EnvironmentMismatchError: Its spaces are not a policy's.
    """
    if settings.env is not None:
        spaces = {name: spaces_of_policy(policy) for name, policy in outlook.read.items()}
        require_all_fit({name: EnvSpaces(own.observation, own.action) for name, own in spaces.items()}, settings.env)
        return
    if unknown := [name for name, env in outlook.envs.items() if env is None]:
        raise _unknown_env(unknown)
    for env_id in sorted({env for env in outlook.envs.values() if env is not None}):
        make_env(env_id).close()


def _evaluate(
    contender: Contender, env_id: str, settings: EvaluateSettings, step: Step
) -> tuple[Evaluation, tuple[str, ...]]:
    env = make_env(env_id)
    try:
        spaces = spaces_of(env)
        warnings = require_fit(contender.spaces, spaces, policy_id=contender.policy_id, env_id=env_id)
        act = contender.open()
        # Observations are given in the policy's own dtypes, actions in the environment's structure.
        both = EnvSpaces(contender.spaces.observation, spaces.action)
        episodes = []
        for index in range(settings.episodes):
            step(f"{contender.policy_id} {contender.form} in {env_id}")
            episodes.append(rollout(env, both, act, seed=settings.seed + index, max_steps=settings.max_steps))
    finally:
        env.close()
    evaluation = Evaluation(
        policy_id=contender.policy_id,
        form=contender.form,
        env=env_id,
        fingerprint=contender.fingerprint,
        episodes=tuple(episodes),
    )
    return evaluation, warnings


def _recorded(contender: Contender, located: Located) -> str:
    if contender.env is None:
        raise _unknown_env([contender.policy_id], fix=_env_of_runner(located))
    return contender.env


def _env_of_runner(located: Located) -> str:
    """What to write where the runner beside the policies has an environment: a hint, as it may be of other policies."""
    if located.kind != CHECKPOINT:
        return _NAME_IT
    runner = inspect_checkpoint(located.path).children.get(RUNNER)
    env = None if runner is None else recorded_env(runner.spec.options)
    return _NAME_IT if env is None else f"env={env}, which its env_runner has"


def _unknown_env(policy_ids: Iterable[str], *, fix: str = _NAME_IT) -> ConfigError:
    return ConfigError(
        f"it is not known in which environment {listed(policy_ids)} acts",
        expected="the id of a gymnasium environment",
        found="no env, and none recorded with the policy",
        fix=fix,
    )
