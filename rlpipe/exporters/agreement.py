"""How far the artifacts of one policy are from it and from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlpipe.exporters.compare import in_units
from rlpipe.exporters.signature import TensorSpec
from rlpipe.exporters.target import Arrays

POLICY = "policy"


def agreement(specs: Sequence[TensorSpec], truth: Arrays, answers: Mapping[str, Arrays]) -> dict[str, dict[str, float]]:
    """Name -> other name -> largest difference between their outputs; the policy itself is one of them.

    Args:
        specs: The outputs.
        truth: Output name -> the policy's answers to the golden vectors.
        answers: Target id -> its answers to them.
    """
    everyone = {POLICY: truth, **dict(sorted(answers.items()))}
    return {one: {other: _largest(specs, everyone[one], everyone[other]) for other in everyone} for one in everyone}


def _largest(specs: Sequence[TensorSpec], one: Arrays, other: Arrays) -> float:
    errors = [in_units(spec, one[spec.name], other[spec.name]) for spec in specs]
    return max(float(np.max(error, initial=0.0)) for error in errors)
