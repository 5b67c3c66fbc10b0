"""Observations that tell a right artifact from one that is almost right.

One sample is no check: a zero does not see swapped features, small numbers never reach a clip, huge ones drown an
epsilon. Hence a fixed mix of groups, the same for every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlpipe.exporters.side_inputs import side_inputs
from rlpipe.exporters.signature import OBSERVATION, Array, Signature, observation_arrays
from rlpipe.snapshot.spaces import Leaf, Space, flat_batch, flat_items

SEED = 20_240_229
SAMPLES, SCALES, CORNERS, RECORDED, STATISTICS = 160, 256, 96, 256, 128
"""At most so many observations a group."""

_UNUSUAL = ("scales", "corners")
_SCALE_RANGE = (-3.0, 3.0)
_FAR = 1e6
_MEMORY = 64 << 20

Statistics: TypeAlias = Mapping[str, tuple[Array, Array]]
"""Input name -> mean and standard deviation, each of the input's shape."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Single steps for one policy, group after group.

    Attributes:
        arrays: Input name -> (n, *shape) in the input's dtype, in the order of the signature.
        groups: Group name -> number of observations, in order.
        signature: The policy's.
    """

    arrays: Mapping[str, Array]
    groups: Mapping[str, int]
    signature: Signature

    def __len__(self) -> int:
        return sum(self.groups.values())

    @property
    def usual(self) -> Array:
        """Indices of those that an environment could give."""
        names = np.repeat(list(self.groups), list(self.groups.values()))
        return np.flatnonzero(~np.isin(names, _UNUSUAL))


def observations(
    space: Space, signature: Signature, *, recorded: Any = None, statistics: Statistics | None = None
) -> Observations:
    """A mix of observations for an observation space; the same for equal arguments.

    The groups: `samples` of the space, `scales` (normal numbers times log-uniform scales from 1e-3 to 1e3, also beyond
    the bounds, since environments leave them), `corners` of the bounds and far outside of them, `statistics` around the
    mean that the policy has seen in training, and `recorded` ones of the caller. Memory, episode starts, masks and
    noise are drawn beside them, see `side_inputs`.

    Args:
        space: The environment's observation space.
        signature: The policy's signature.
        recorded: A batch of observations met in the environment, or None.
        statistics: The running statistics of the policy's normaliser, or None.

    Raises:
        ObservationError: The recorded observations do not fit the space.
    """
    rng = np.random.default_rng(SEED)
    leaves = flat_items(space, OBSERVATION)
    share = _affordable_share(leaves)
    samples, scales, corners, around, most = (
        max(2, int(count * share)) for count in (SAMPLES, SCALES, CORNERS, STATISTICS, RECORDED)
    )
    groups = {
        "samples": flat_batch(space, space.sample(samples, rng), OBSERVATION),
        "scales": {name: _scales(leaf, scales, rng) for name, leaf in leaves},
        "corners": {name: _corners(leaf, corners, rng) for name, leaf in leaves},
    }
    if statistics:
        groups["statistics"] = {name: _around(leaf, around, rng, statistics.get(name)) for name, leaf in leaves}
    if recorded is not None:
        given = observation_arrays(signature, space, recorded)
        groups["recorded"] = {name: _spread(array, most) for name, array in given.items()}
    counts = {group: len(next(iter(found.values()))) for group, found in groups.items()}
    arrays = {name: np.concatenate([group[name] for group in groups.values()]) for name, _ in leaves}
    arrays.update(side_inputs(signature, sum(counts.values())))
    return Observations({spec.name: arrays[spec.name] for spec in signature.inputs}, counts, signature)


def _affordable_share(leaves: list[tuple[str, Leaf]]) -> float:
    """1, or less where observations are so large that all of them would not fit into memory well."""
    each = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for _, leaf in leaves)
    return min(1.0, _MEMORY / max(1, each * (SAMPLES + SCALES + CORNERS)))


def _scales(leaf: Leaf, n: int, rng: np.random.Generator) -> Array:
    """Half with one scale for the whole observation, half with one for each element; the first is all 0."""
    if leaf.dtype.kind != "f":
        return leaf.sample(n, rng)
    size = (n, *leaf.shape)
    one = np.broadcast_to(rng.uniform(*_SCALE_RANGE, (n, *(1 for _ in leaf.shape))), size)
    each = rng.uniform(*_SCALE_RANGE, size)
    choose = (np.arange(n) % 2 == 0).reshape(-1, *(1 for _ in leaf.shape))
    values = rng.normal(size=size) * 10.0 ** np.where(choose, one, each)
    values[0] = 0
    return values.astype(leaf.dtype)


def _corners(leaf: Leaf, n: int, rng: np.random.Generator) -> Array:
    """The bounds, and in every fourth row of real numbers what lies far outside of them."""
    values = leaf.corners(n, rng)
    if leaf.dtype.kind == "f":
        far = min(_FAR, float(np.finfo(leaf.dtype).max))
        values[3::4] = np.where(rng.random(values[3::4].shape) < 0.5, -far, far)
    return values


def _around(leaf: Leaf, n: int, rng: np.random.Generator, statistics: tuple[Array, Array] | None) -> Array:
    """Within and well beyond three standard deviations; samples where there are no statistics."""
    if statistics is None or leaf.dtype.kind != "f":
        return leaf.sample(n, rng)
    mean, deviation = statistics
    spread = rng.choice([0.1, 1.0, 3.0, 10.0], size=(n, *(1 for _ in leaf.shape)))
    return np.asarray(mean + deviation * spread * rng.normal(size=(n, *leaf.shape))).astype(leaf.dtype)


def _spread(array: Array, most: int) -> Array:
    """At most so many rows, evenly taken."""
    return array[np.unique(np.linspace(0, len(array) - 1, min(most, len(array))).astype(int))]
