"""The statistics of EmpiricalNormalization as those of the stage `normalize`.

Source: rsl_rl/modules/normalizer.py, rsl_rl/networks/normalization.py: (x - _mean) / (_std + eps), eps 0.01 in every
version and kept in no file, nothing clipped. `_std` is what is used, `_var` only what it came from.
"""

from __future__ import annotations

import numpy as np

from rlpipe.errors import NormalizerError, listed
from rlpipe.importers.libraries.rsl_rl.checkpoint import Tensors
from rlpipe.importers.libraries.rsl_rl.networks import Entries, require_shape
from rlpipe.policies.stages import Normalize
from rlpipe.snapshot.state import Array

STAGE = Normalize("std_eps", 0.01, None)
_NAMES = ("_mean", "_std")
_USED = {*_NAMES, "_var", "count"}


def statistics_of(tensors: Tensors, inputs: int, subject: str) -> Entries | None:
    """Mean and deviation of each input, float64; None for a policy that takes observations as they are.

    Raises:
        ForeignFormatError: They are not those of this policy.
        NormalizerError: Something is missing, or they are not finite.
    """
    found = {name.removeprefix("norm."): array for name, array in tensors.items() if name.startswith("norm.")}
    if not found:
        return None
    if not set(_NAMES) <= found.keys() <= _USED:
        raise NormalizerError(
            f"{subject} has statistics of an unknown kind",
            expected=listed(_USED),
            found=listed(found),
            fix="take a checkpoint that the runner saved itself",
        )
    mean, std = (_row(found[name], inputs, f"{name} of {subject}") for name in _NAMES)
    if not np.all(np.isfinite(mean)) or not np.all(np.isfinite(std)) or np.any(std < 0):
        raise NormalizerError(
            f"statistics of {subject} cannot normalise",
            expected="finite means and deviations of at least 0",
            found=f"{int((~np.isfinite(mean)).sum() + (~np.isfinite(std)).sum() + (std < 0).sum())} others",
            fix="take an earlier checkpoint; the training went wrong",
        )
    return {"observation/normalize/mean": mean, "observation/normalize/std": std}


def _row(array: Array, inputs: int, subject: str) -> Array:
    row = array[0] if array.ndim == 2 and len(array) == 1 else array
    require_shape(row, (inputs,), subject)
    return row.astype(np.float64)


def are_same(tensors: Tensors, others: Tensors) -> bool:
    """Whether two networks see the same: both the same statistics, or both none."""
    return all(_same(tensors.get(f"norm.{name}"), others.get(f"norm.{name}")) for name in _NAMES)


def _same(one: Array | None, other: Array | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)
