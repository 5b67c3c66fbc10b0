"""Steps in a row, the policy's own memory fed back: what single steps cannot show.

A memory that is not carried, not put back or put into the wrong place acts rightly on the first step. Hence 200 steps
of 8 rows, each of which begins new episodes at its own times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rlpipe.exporters.observations import Observations
from rlpipe.exporters.side_inputs import mask_parts, masks, noise
from rlpipe.exporters.signature import Array, Signature, TensorSpec
from rlpipe.exporters.target import Arrays

STEPS, ROWS = 200, 8
"""Fewer rows and steps where they would not fit into memory well."""

_SEED = 20_240_302
_STARTS = 1 / 40
_EARLY = 9
"""The first step at which a row begins a second episode; each further row does so a step later."""

_FEWEST_STEPS, _FEWEST_ROWS = 40, 2
_MEMORY = 64 << 20

Compute: TypeAlias = Callable[[Arrays], Arrays]


@dataclass(frozen=True, eq=False)
class Episodes:
    """A run of a policy over several rows at once.

    Attributes:
        inputs: Input name -> (steps, rows, *shape), without states: those are what the step before gave.
        outputs: Output name -> (steps, rows, *shape), the policy's own, next states too.
        signature: The policy's.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    signature: Signature

    @property
    def starts(self) -> Array:
        """(steps, rows) bool: where an episode begins."""
        return self.inputs[self.signature.of_kind("episode_start")[0].name]

    @property
    def defined(self) -> Array:
        """(steps, rows) bool: where the policy computes numbers."""
        found = [np.isfinite(array).reshape(*array.shape[:2], -1).all(axis=2) for array in self.outputs.values()]
        return np.asarray(np.all(found, axis=0))


def episodes(compute: Compute, single: Observations) -> Episodes:
    """Let a policy with memory run.

    Args:
        compute: The policy.
        single: Single steps, of which the observations are drawn.
    """
    inputs = drawn(single)
    return Episodes(inputs, play(compute, single.signature, inputs), single.signature)


def drawn(single: Observations) -> dict[str, Array]:
    """Input name -> (steps, rows, *shape) for all inputs but states; the same for equal arguments.

    Every row begins with an episode, begins a second one early, and further ones at random. Every other row meets only
    what an environment could give: among numbers of all sizes a memory does not last.
    """
    rng = np.random.default_rng(_SEED)
    signature, rows = single.signature, single.arrays
    steps, count = _affordable(signature)
    usual = single.usual
    chosen = rng.integers(len(single), size=(steps, count))
    chosen[:, ::2] = usual[chosen[:, ::2] % len(usual)]
    starts = rng.random((steps, count)) < _STARTS
    starts[0] = True
    starts[_EARLY + np.arange(count), np.arange(count)] = True
    made = {spec.name: rows[spec.name][chosen] for spec in signature.of_kind("observation")}
    for spec in signature.of_kind("episode_start"):
        made[spec.name] = starts.astype(spec.dtype)
    for spec in signature.of_kind("action_mask"):
        made[spec.name] = _stepwise(masks(mask_parts(signature), steps * count, rng), steps)
    for spec in signature.of_kind("noise"):
        made[spec.name] = _stepwise(noise(spec, steps * count, rng), steps)
    return {spec.name: made[spec.name] for spec in signature.inputs if spec.name in made}


def play(compute: Compute, signature: Signature, inputs: Arrays) -> dict[str, Array]:
    """Output name -> (steps, rows, *shape) of a policy whose memory is fed back, from zeros on."""
    taken = list(stepwise(compute, signature, inputs))
    return {spec.name: np.stack([outputs[spec.name] for outputs in taken]) for spec in signature.outputs}


def stepwise(compute: Compute, signature: Signature, inputs: Arrays) -> Iterator[Arrays]:
    """The outputs step by step; see `play`."""
    steps, count = next(iter(inputs.values())).shape[:2]
    state = initial(signature.of_kind("state"), count)
    for step in range(steps):
        feeds = {name: array[step] for name, array in inputs.items()} | state
        outputs = compute({spec.name: feeds[spec.name] for spec in signature.inputs})
        yield outputs
        state = {name: outputs[after] for name, after in signature.memory.items()}


def initial(states: Sequence[TensorSpec], rows: int) -> dict[str, Array]:
    """What goes into the states of a first step, which says that an episode begins: zeros."""
    return {spec.name: np.zeros((rows, *spec.shape), spec.dtype) for spec in states}


def flat(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """(steps, rows, ...) as (steps * rows, ...)."""
    return {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}


def _stepwise(array: Array, steps: int) -> Array:
    return array.reshape(steps, -1, *array.shape[1:])


def _affordable(signature: Signature) -> tuple[int, int]:
    each = sum(
        int(np.prod(spec.shape)) * np.dtype(spec.dtype).itemsize for spec in (*signature.inputs, *signature.outputs)
    )
    count = min(ROWS, max(_FEWEST_ROWS, _MEMORY // (each * STEPS)))
    return min(STEPS, max(_FEWEST_STEPS, _MEMORY // (each * count))), count
