"""The stages behind a module: how RLlib brings what its networks put out to the environment's actions.

Sources: ray/rllib/connectors/module_to_env (get_actions.py, normalize_and_clip_actions.py), unsquash_action() and
clip_action() in ray/rllib/utils/spaces/space_utils.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.policies.default_stages import OutputKind, default_action_stages, scores_of
from rlpipe.policies.part_stages import Parts
from rlpipe.policies.stages import Clip, Stage, Tanh
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Tuple, flat_items

Bounds: TypeAlias = Literal["normalize", "squash", "clip", "none"]
"""What brings actions to the bounds of the space: actions of -1..1 are spread over them, with a tanh before that or
without; or they are cut at them, or left alone."""

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def require_actions(space: Space, *, subject: str) -> Space:
    """The space as RLlib acts in it: it counts choices from 0, whatever `start` says.

    Raises:
        ForeignFormatError: RLlib's default networks do not act in it, or rlpipe does not.
    """
    if isinstance(space, Discrete):
        return replace(space, start=0)
    if isinstance(space, MultiDiscrete):
        return replace(space, start=np.zeros_like(space.nvec))
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype in _FLOATS:
        return space
    if isinstance(space, Dict):
        return Dict({key: require_actions(part, subject=f"{subject}/{key}") for key, part in space.spaces.items()})
    if isinstance(space, Tuple):
        parts = enumerate(space.spaces)
        return Tuple(tuple(require_actions(part, subject=f"{subject}/{index}") for index, part in parts))
    raise ForeignFormatError(
        f"{subject} acts in a space that cannot be imported yet",
        expected="Discrete, MultiDiscrete, a Box of floats with one axis, or a Dict or Tuple of these",
        found=space.describe(),
        fix="RLlib's default networks do not act in it either: build an RLModule and load the weights into it",
    )


def outputs_of(space: Space) -> int:
    """How many numbers decide on an action of a space."""
    return sum(map(scores_of, leaves_of(space))) if isinstance(space, (Dict, Tuple)) else scores_of(space)


def leaves_of(space: Space) -> list[Space]:
    """The parts of a Dict or Tuple of actions in flat order, which is RLlib's too; none of any other space."""
    return [leaf for _, leaf in flat_items(space, "action")] if isinstance(space, (Dict, Tuple)) else []


def action_stages(space: Space, output: OutputKind, bounds: Bounds) -> tuple[Stage, ...]:
    """The stages from what a module puts out to an action.

    A Gaussian's mean is what RLlib acts with where it does not explore. On the new stack SAC's too: the tanh of its
    samples is left out (TorchSquashedGaussian.to_deterministic() in
    ray/rllib/core/distribution/torch/torch_distribution.py; reported to ray as its issue 51544, and so in every version
    up to 2.60). On the old one it is not.
    """
    if isinstance(space, (Dict, Tuple)):
        return (_parts(space, bounds),)
    if not isinstance(space, Box):
        return default_action_stages(space, output)
    if bounds == "squash":
        return default_action_stages(space, "squashed")
    if bounds == "normalize" and np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return _without(default_action_stages(space, "squashed"), Tanh)
    stages = default_action_stages(space, "mean")
    return stages if bounds == "clip" else _without(stages, Clip)


def _parts(space: Dict | Tuple, bounds: Bounds) -> Parts:
    leaves = {name.partition(".")[2]: leaf for name, leaf in flat_items(space, "action")}
    kinds: dict[str, OutputKind] = {key: "mean" if isinstance(leaf, Box) else "logits" for key, leaf in leaves.items()}
    stages = {key: action_stages(leaf, kinds[key], bounds) for key, leaf in leaves.items()}
    return Parts(tuple(leaves), tuple(map(scores_of, leaves.values())), stages)


def _without(stages: tuple[Stage, ...], kind: type[Stage]) -> tuple[Stage, ...]:
    return tuple(stage for stage in stages if not isinstance(stage, kind))
