"""Making arrays of different components one again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch

from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import object_at
from rlpipe.errors import TieError


@runtime_checkable
class HoldsTensors(Protocol):
    """A component whose arrays are tensors that can be shared."""

    def own_tensor(self, key: str) -> torch.Tensor:
        """The parameter or buffer of an array key, itself and not a copy."""

    def share_tensor(self, key: str, tensor: torch.Tensor) -> None:
        """Use this parameter or buffer at an array key from now on."""


def tie(root: Restorable, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Let the arrays of each tie be one tensor, the first one.

    Args:
        root: The component that the paths count from.
        ties: For each tie (component path, array key) pairs.

    Raises:
        TieError: A component holds no tensors.
    """
    for (path, key), *others in ties:
        tensor = _holder(root, path).own_tensor(key)
        for other_path, other_key in others:
            _holder(root, other_path).share_tensor(other_key, tensor)


def _holder(root: Restorable, path: str) -> HoldsTensors:
    found = object_at(root, path)
    if isinstance(found, HoldsTensors):
        return found
    raise TieError(f"{path or 'the root'} holds no tensors", expected="an RL module", found=type(found).__qualname__)
