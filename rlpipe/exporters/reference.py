"""A policy's own answers, to compare its artifacts with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from rlpipe.errors import ExportError
from rlpipe.exporters.observations import Observations
from rlpipe.exporters.sequences import Episodes, episodes, flat
from rlpipe.exporters.side_inputs import reached
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays

Compute: TypeAlias = Callable[[Arrays], Arrays]
"""The policy itself: inputs by name -> outputs by name, one step."""

Scores: TypeAlias = Callable[[Arrays], Array]
"""Inputs by name -> (n, ...) what the policy's decisions are made from."""

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Reference:
    """What a policy answers.

    Attributes:
        observations: What it was asked.
        actions: Output name -> its answers, (n, *shape).
        defined: (n,) bool; False where it computes no number, so that no answer is right or wrong.
        compute: Asks it again.
        episodes: What it does in many steps in a row; None if it keeps no memory.
    """

    observations: Observations
    actions: Arrays
    defined: Array
    compute: Compute
    episodes: Episodes | None = None


def reference(compute: Compute, observations: Observations, scores: Scores | None = None) -> Reference:
    """Ask a policy, 256 observations at a time; one with memory acts for many steps first, for states to ask about.

    Args:
        compute: The policy.
        observations: What to ask.
        scores: What its decisions are made from; a choice is a number even where these are none.

    Raises:
        ExportError: It computes no number for most samples of its own observation space.
    """
    run = _episodes(compute, observations)
    observations = _with_states(observations, run)
    parts = list(_parts(observations))
    answers = [compute(part) for part in parts]
    actions = {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}
    found = [*actions.values(), *([np.concatenate([scores(part) for part in parts])] if scores else [])]
    defined = np.all([np.isfinite(array.reshape(len(array), -1)).all(axis=1) for array in found], axis=0)
    samples = observations.groups["samples"]
    without = samples - int(defined[:samples].sum())
    if 2 * without > samples:
        raise ExportError(
            f"the policy computes no number for {without} of {samples} samples of its observation space",
            expected="finite scores and actions",
            found="NaN or infinity",
            fix="look for NaN in the weights and statistics of its source",
        )
    return Reference(observations, actions, defined, compute, run)


def _episodes(compute: Compute, observations: Observations) -> Episodes | None:
    return episodes(compute, observations) if observations.signature.memory else None


def _with_states(observations: Observations, run: Episodes | None) -> Observations:
    """Single steps with states that the policy comes to."""
    if run is None or not run.defined.any():
        return observations
    good = run.defined.reshape(-1)
    outputs = flat(run.outputs)
    met = {name: outputs[after][good] for name, after in run.signature.memory.items()}
    return replace(observations, arrays=reached(observations.arrays, met))


def _parts(observations: Observations) -> list[Arrays]:
    starts = range(0, len(observations), _AT_ONCE)
    return [{name: array[start : start + _AT_ONCE] for name, array in observations.arrays.items()} for start in starts]
