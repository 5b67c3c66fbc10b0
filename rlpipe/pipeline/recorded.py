"""Observations met in an environment, for the verification of artifacts: what a space's samples never show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpipe.algorithms.env_runner import EnvSpaces, make_env, observe, spaces_of
from rlpipe.errors import RlpipeError
from rlpipe.pipeline.live import spaces_of as policy_spaces
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import compare

OBSERVATIONS = 64
SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Observations, or why there are none.

    Attributes:
        text: In words.
        observations: A batch as the observation space nests it, or None.
    """

    text: str
    observations: Any = None


def record(policy: Snapshot, env: str | None) -> Recording:
    """Observations that random actions meet in the environment of a policy.

    An environment that the run names has to be there. One that only the policy's metadata names is made if that imports
    nothing by a name out of a file (``module:Env-v0``); where it cannot be made, the artifacts are checked without.

    Raises:
        ConfigError: The environment that the run names cannot be made.
    """
    env_id = env or recorded_env(policy.metadata)
    if env_id is None:
        return Recording("none: the environment is not known")
    try:
        return _record(policy, env_id)
    except RlpipeError as error:
        if env is not None:
            raise
        return Recording(f"none: {error.subject}")


def recorded_env(metadata: Any) -> str | None:
    """The environment that a policy's metadata names, unless the name would import a module."""
    env = metadata.get("env")
    return env if isinstance(env, str) and ":" not in env else None


def _record(policy: Snapshot, env_id: str) -> Recording:
    env = make_env(env_id)
    try:
        spaces = spaces_of(env)
        expected = policy_spaces(policy)
        findings = compare(expected.observation, spaces.observation)
        wrong = [finding.text for finding in findings if finding.severity == "error"]
        if wrong:
            return Recording(f"none: the observations of {env_id} are others ({wrong[0]})")
        both = EnvSpaces(expected.observation, spaces.action)
        observed = observe(env, both, OBSERVATIONS, np.random.default_rng(SEED))
    finally:
        env.close()
    return Recording(f"{OBSERVATIONS} of {env_id}", observed)
