"""A policy's own answers, to compare its artifacts with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rlpipe.errors import ExportError
from rlpipe.exporters.observations import Observations
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays

Compute: TypeAlias = Callable[[Arrays], Arrays]
"""The policy itself: observations by input name -> actions by output name."""

Scores: TypeAlias = Callable[[Arrays], Array]
"""Observations by input name -> (n, ...) what the policy's decisions are made from."""

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Reference:
    """What a policy answers.

    Attributes:
        observations: What it was asked.
        actions: Output name -> its answers, (n, *shape).
        defined: (n,) bool; False where it computes no number, so that no answer is right or wrong.
        compute: Asks it again.
    """

    observations: Observations
    actions: Arrays
    defined: Array
    compute: Compute


def reference(compute: Compute, observations: Observations, scores: Scores | None = None) -> Reference:
    """Ask a policy, 256 observations at a time.

    Args:
        compute: The policy.
        observations: What to ask.
        scores: What its decisions are made from; a choice is a number even where these are none.

    Raises:
        ExportError: It computes no number for most samples of its own observation space.
    """
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
    return Reference(observations, actions, defined, compute)


def _parts(observations: Observations) -> list[Arrays]:
    starts = range(0, len(observations), _AT_ONCE)
    return [{name: array[start : start + _AT_ONCE] for name, array in observations.arrays.items()} for start in starts]
