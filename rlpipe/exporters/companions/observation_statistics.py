"""What the observations of the verification looked like: what a deployment can compare its own with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpipe.exporters.target import Arrays

LARGEST = 64
"""Of larger observations, images for instance, only the mean and deviation of all elements together is kept."""


def describe(observations: Arrays) -> dict[str, Any]:
    """Input name -> count, mean, standard deviation and correlation, of observations met in an environment.

    Args:
        observations: Input name -> (n, *shape).

    Returns:
        Plain JSON; elements in C order. An element that never changes has correlation 0 with all others.
    """
    return {name: _described(array) for name, array in observations.items()}


def _described(array: Any) -> Mapping[str, Any]:
    flat = array.reshape(len(array), -1).astype(np.float64)
    head = {"count": len(flat)}
    if flat.shape[1] > LARGEST:
        return {**head, "mean": _rounded(flat.mean()), "std": _rounded(flat.std()), "of": "all elements"}
    deviation = flat.std(axis=0)
    normal = (flat - flat.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return {
        **head,
        "mean": _rounded(flat.mean(axis=0)),
        "std": _rounded(deviation),
        "low": _rounded(flat.min(axis=0)),
        "high": _rounded(flat.max(axis=0)),
        "correlation": _rounded(normal.T @ normal / len(flat)),
    }


def _rounded(values: Any) -> Any:
    """Six digits: what a sample of some hundred observations can say at most."""
    return np.vectorize(lambda value: float(f"{value:.6g}"), otypes=[float])(np.nan_to_num(values)).tolist()
