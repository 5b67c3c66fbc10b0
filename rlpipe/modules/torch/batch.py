"""What goes into a module and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Batch: TypeAlias = Mapping[str, Any]
"""`obs`: prepared observations, a tensor (B, ...) or nested dicts of them; `state_in` for modules that keep a state."""

Outputs: TypeAlias = dict[str, Any]
"""Named tensors (B, ...); `state_out`, a dict of them, for modules that keep a state."""

STATE_IN, STATE_OUT, STARTS = "state_in", "state_out", "episode_start"
"""Names in batches and outputs of what a module remembers, and of where in a sequence episodes begin."""

DECISIONS = ("logits", "mean", "q", "action")
"""Names of the outputs that decide; the inference of a module has one of them."""
