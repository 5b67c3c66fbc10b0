"""What an algorithm's env runner says about its training: how long, and in which environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.libraries.rllib.constructors import plain_fields, read_constructor
from rlpipe.importers.libraries.rllib.files import read_state, state_file

_GYMNASIUM_ID = re.compile(r"[\w./-]+-v\d+", re.ASCII)
"""What names registered with ray alone mostly do not look like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is known.

    Attributes:
        steps: Steps of environments, or None.
        env: The gymnasium id of the environment, or None.
    """

    steps: int | None = None
    env: str | None = None


def read_training(runner: Path) -> Training:
    """What an env runner's directory says.

    Raises:
        ForeignFormatError: The state of its env runner is no dict.
        UnsafePayloadError: It is broken.
    """
    steps = read_state(runner, "state").get("num_env_steps_sampled_lifetime") if state_file(runner, "state") else None
    return Training(steps=int(steps) if isinstance(steps, (int, float, np.number)) else None, env=_env(runner))


def _env(runner: Path) -> str | None:
    """The environment in the config of an env runner of one agent; it is no more than a hint."""
    try:
        constructor = read_constructor(runner)
    except (ForeignFormatError, UnsafePayloadError):
        return None
    given = constructor.kwargs.get("config", constructor.args[0] if constructor.args else None)
    env = plain_fields(given).get("env")
    is_one = "MultiAgent" not in constructor.class_name
    return env if is_one and isinstance(env, str) and _GYMNASIUM_ID.fullmatch(env) else None
