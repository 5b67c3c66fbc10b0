"""The stages as torch modules: plain tensor maths with constants, free of devices and of branches on data.

Constants are buffers, so that they follow the policy to its device, and are not persistent: they are made from the spec
and from the float64 statistics, never saved. Here are those that move elements; the others are in `observation_modules`
and `action_modules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn


class StageModule(nn.Module):
    """A step that keeps its constants as buffers."""

    def constant(self, name: str, value: Any) -> None:
        """Keep an array under a name; not part of any state dict."""
        self.register_buffer(name, torch.tensor(np.ascontiguousarray(value)).reshape(np.shape(value)), persistent=False)


class Cast(StageModule):
    """Other dtype, same numbers."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype: torch.dtype = getattr(torch, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to the dtype."""
        return x.to(self.dtype)


class Flatten(StageModule):
    """All axes but the first on one axis."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, n)."""
        return x.unsqueeze(-1).flatten(1)


class Reshape(StageModule):
    """Another shape behind the batch axis."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) to (B, *shape)."""
        return x.reshape(x.shape[0], *self.shape)


class Layout(StageModule):
    """Axes behind the batch axis in another order."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, ...) with axis i + 1 taken from axis `axes[i]` + 1."""
        return x.permute(0, *(axis + 1 for axis in self.axes))


class Pick(StageModule):
    """Some parts of several."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys = keys

    def forward(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """A dict of the parts that are kept."""
        return {key: parts[key] for key in self.keys}


class Concat(StageModule):
    """Parts behind each other in one row."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys = keys

    def forward(self, parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Parts (B, ...) to (B, n)."""
        return torch.cat([parts[key].unsqueeze(-1).flatten(1) for key in self.keys], dim=1)
