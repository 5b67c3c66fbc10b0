"""Bounds of actions that the trained weights never reach, and that no observation can therefore show.

A throw-away copy of the policy has its decisions spread around their median until they pass the bounds on both sides.
It is exported and compared like the policy itself: if the target loses a clip or a squash, it shows there.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.freeze import run
from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import Observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.signature import Array, Signature, TensorSpec
from rlpipe.exporters.target import Arrays

_NEAR = 1e-3
"""A squash only comes near its bounds: so near, as a share of their distance, counts as there."""

_BEYOND = 8.0
"""How far decisions are spread, in units of the larger bound and at least of 1."""

_MOST = 256


@dataclass(frozen=True, eq=False)
class Probe:
    """The copy.

    Attributes:
        graph: What is exported.
        truth: Its own answers.
        gain: By how much its decisions, and so their rounding, are enlarged.
    """

    graph: ExportGraph
    truth: Reference
    gain: float


class Spread(nn.Module):
    """Action stages that are given decisions moved away from their median.

    Args:
        action: The stages.
        centre: (k,) the median decision.
        gain: (k,) factors.
    """

    centre: torch.Tensor
    gain: torch.Tensor

    def __init__(self, action: nn.Module, centre: torch.Tensor, gain: torch.Tensor) -> None:
        super().__init__()
        self.stages = action
        self.register_buffer("centre", centre)
        self.register_buffer("gain", gain)

    def forward(self, decision: torch.Tensor, *more: Any) -> Any:
        """Decisions to actions."""
        moved = (decision.flatten(1) - self.centre) * self.gain
        return self.stages(moved.reshape(decision.shape), *more)


def saturated(graph: nn.Module, signature: Signature, truth: Reference) -> Probe | None:
    """A probe for the bounds of a policy's actions, or None if there are none or its own answers reach them.

    Args:
        graph: The policy's graph; its part `action` turns decisions into actions. It is copied.
        signature: What it takes and gives.
        truth: The policy's own answers.
    """
    actions = signature.of_kind("action")
    if all(_reached(spec, truth.actions[spec.name][truth.defined]) for spec in actions):
        return None
    chosen = _some(truth)
    bound = max(_largest(spec) for spec in actions)
    decisions = _decisions(graph, signature, chosen.arrays)
    centre = decisions.median(dim=0).values
    reach = (decisions - centre).abs().quantile(0.9, dim=0)
    gain = torch.where(reach > 0, _BEYOND * bound / reach.clamp(min=1e-6), torch.ones_like(reach))
    spread = copy.deepcopy(graph)
    spread.action = Spread(spread.action, centre.clone(), gain.clone())  # type: ignore[arg-type]
    driven = export_graph(spread, signature, chosen.arrays)

    def compute(arrays: Arrays) -> dict[str, Array]:
        outputs = run(driven.module, signature, arrays)
        return {spec.name: tensor.numpy() for spec, tensor in zip(signature.outputs, outputs, strict=True)}

    return Probe(driven, reference(compute, chosen), float(gain.max()))


def _decisions(graph: nn.Module, signature: Signature, arrays: Arrays) -> torch.Tensor:
    """What the graph gives to its action stages."""
    seen: list[torch.Tensor] = []
    hook = graph.action.register_forward_pre_hook(lambda _, given: seen.append(given[0]))  # type: ignore[union-attr]
    try:
        run(graph, signature, arrays)
    finally:
        hook.remove()
    return seen[0].flatten(1)


def _some(truth: Reference) -> Observations:
    """Observations where the policy gives a number, as one group."""
    rows = np.flatnonzero(truth.defined)[:_MOST]
    arrays = {name: array[rows] for name, array in truth.observations.arrays.items()}
    return Observations(arrays, {"samples": len(rows)}, truth.observations.signature)


def _reached(spec: TensorSpec, actions: Array) -> bool:
    """Whether the actions come to every finite bound of real numbers; whole numbers need no clip."""
    if actions.dtype.kind != "f":
        return True
    low, high = (_spread(bound, spec.shape) for bound in (spec.low, spec.high))
    span = np.where(np.isfinite(high - low), high - low, 1.0)
    below = ~np.isfinite(low) | (actions.min(axis=0) <= low + _NEAR * span)
    above = ~np.isfinite(high) | (actions.max(axis=0) >= high - _NEAR * span)
    return bool(np.all(below & above))


def _largest(spec: TensorSpec) -> float:
    bounds = np.concatenate([_spread(bound, spec.shape).reshape(-1) for bound in (spec.low, spec.high)])
    return float(np.max(np.abs(bounds[np.isfinite(bounds)]), initial=1.0))


def _spread(bound: Any, shape: tuple[int, ...]) -> Array:
    """(*shape) float64, NaN where there is no bound."""
    values = np.asarray(bound, dtype=np.float64)
    return values.reshape(shape) if isinstance(bound, tuple) else np.full(shape, values)
