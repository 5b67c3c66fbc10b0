"""What goes into a module and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

Batch: TypeAlias = Mapping[str, Any]
"""`obs`: prepared observations, a tensor (B, ...) or nested dicts of them; `state_in` for modules that keep a state."""

Outputs: TypeAlias = dict[str, torch.Tensor]
"""Named tensors (B, ...)."""

DECISIONS = ("logits", "mean", "q", "action")
"""Names of the outputs that decide; the inference of a module has one of them."""
