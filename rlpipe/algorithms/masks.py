"""What environments allow: by `action_masks()`, as sb3-contrib asks them, or by `info["action_mask"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpipe.errors import EnvironmentMismatchError
from rlpipe.policies.interface import ACTION_MASK
from rlpipe.snapshot.state import Array


def allowed_now(env: Any, info: Mapping[str, Any]) -> Array | None:
    """What an environment allows at the next step: a row of flags, one for each choice; None where it does not say.

    Args:
        env: The environment; what it says by `action_masks()` counts before the info.
        info: Of the newest step, or of the reset.
    """
    says = getattr(env.unwrapped, "action_masks", None)
    value = info.get(ACTION_MASK) if says is None else says()
    return None if value is None else _row(value)


def _row(value: Any) -> Array:
    """Flags of one choice, or of several, each in an array of its own, behind each other."""
    parts = value if isinstance(value, (tuple, list)) else [value]
    return np.concatenate([np.asarray(part, np.bool_).reshape(-1) for part in parts])


def info_of(infos: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The mask among the infos of environments that are stepped together, as one of them gave it."""
    has = infos.get(f"_{ACTION_MASK}")
    return {ACTION_MASK: infos[ACTION_MASK][index]} if has is not None and has[index] else {}


def require_width(row: Array, width: int, env_id: str) -> Array:
    """The row, if it has a flag for each choice.

    Raises:
        EnvironmentMismatchError: It has more or fewer.
    """
    if len(row) == width:
        return row
    raise EnvironmentMismatchError(
        f"the mask of {env_id} is not for the choices of the policy",
        expected=f"{width} flags, those of each choice behind each other",
        found=f"{len(row)}",
        fix="let the environment give a flag for each choice",
    )
