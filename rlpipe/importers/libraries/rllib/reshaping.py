"""The stages before a module that need no statistics: rows of numbers, images, and the last ones of an episode.

Sources: ray/rllib/connectors/common (flatten_observations.py, frame_stacking.py), ray/rllib/utils/numpy.py.
"""

from __future__ import annotations

import numpy as np

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.connectors import FLATTEN, STACK
from rlpipe.importers.libraries.rllib.constructors import Constructor
from rlpipe.policies.dict_stages import keyed
from rlpipe.policies.stages import Cast, Concat, Flatten, FrameStack, Layout, OneHot, PerKey, Stage
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Stages = tuple[Stage, ...]
_FLOAT32 = np.dtype(np.float32)


def module_stages(space: Space) -> Stages:
    """From a Box of any dtype to one row of float32, or to an image with its channels first.

    Raises:
        ForeignFormatError: The space is neither: RLlib's default modules take nothing else.
    """
    if isinstance(space, Box) and len(space.shape) in (1, 3):
        cast: Stages = () if space.dtype == _FLOAT32 else (Cast("float32"),)
        return cast if len(space.shape) == 1 else (*cast, Layout((2, 0, 1)))
    raise ForeignFormatError(
        "a module takes observations that cannot be imported",
        expected="a Box of one axis, or an image of three with the channels last",
        found=space.describe(),
        fix=f"train with the connector {FLATTEN}, or build an RLModule and load the weights into it",
    )


def reshaping(piece: Constructor, space: Space) -> Stages:
    """The stages of a piece of the connectors; none of one that needs statistics.

    Raises:
        ForeignFormatError: It does something that cannot be imported.
    """
    if piece.class_name == FLATTEN:
        return _flattened(piece, space)
    return _stacked(piece, space) if piece.class_name == STACK else ()


def _stacked(piece: Constructor, space: Space) -> Stages:
    """The last observations of an episode along the last of three axes, zeros before it began."""
    count = piece.kwargs.get("num_frames", 1)
    if not isinstance(count, int) or count < 1 or not isinstance(space, Box) or len(space.shape) != 3:
        raise ForeignFormatError(
            f"{STACK} stacks observations in a way that cannot be imported",
            expected="images (height, width, 1), a whole number of them",
            found=f"num_frames={count}, {space.describe()}",
        )
    return (FrameStack(count, "zeros", 2),) if count > 1 else ()


def _flattened(piece: Constructor, space: Space) -> Stages:
    """One row of float32: choices as one-hot, parts of a Dict in the order of their keys."""
    unknown = {name: piece.kwargs.get(name) for name in ("keys_to_remove", "agent_ids") if piece.kwargs.get(name)}
    if unknown:
        raise ForeignFormatError(
            f"{FLATTEN} leaves out parts of observations, which cannot be imported yet",
            expected="no keys_to_remove and no agent_ids",
            found=", ".join(f"{name}={value}" for name, value in unknown.items()),
        )
    return flat_stages(space)


def flat_stages(space: Space) -> Stages:
    """See `_flattened`: flatten_inputs_to_1d_tensor() in ray/rllib/utils/numpy.py.

    Raises:
        ForeignFormatError: A part that has no such form, such as Text.
    """
    if isinstance(space, Box | MultiBinary):
        cast = () if space.dtype == _FLOAT32 else (Cast("float32"),)
        return (*cast, *(() if len(space.shape) == 1 else (Flatten(),)))
    if isinstance(space, Discrete):
        return (OneHot((space.n,), (space.start,)),)
    if isinstance(space, MultiDiscrete):
        counts, starts = (tuple(numbers.reshape(-1).tolist()) for numbers in (space.nvec, space.start))
        return (OneHot(counts, starts),)
    if isinstance(space, Dict | Tuple):
        parts = keyed(space)
        return (PerKey({key: flat_stages(part) for key, part in parts.items()}), Concat(tuple(parts)))
    raise ForeignFormatError(f"{FLATTEN} took a part that cannot be imported", expected="numbers", found=str(space))
