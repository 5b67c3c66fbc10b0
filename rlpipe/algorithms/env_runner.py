"""Rollouts in gymnasium environments: one episode at a time, each from its own fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rlpipe.algorithms.masks import allowed_now
from rlpipe.errors import ConfigError, EnvironmentMismatchError, closest, listed
from rlpipe.snapshot.spaces import Finding, Space, compare, flat_batch, flat_items, from_gymnasium, nested_batch

if TYPE_CHECKING:
    import gymnasium

Act = Callable[[Any], Any]
"""A batch of observations -> a batch of actions, both as their spaces nest them; `begin`, if it has one, is told of
episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode.

    Attributes:
        seed: What the environment was reset with.
        episode_return: Sum of its rewards, undiscounted.
        length: Its steps.
        ended: "terminated" and "truncated" by the environment, "stopped" by the limit of steps.
    """

    seed: int
    episode_return: float
    length: int
    ended: Literal["terminated", "truncated", "stopped"]


@dataclass(frozen=True, slots=True)
class EnvSpaces:
    """The spaces of an environment."""

    observation: Space
    action: Space


def make_env(env_id: str) -> gymnasium.Env[Any, Any]:
    """The environment of an id.

    Raises:
        ConfigError: There is no such environment, or it lacks a package.
    """
    import gymnasium

    try:
        return gymnasium.make(env_id)
    except Exception as error:
        near = closest(env_id, gymnasium.registry)
        raise ConfigError(
            f"the environment {env_id!r} cannot be made",
            expected="an id that gymnasium knows, and the packages that it needs",
            found=str(error).splitlines()[0] if str(error) else type(error).__name__,
            fix=f"did you mean {' or '.join(near)}?" if near else "install the package that brings it",
        ) from error


def make_vector_env(env_id: str, count: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """That many environments of an id, stepped together; one whose episode ends begins again with the next step.

    Raises:
        ConfigError: There is no such environment, or it lacks a package.
    """
    from gymnasium.vector import SyncVectorEnv

    return SyncVectorEnv([lambda: make_env(env_id)] * count)


def spaces_of(env: gymnasium.Env[Any, Any]) -> EnvSpaces:
    """An environment's spaces as rlpipe's.

    Raises:
        SpaceError: A space that rlpipe does not have.
    """
    return EnvSpaces(from_gymnasium(env.observation_space), from_gymnasium(env.action_space))


def require_fit(policy: EnvSpaces, env: EnvSpaces, *, policy_id: str, env_id: str) -> tuple[str, ...]:
    """Check that a policy can act in an environment.

    Returns:
        Differences that do not keep it from acting, in words.

    Raises:
        EnvironmentMismatchError: Differences that do; all of them.
    """
    findings = [
        *(finding.under("observation") for finding in compare(policy.observation, env.observation, use="observation")),
        *(finding.under("action") for finding in compare(policy.action, env.action, use="action")),
    ]
    errors = [finding.text for finding in findings if finding.severity == "error"]
    if errors:
        raise EnvironmentMismatchError(
            f"{env_id} is not an environment for the policy {policy_id}",
            expected=f"observations {policy.observation.describe()}, actions {policy.action.describe()}",
            found=listed(errors),
            fix="name the environment that it was trained in: env=...",
        )
    return tuple(_warning(finding, policy_id, env_id) for finding in findings)


def rollout(env: gymnasium.Env[Any, Any], spaces: EnvSpaces, act: Act, *, seed: int, max_steps: int | None) -> Episode:
    """One episode from `seed`.

    Args:
        env: The environment.
        spaces: Its spaces.
        act: Chooses actions, for batches of one observation.
        seed: What the environment is reset with.
        max_steps: Where to stop an episode that does not end; None: nowhere.
    """
    observation, info = env.reset(seed=seed)
    if begin := getattr(act, "begin", None):
        begin(lambda: allowed_now(env, info))
    total, length = 0.0, 0
    while True:
        action = _single(spaces.action, act(_batch(spaces.observation, observation)))
        observation, reward, terminated, truncated, info = env.step(action)
        total, length = total + float(reward), length + 1
        if terminated or truncated:
            ended: Literal["terminated", "truncated"] = "terminated" if terminated else "truncated"
            return Episode(seed=seed, episode_return=total, length=length, ended=ended)
        if length == max_steps:
            return Episode(seed=seed, episode_return=total, length=length, ended="stopped")


def observe(env: gymnasium.Env[Any, Any], spaces: EnvSpaces, count: int, rng: np.random.Generator) -> Any:
    """A batch of observations that random actions meet, from seeds of ``rng``; episodes that end begin again."""
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    met = [_flat(spaces.observation, observation)]
    while len(met) < count:
        observation, _, terminated, truncated, _ = env.step(_single(spaces.action, spaces.action.sample(1, rng)))
        if terminated or truncated:
            observation, _ = env.reset(seed=int(rng.integers(2**31)))
        met.append(_flat(spaces.observation, observation))
    stacked = {name: np.stack([one[name] for one in met]) for name in met[0]}
    return nested_batch(spaces.observation, stacked, "")


def _batch(space: Space, value: Any) -> Any:
    """One observation as a batch of one."""
    return nested_batch(space, {name: part[None] for name, part in _flat(space, value).items()}, "")


def _flat(space: Space, value: Any) -> dict[str, Any]:
    """The arrays of one observation by flat name, in the space's own dtypes."""
    dtypes = {name: leaf.dtype for name, leaf in flat_items(space, "")}
    return {name: np.array(part, dtypes[name]) for name, part in flat_batch(space, value, "").items()}


def _single(space: Space, batch: Any) -> Any:
    """The action of a batch of one."""
    flat: Mapping[str, Any] = flat_batch(space, batch, "")
    return nested_batch(space, {name: part[0] for name, part in flat.items()}, "")


def _warning(finding: Finding, policy_id: str, env_id: str) -> str:
    return f"{policy_id} in {env_id}: {finding.text}"
