"""What a policy is given beside observations: memory, episode starts, masks and noise, for rows that prove something.

A mask that allows everything shows no mask, a memory of zeros shows no memory. Hence each kind has its own mix, the
same for every run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpipe.exporters.signature import Array, Signature, TensorSpec

STARTS = 0.25
"""Share of single steps that begin an episode."""

_SEED = 20_240_301
_SCALES = (0.1, 0.5, 1.0, 3.0)
_FORGOTTEN = 1e30
"""A memory that is put back may hold anything."""

_EXTREMES: Mapping[str, tuple[float, ...]] = {
    "normal": (-5.0, 0.0, 5.0),
    "uniform": (2.0**-24, 0.5, 1.0 - 2.0**-24),
}
_INITIAL, _DRAWN = 0, 1
_ALL, _ONE = 0, 1


def side_inputs(signature: Signature, n: int) -> dict[str, Array]:
    """Input name -> (n, ...) for every input that is no observation; the same for equal arguments.

    States: a quarter zeros, a quarter normal numbers of several scales; the rest is left as normal numbers for
    `reached` to fill; in some rows that begin an episode, 1e30. Masks: all allowed, one in each part, none at all in a
    few rows, the rest drawn. Noise: its distribution, and its extremes in a few rows.

    Args:
        signature: The policy's.
        n: Number of rows.
    """
    rng = np.random.default_rng(_SEED)
    starts = rng.random(n) < STARTS
    made: dict[str, Array] = {}
    for spec in signature.of_kind("state"):
        made[spec.name] = _states(spec, starts, rng)
    for spec in signature.of_kind("episode_start"):
        made[spec.name] = starts.astype(spec.dtype)
    for spec in signature.of_kind("action_mask"):
        made[spec.name] = masks(mask_parts(signature), n, rng)
    for spec in signature.of_kind("noise"):
        made[spec.name] = noise(spec, n, rng)
    return made


def reached(made: Mapping[str, Array], met: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs with half of the states replaced by some that the policy itself has come to.

    Args:
        made: Input name -> (n, ...).
        met: State name -> (m, ...) states of the policy's own steps, all of the same m steps.
    """
    filled = dict(made)
    n, m = (len(next(iter(arrays.values()))) for arrays in (made, met))
    rows = np.flatnonzero(np.arange(n) % 4 > _DRAWN)
    chosen = np.random.default_rng(_SEED + 1).integers(m, size=len(rows))
    for name, states in met.items():
        filled[name] = made[name].copy()
        filled[name][rows] = states[chosen]
    return filled


def mask_parts(signature: Signature) -> tuple[int, ...]:
    """Number of choices of each part of a mask, in order; one part where the actions do not say."""
    (mask,) = signature.of_kind("action_mask")
    width = int(np.prod(mask.shape))
    choices = [spec for spec in signature.of_kind("action") if np.dtype(spec.dtype).kind in "iu"]
    for taken in (choices, [spec for spec in choices if spec.dtype != "int8"]):
        sizes = tuple(size for spec in taken for size in _choices(spec))
        if sum(sizes) == width:
            return sizes
    return (width,)


def masks(parts: tuple[int, ...], n: int, rng: np.random.Generator) -> Array:
    """(n, sum(parts)) bool, True = allowed."""
    kinds = np.arange(n) % 4
    made = [_mask(size, kinds, rng) for size in parts]
    mask = np.concatenate(made, axis=1)
    mask[31::64] = False
    return mask


def noise(spec: TensorSpec, n: int, rng: np.random.Generator) -> Array:
    """(n, *shape) of the distribution; in every 16th row numbers from its ends."""
    size = (n, *spec.shape)
    values = rng.normal(size=size) if spec.distribution == "normal" else rng.uniform(2.0**-23, 1 - 2.0**-23, size=size)
    values[7::16] = rng.choice(_EXTREMES[spec.distribution or "uniform"], size=values[7::16].shape)
    return values.astype(spec.dtype)


def _mask(size: int, kinds: Array, rng: np.random.Generator) -> Array:
    one = np.arange(size) == rng.integers(size, size=(len(kinds), 1))
    drawn = rng.random((len(kinds), size)) < 0.5
    mask: Array = one | (drawn & (kinds != _ONE)[:, None]) | (kinds == _ALL)[:, None]
    return mask


def _choices(spec: TensorSpec) -> tuple[int, ...]:
    """How many values each element of an action can take."""
    count = int(np.prod(spec.shape))
    low, high = (np.broadcast_to(np.asarray(bound, np.float64).reshape(-1), count) for bound in (spec.low, spec.high))
    return tuple((high - low + 1).astype(int)) if np.isfinite(high - low).all() else ()


def _states(spec: TensorSpec, starts: Array, rng: np.random.Generator) -> Array:
    dtype, n = np.dtype(spec.dtype), len(starts)
    size = (n, *spec.shape)
    if dtype.kind == "f":
        scales = rng.choice(_SCALES, size=(n, *(1 for _ in spec.shape)))
        values = rng.normal(size=size) * scales
        values[np.flatnonzero(starts)[::4]] = _FORGOTTEN if dtype.itemsize > 2 else 1.0
    else:
        values = rng.integers(0, 2 if dtype.kind == "b" else 100, size=size)
    values[(np.arange(n) % 4 == _INITIAL) & ~starts] = 0
    return values.astype(dtype)
