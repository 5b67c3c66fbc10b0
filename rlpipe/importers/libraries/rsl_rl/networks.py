"""The networks of rsl_rl as the state of rlpipe's actor-critic.

Sources: rsl_rl/networks/mlp.py and memory.py, rsl_rl/modules/distribution.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.importers.libraries.rsl_rl.checkpoint import Tensors
from rlpipe.snapshot.state import Array

Entries: TypeAlias = dict[str, Array]
"""Keys of a state -> arrays."""

MIN_STD = 1e-6
"""Below this the library itself holds no deviation (GaussianDistribution.std_range)."""

_FIX = "the file is not whole, or holds a network that the library does not make"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stack:
    """Linear layers with an activation between them.

    Attributes:
        inputs: Width of what goes in.
        hidden: Widths of the hidden layers.
        outputs: Width of what comes out.
        layers: (weight, bias) of each layer.
    """

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    layers: tuple[tuple[Array, Array], ...]

    def entries(self, encoder: str) -> Entries:
        """The hidden layers under the key of an encoder."""
        pairs = enumerate(self.layers[:-1])
        return {
            f"{encoder}/{2 * index}/{name}": array
            for index, layer in pairs
            for name, array in zip(("weight", "bias"), layer, strict=True)
        }

    def head(self, key: str, rows: slice = slice(None)) -> Entries:
        """The last layer, or some of its rows, under a key."""
        weight, bias = self.layers[-1]
        return {f"{key}/weight": weight[rows], f"{key}/bias": bias[rows]}

    def encoder(self, activation: str) -> dict[str, Any]:
        """The config of an encoder with the hidden layers."""
        return {"type": "mlp", "hidden": list(self.hidden), "activation": activation}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Memory:
    """A recurrent network in front of a stack.

    Attributes:
        kind: "lstm" or "gru".
        inputs: Width of what goes in.
        hidden: Width of its state.
        layers: How many there are.
        tensors: torch's own names -> arrays.
    """

    kind: str
    inputs: int
    hidden: int
    layers: int
    tensors: Entries


def take_stack(tensors: Tensors, subject: str) -> Stack:
    """The stack of a network.

    Raises:
        ForeignFormatError: It is no row of linear layers, or they do not fit each other.
    """
    places = sorted({int(name.split(".")[1]) for name in tensors if _is_layer(name)})
    known = {f"mlp.{place}.{kind}" for place in places for kind in ("weight", "bias")}
    found = {name for name in tensors if name.startswith("mlp.")}
    if not places or places != list(range(0, 2 * len(places), 2)) or found != known:
        raise ForeignFormatError(
            f"{subject} is no plain stack of layers",
            expected="linear layers at 0, 2, 4 ..., with activations without parameters between them",
            found=listed(found) or "no layer",
            fix="networks with normalisation layers or other extras cannot be imported",
        )
    layers = tuple((tensors[f"mlp.{place}.weight"], tensors[f"mlp.{place}.bias"]) for place in places)
    width = layers[0][0].shape[-1] if layers[0][0].ndim == 2 else 0
    for place, (weight, bias) in zip(places, layers, strict=True):
        require_shape(weight, (len(bias) if bias.ndim else 0, width), f"layer {place} of {subject}")
        require_shape(bias, (len(weight),), f"the bias of layer {place} of {subject}")
        width = len(weight)
    hidden = tuple(len(bias) for _, bias in layers[:-1])
    return Stack(inputs=layers[0][0].shape[1], hidden=hidden, outputs=width, layers=layers)


def _is_layer(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "mlp" and len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 5


def take_memory(tensors: Tensors, subject: str) -> Memory | None:
    """The recurrent network in front of a stack; None for a policy without one.

    A cell has four blocks of rows in an LSTM and three in a GRU.

    Raises:
        ForeignFormatError: It is neither, or its parts do not fit each other.
    """
    found = {name.removeprefix("rnn."): array for name, array in tensors.items() if name.startswith("rnn.")}
    if not found:
        return None
    first, inner = found.get("weight_ih_l0"), found.get("weight_hh_l0")
    if first is None or inner is None or first.ndim != 2 or inner.ndim != 2 or not inner.shape[1]:
        raise _no_memory(subject, listed(found))
    hidden, blocks = inner.shape[1], inner.shape[0] / inner.shape[1]
    kind = {4.0: "lstm", 3.0: "gru"}.get(blocks)
    layers = sum(name.startswith("weight_ih_l") for name in found)
    if kind is None:
        raise _no_memory(subject, f"cells with {blocks:g} blocks of rows")
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        rows = inner.shape[0]
        shapes[f"weight_ih_l{layer}"] = (rows, first.shape[1] if layer == 0 else hidden)
        shapes[f"weight_hh_l{layer}"] = (rows, hidden)
        shapes |= {f"bias_{part}_l{layer}": (rows,) for part in ("ih", "hh")}
    if shapes.keys() != found.keys():
        raise _no_memory(subject, listed(found))
    for name, shape in shapes.items():
        require_shape(found[name], shape, f"{name} of {subject}")
    return Memory(kind=kind, inputs=first.shape[1], hidden=hidden, layers=layers, tensors=found)


def _no_memory(subject: str, found: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"{subject} has a memory of an unknown kind", expected="an LSTM or a GRU of torch", found=found, fix=_FIX
    )


def require_shape(array: Array, shape: tuple[int, ...], subject: str) -> None:
    """Check shape and dtype.

    Raises:
        ForeignFormatError: They are others.
    """
    if array.shape != shape or array.dtype != np.float32:
        raise ForeignFormatError(
            f"{subject} does not fit", expected=f"float {shape}", found=f"{array.dtype} {array.shape}", fix=_FIX
        )


def log_deviation(tensors: Tensors, actions: int, subject: str) -> tuple[Array | None, str]:
    """The logarithm of the deviation that a policy explores with, and a note on what was changed in it.

    Raises:
        ForeignFormatError: Another count of numbers than the action has elements.
    """
    found = [name for name in ("std", "log_std") if name in tensors]
    if not found:
        return None, ""
    for name in found:
        require_shape(tensors[name], (actions,), f"{name} of {subject}")
    if found[-1] == "log_std":
        return tensors["log_std"], ""
    std = tensors["std"].astype(np.float64)
    note = f"deviations below {MIN_STD} became that; actions do not depend on it" if np.any(std < MIN_STD) else ""
    return np.log(np.maximum(std, MIN_STD)).astype(np.float32), note
