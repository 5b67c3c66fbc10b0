"""What goes into an artifact and what comes out: flat named tensors, batch first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from rlpipe.errors import ArtifactError, ObservationError, SpaceError, UnsupportedModuleError
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.interface import (
    ACTION,
    ACTION_MASK,
    EPISODE_START,
    FEATURES,
    NEXT,
    NOISE,
    OBSERVATION,
    STATE,
    Distribution,
    Port,
    input_ports,
    output_ports,
)
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.spaces import Box, Leaf, Space, flat_batch, flat_items
from rlpipe.snapshot.spec import Json

__all__ = [
    "ACTION",
    "ACTION_MASK",
    "EPISODE_START",
    "FEATURES",
    "NEXT",
    "NOISE",
    "OBSERVATION",
    "STATE",
    "Array",
    "Bound",
    "Kind",
    "Signature",
    "TensorSpec",
    "observation_arrays",
    "policy_signature",
    "signature_of",
    "with_features",
]

Kind: TypeAlias = Literal[
    "observation", "state", "episode_start", "action_mask", "noise", "action", "next_state", "extra"
]
"""What a tensor is for.

Inputs, in this order: observations; the memory that the policy carries through an episode, `state.<i>`; whether a row
begins an episode, which puts its memory back to the beginning whatever `state.<i>` holds (bool, one for each row);
which choices are allowed (bool, one for each choice of all parts); what a sampled action is drawn with. Outputs, in
this order: actions; `state.<i>.next`; what else was asked for, such as `logits`.
"""

Array: TypeAlias = "np.ndarray[Any, Any]"
Bound: TypeAlias = float | tuple[float | None, ...] | None
"""One number for all elements, or one for each in C order with None where there is no bound; None: no bound at all."""

_KINDS: MappingProxyType[str, Kind] = MappingProxyType(
    {
        OBSERVATION: "observation",
        STATE: "state",
        EPISODE_START: "episode_start",
        ACTION_MASK: "action_mask",
        NOISE: "noise",
        ACTION: "action",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: Such as `obs`, `obs.camera`, `action`, `action.0`.
        dtype: A numpy dtype name, the environment's own.
        shape: Shape of one observation or action, without the batch.
        low: Where the space bounds it below.
        high: Where the space bounds it above.
        distribution: Of noise: `normal` (mean 0, deviation 1) or `uniform` (between 0 and 1); else "".
        memory: What the module calls a state, such as `actor/h`; "" for that of a stage, and for everything else.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: Bound = None
    high: Bound = None
    distribution: Distribution = ""
    memory: str = ""

    @property
    def kind(self) -> Kind:
        """What it is for; the name says it."""
        head = self.name.partition(".")[0]
        return "next_state" if head == STATE and self.name.endswith(NEXT) else _KINDS.get(head, "extra")

    def to_json(self) -> dict[str, Json]:
        """Plain JSON; the batch is the first dimension of the shape."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": ["batch", *self.shape],
            "low": _bound_json(self.low),
            "high": _bound_json(self.high),
            "kind": self.kind,
            **({"distribution": self.distribution} if self.distribution else {}),
            **({"memory": self.memory} if self.memory else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> TensorSpec:
        """The inverse of `to_json`."""
        shape = tuple(int(size) for size in value["shape"][1:])
        low, high = (tuple(bound) if isinstance(bound, list) else bound for bound in (value["low"], value["high"]))
        return cls(
            name=str(value["name"]),
            dtype=str(value["dtype"]),
            shape=shape,
            low=low,
            high=high,
            distribution=value.get("distribution", ""),
            memory=value.get("memory", ""),
        )

    def largest(self) -> Array:
        """(*shape) float64: the largest magnitude within the bounds, inf where there is none."""
        low, high = _spread(self.low, self.shape), _spread(self.high, self.shape)
        return np.maximum(np.abs(low), np.abs(high))

    def describe(self) -> str:
        """Such as "obs: float32 [batch, 4]"."""
        return f"{self.name}: {self.dtype} [{', '.join(map(str, ('batch', *self.shape)))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Inputs and outputs in order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def of_kind(self, *kinds: Kind) -> tuple[TensorSpec, ...]:
        """The inputs and outputs of these kinds, in order."""
        return tuple(spec for spec in (*self.inputs, *self.outputs) if spec.kind in kinds)

    @property
    def memory(self) -> dict[str, str]:
        """Input `state.<i>` -> output `state.<i>.next`; {} for a policy that keeps no memory."""
        return {spec.name: f"{spec.name}{NEXT}" for spec in self.of_kind("state")}

    def to_json(self) -> dict[str, Json]:
        """Plain JSON."""
        return {
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
        }

    @classmethod
    def from_json(cls, value: Json) -> Signature:
        """The inverse of `to_json`.

        Raises:
            ArtifactError: Something else than the JSON of a signature.
        """
        try:
            sides = [tuple(TensorSpec.from_json(spec) for spec in value[side]) for side in ("inputs", "outputs")]
        except (KeyError, TypeError, ValueError):
            raise ArtifactError("this is no signature", expected="inputs and outputs", found=repr(value)[:80]) from None
        return cls(inputs=sides[0], outputs=sides[1])


def policy_signature(spec: PolicySpec, options: GraphOptions) -> Signature:
    """The signature of one step of a policy; no torch is needed.

    Of a component the features are left out, whose length its module alone knows; see `with_features`.

    Raises:
        UnsupportedModuleError: A space without numbers (Text), names that collide, or options that such a policy cannot
            have.
    """
    try:
        sides = [tuple(map(_of_port, ports(spec, options))) for ports in (input_ports, output_ports)]
    except SpaceError as error:
        raise UnsupportedModuleError(error.subject, expected=error.expected, found=error.found) from error
    return Signature(inputs=sides[0], outputs=sides[1])


def with_features(signature: Signature, shape: tuple[int, ...], dtype: str) -> Signature:
    """The signature of a component whose features are known."""
    features = TensorSpec(name=FEATURES, dtype=dtype, shape=shape)
    return Signature(inputs=signature.inputs, outputs=(features, *signature.outputs))


def _of_port(port: Port) -> TensorSpec:
    if port.leaf is not None:
        return _tensor(port.name, port.leaf)
    return TensorSpec(
        name=port.name, dtype=port.dtype, shape=port.shape, distribution=port.distribution, memory=port.memory
    )


def signature_of(observation_space: Space, action_space: Space) -> Signature:
    """The signature of a policy between two spaces of an environment.

    Names are `obs` or `obs.<key>` sorted at every level, and `action` or `action.<key or index>`.

    Raises:
        UnsupportedModuleError: A space without numbers (Text), or keys that give two tensors one name.
    """
    try:
        inputs = tuple(_tensor(*item) for item in flat_items(observation_space, OBSERVATION))
        outputs = tuple(_tensor(*item) for item in flat_items(action_space, ACTION))
    except SpaceError as error:
        raise UnsupportedModuleError(error.subject, expected=error.expected, found=error.found) from error
    return Signature(inputs=inputs, outputs=outputs)


def observation_arrays(signature: Signature, space: Space, batch: Any) -> dict[str, Array]:
    """The arrays of a batch of observations by input name, after a strict check.

    Args:
        signature: What the artifact takes.
        space: The environment's observation space.
        batch: An array (n, *shape), or a dict or tuple of them as the space has it.

    Raises:
        ObservationError: Keys, dtype, rank, shape or batch sizes are others, or NaN. Nothing is cast.
    """
    try:
        arrays = flat_batch(space, batch, OBSERVATION)
    except SpaceError as error:
        raise ObservationError(error.subject, expected=error.expected, found=error.found) from error
    taken = signature.of_kind("observation")
    found = [text for spec in taken if (text := _misfit(spec, arrays[spec.name]))]
    sizes = {name: len(array) for name, array in arrays.items() if getattr(array, "ndim", 0)}
    if not found and len(set(sizes.values())) > 1:
        found = [f"{name} has a batch of {size}" for name, size in sizes.items()]
    if found:
        raise ObservationError(
            "these observations do not fit the artifact",
            expected="; ".join(spec.describe() for spec in signature.of_kind("observation")),
            found="; ".join(found),
            fix="pass numpy arrays of that dtype, batch first: obs.astype(np.float32)[None] for one observation",
        )
    return arrays


def _misfit(spec: TensorSpec, array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return f"{spec.name} is no numpy array but {type(array).__name__}"
    if array.dtype == np.dtype(spec.dtype) and array.shape[1:] == spec.shape and array.ndim == len(spec.shape) + 1:
        return f"{spec.name}: NaN" if array.dtype.kind == "f" and np.isnan(array).any() else ""
    return f"{spec.name}: {array.dtype} {list(array.shape)}"


def _tensor(name: str, leaf: Leaf) -> TensorSpec:
    if leaf.dtype.kind not in "biuf":
        raise UnsupportedModuleError(
            f"{name} holds no numbers",
            expected="numbers or booleans",
            found=leaf.describe(),
            fix="encode it as numbers in the environment",
        )
    low, high = leaf.corners(2, np.random.default_rng(0)).astype(np.float64)
    if isinstance(leaf, Box):
        low, high = np.where(leaf.open_below, np.nan, low), np.where(leaf.open_above, np.nan, high)
    return TensorSpec(name=name, dtype=leaf.dtype.name, shape=leaf.shape, low=_bound(low), high=_bound(high))


def _bound(values: Array) -> Bound:
    flat = [None if np.isnan(value) else float(value) for value in values.reshape(-1)]
    if len(set(flat)) <= 1:
        return flat[0] if flat else None
    return tuple(flat)


def _bound_json(bound: Bound) -> Json:
    return list(bound) if isinstance(bound, tuple) else bound


def _spread(bound: Bound, shape: tuple[int, ...]) -> Array:
    values = np.asarray(bound, dtype=np.float64)
    filled = np.where(np.isnan(values), np.inf, values)
    return filled.reshape(shape) if isinstance(bound, tuple) else np.full(shape, filled)
