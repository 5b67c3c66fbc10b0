"""RLlib's encoders: linear layers or convolutions, with a recurrent network behind them or not, as rlpipe's encoders.

Sources: TorchMLPEncoder, TorchCNNEncoder, TorchLSTMEncoder and TorchGRUEncoder in
ray/rllib/core/models/torch/encoder.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from rlpipe.importers.libraries.rllib.filters import filter_places
from rlpipe.importers.libraries.rllib.images import Images, channels_last, convolutions
from rlpipe.importers.libraries.rllib.settings import LINEAR, Shape, place_of
from rlpipe.importers.libraries.rllib.weights import Stack, Tensors
from rlpipe.importers.untaken import Entries
from rlpipe.snapshot.state import Array

_NONE = Stack(())
_GATES: Mapping[str, int] = MappingProxyType({"lstm": 4, "gru": 3})
_KEPT: Mapping[str, tuple[str, ...]] = MappingProxyType({"lstm": ("c", "h"), "gru": ("h",)})


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Linear layers with an activation behind each."""

    stack: Stack
    activation: str

    def config(self) -> dict[str, Any]:
        """As rlpipe's encoders are described."""
        return {"type": "mlp", "hidden": list(self.stack.widths), "activation": self.activation}

    def entries(self, key: str) -> Entries:
        """The weights under a key."""
        return self.stack.entries(key)


Front: TypeAlias = Dense | Images


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Body:
    """An encoder.

    Attributes:
        inputs: Numbers that it sees.
        front: Layers without memory, one behind the other; of a recurrent encoder those ahead of it.
        kind: "lstm", "gru", or "" for an encoder that does not remember.
        cells: Parameters of the recurrent network, as torch names them.
        after: Layers behind the recurrent network.
    """

    inputs: int
    front: tuple[Front, ...]
    kind: str = ""
    cells: Entries = field(default_factory=dict)
    after: Dense | None = None

    @property
    def hidden_size(self) -> int:
        """Length of what each layer of the recurrent network remembers."""
        return int(self.cells["weight_hh_l0"].shape[1])

    @property
    def depth(self) -> int:
        """Layers of the recurrent network."""
        return len(self.cells) // 4

    @property
    def width(self) -> int:
        """Length of the features."""
        if self.after is not None:
            return self.after.stack.widths[-1]
        return self.hidden_size if self.kind else self._front_width

    @property
    def _front_width(self) -> int:
        widths = [_width(part) for part in self.front]
        return next((width for width in reversed(widths) if width), self.inputs)

    @property
    def order(self) -> Array:
        """Where each of the features lies among RLlib's."""
        last = self.front[-1]
        return last.order if isinstance(last, Images) and not self.kind else np.arange(self.width)

    def config(self) -> dict[str, Any]:
        """The architecture, as rlpipe's encoders are described."""
        before = [part.config() for part in self.front]
        alone = before[0] if len(before) == 1 else {"type": "chain", "links": before}
        if not self.kind:
            return alone
        return {
            "type": self.kind,
            "hidden_size": self.hidden_size,
            "num_layers": self.depth,
            "before": alone if any(part.stack.layers for part in self.front) else None,
            "after": self.after and self.after.config(),
        }

    def entries(self, key: str) -> Entries:
        """The weights under a key."""
        front = f"{key}/before" if self.kind else key
        places = [front] if len(self.front) == 1 else [f"{front}/{index}" for index in range(len(self.front))]
        found: Entries = {}
        for part, place in zip(self.front, places, strict=True):
            found |= part.entries(place)
        found |= {f"{key}/rnn/{name}": array for name, array in self.cells.items()}
        return found | (self.after.entries(f"{key}/after") if self.after is not None else {})

    def memory(self, where: str) -> dict[str, Any]:
        """What it remembers, as a module's spec says it."""
        shape = [self.depth, self.hidden_size] if self.kind else []
        return {f"{where}/{name}": {"shape": shape, "dtype": "float32"} for name in _KEPT.get(self.kind, ())}

    def followed_by(self, hidden: Dense) -> Body:
        """The encoder with more layers behind it."""
        if not hidden.stack.layers:
            return self
        if self.kind:
            return replace(self, after=hidden)
        last = self.front[-1]
        if isinstance(last, Dense) and (last.activation == hidden.activation or not last.stack.layers):
            joined = Dense(Stack((*last.stack.layers, *hidden.stack.layers)), hidden.activation)
            return replace(self, front=(*self.front[:-1], joined))
        return replace(self, front=(*self.front, hidden))

    def layers_behind(self, tensors: Tensors, prefix: str, place: Any) -> Stack:
        """Take the linear layers that are fed with its features."""
        (weight, bias), *rest = tensors.stack(prefix, inputs=self.width, place=place).layers
        return Stack(((np.ascontiguousarray(weight[:, self.order]), bias), *rest))


def dense_body(stack: Stack, activation: str, *, inputs: int) -> Body:
    """An encoder of nothing but linear layers."""
    return Body(inputs=inputs, front=(Dense(stack, activation),))


def read_body(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    """Take an encoder.

    Raises:
        ForeignFormatError: It is none of linear layers, convolutions, a LSTM or a GRU.
    """
    for kind in _GATES:
        if tensors.has(f"{prefix}.{kind}"):
            return recurrent(tensors, f"{prefix}.{kind}", kind, _tokenizer(tensors, f"{prefix}.tokenizer", shape))
    return Body(inputs=shape.features, front=(_front(tensors, prefix, shape),))


def _tokenizer(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    if not tensors.has(prefix):
        return dense_body(_NONE, shape.activation, inputs=shape.features)
    return Body(inputs=shape.features, front=(_front(tensors, prefix, shape),))


def recurrent(tensors: Tensors, prefix: str, kind: str, before: Body) -> Body:
    """Take a recurrent network behind an encoder.

    Args:
        tensors: What is left of the module.
        prefix: Name of the network.
        kind: "lstm" or "gru".
        before: The encoder that feeds it.

    Raises:
        ForeignFormatError: It is not whole, or does not fit.
    """
    inputs, cells = before.width, _NO_CELLS
    while tensors.has(f"{prefix}.weight_hh_l{len(cells) // 4}"):
        layer = len(cells) // 4
        hidden = tensors.size_of(f"{prefix}.weight_hh_l{layer}")
        rows = _GATES[kind] * hidden
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
        cells = cells | {
            f"{name}_l{layer}": tensors.parameter(f"{prefix}.{name}_l{layer}", shape=wanted)
            for name, wanted in shapes.items()
        }
        inputs = hidden
    if not cells:
        raise tensors.misfit(prefix, "weight_hh_l0 and its like", "other weights")
    first = np.ascontiguousarray(cells["weight_ih_l0"][:, before.order])
    return replace(before, kind=kind, cells=cells | {"weight_ih_l0": first})


_NO_CELLS: Entries = {}


def _width(part: Front) -> int:
    return prod(part.made) if isinstance(part, Images) else (0, *part.stack.widths)[-1]


def _front(tensors: Tensors, prefix: str, shape: Shape) -> Front:
    images = f"{prefix}.net.0.cnn"
    if tensors.has(images):
        places = filter_places(shape.filters, has_activations=shape.image_activation != LINEAR)
        return channels_last(convolutions(tensors, tensors.layers_below(images, places), shape))
    place = place_of(shape.activation)
    return Dense(tensors.stack(f"{prefix}.net.mlp", inputs=shape.features, place=place), shape.activation)
