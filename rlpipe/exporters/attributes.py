"""Plain Python attributes of a policy's modules: a counter among them is a memory that no artifact has."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.errors import UnsupportedModuleError, listed

_TORCHS_OWN = frozenset(vars(nn.Module()))
_SCALARS = (bool, int, float, complex, str, bytes)
_DEEPEST = 4
"""Containers may hold themselves."""


@dataclass(frozen=True, slots=True)
class Plain:
    """What an attribute held at one time.

    Attributes:
        text: Equal for equal values.
        is_single: Whether it is one value, and no container that may fill up as a cache does.
    """

    text: str
    is_single: bool


def plain_attributes(module: nn.Module) -> dict[str, Plain]:
    """Dotted name -> what it holds now, of every attribute of every part that torch itself has not put there."""
    return {
        f"{path}.{name}" if path else name: Plain(_text(value), isinstance(value, (*_SCALARS, np.generic, np.ndarray)))
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if name not in _TORCHS_OWN and not isinstance(value, torch.Tensor)
    }


def require_attributes_unchanged(
    fresh: Mapping[str, Plain], settled: Mapping[str, Plain], after: Mapping[str, Plain]
) -> None:
    """Check that acting changes no attribute; what is made once, and containers that fill up once, may be caches.

    Args:
        fresh: Before the policy acted at all.
        settled: After it acted.
        after: After it acted on the same observations once more.

    Raises:
        UnsupportedModuleError: Some change.
    """
    changed = [
        name
        for name, held in after.items()
        if held != settled.get(name) or (name in fresh and fresh[name].is_single and held != fresh[name])
    ]
    if changed:
        raise UnsupportedModuleError(
            "the policy changes its own attributes when it acts",
            expected="a forward that depends on its inputs only",
            found=listed(changed),
            fix="update them only under `if self.training:`, or carry them as memory: get_initial_state()",
        )


def _text(value: Any, depth: int = 0) -> str:
    """Equal for equal plain values; of anything else its type alone."""
    if value is None or isinstance(value, (*_SCALARS, np.generic)):
        return repr(value)
    if isinstance(value, (torch.Tensor, np.ndarray)) and not isinstance(value, nn.Parameter):
        return f"{value.dtype} {value.tolist()}"
    return f"{type(value).__name__}{_texts(value, depth + 1) if depth < _DEEPEST else ''}"


def _texts(value: Any, depth: int) -> list[str]:
    """One for each element of a container."""
    if isinstance(value, Mapping):
        return [f"{_text(key, depth)}: {_text(one, depth)}" for key, one in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(_text(one, depth) for one in value)
    return [_text(one, depth) for one in value] if isinstance(value, list | tuple | deque) else []
