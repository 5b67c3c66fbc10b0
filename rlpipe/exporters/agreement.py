"""How far the artifacts of one policy are from it and from each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpipe.exporters.target import Arrays

POLICY = "policy"


def agreement(truth: Arrays, answers: Mapping[str, Arrays]) -> dict[str, dict[str, float]]:
    """Name -> other name -> largest difference between their actions; the policy itself is one of them.

    Args:
        truth: Output name -> the policy's answers to the golden vectors.
        answers: Target id -> its answers to them.
    """
    everyone = {POLICY: truth, **dict(sorted(answers.items()))}
    return {one: {other: _largest(everyone[one], everyone[other]) for other in everyone} for one in everyone}


def _largest(one: Arrays, other: Arrays) -> float:
    errors = [np.abs(one[name].astype(np.float64) - other[name].astype(np.float64)) for name in one]
    return max(float(np.max(error, initial=0.0)) for error in errors)
