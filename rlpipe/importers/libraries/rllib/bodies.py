"""RLlib's encoders: a stack of linear layers, or one ahead of a recurrent network, as rlpipe's encoders.

Sources: TorchMLPEncoder, TorchLSTMEncoder and TorchGRUEncoder in ray/rllib/core/models/torch/encoder.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rlpipe.importers.libraries.rllib.settings import Shape, place_of
from rlpipe.importers.libraries.rllib.weights import Entries, Stack, Tensors

_NONE = Stack(())
_GATES: Mapping[str, int] = MappingProxyType({"lstm": 4, "gru": 3})
_KEPT: Mapping[str, tuple[str, ...]] = MappingProxyType({"lstm": ("c", "h"), "gru": ("h",)})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Body:
    """An encoder.

    Attributes:
        layers: Linear layers, of a recurrent one those ahead of it.
        activation: Behind each of them.
        kind: "lstm", "gru", or "" for an encoder that does not remember.
        cells: Parameters of the recurrent network, as torch names them.
        after: Layers behind the recurrent network.
        after_activation: Behind each of those.
    """

    layers: Stack
    activation: str
    kind: str = ""
    cells: Entries = field(default_factory=dict)
    after: Stack = _NONE
    after_activation: str = ""

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
        widths = self.after.widths or (() if self.kind else self.layers.widths)
        return widths[-1] if widths else self.hidden_size

    def config(self) -> dict[str, Any]:
        """The architecture, as rlpipe's encoders are described."""
        if not self.kind:
            return mlp(self.layers, self.activation)
        return {
            "type": self.kind,
            "hidden_size": self.hidden_size,
            "num_layers": self.depth,
            "before": mlp(self.layers, self.activation) if self.layers.layers else None,
            "after": mlp(self.after, self.after_activation) if self.after.layers else None,
        }

    def entries(self, key: str) -> Entries:
        """The weights under a key."""
        if not self.kind:
            return self.layers.entries(key)
        cells = {f"{key}/rnn/{name}": array for name, array in self.cells.items()}
        return self.layers.entries(f"{key}/before") | cells | self.after.entries(f"{key}/after")

    def memory(self, where: str) -> dict[str, Any]:
        """What it remembers, as a module's spec says it."""
        shape = [self.depth, self.hidden_size] if self.kind else []
        return {f"{where}/{name}": {"shape": shape, "dtype": "float32"} for name in _KEPT.get(self.kind, ())}

    def followed_by(self, hidden: Stack, activation: str) -> Body | None:
        """The encoder with more layers behind it; None where their activation has no place in one encoder."""
        if self.kind:
            return replace(self, after=hidden, after_activation=activation)
        if hidden.layers and activation != self.activation:
            return None
        return replace(self, layers=Stack((*self.layers.layers, *hidden.layers)))


def mlp(stack: Stack, activation: str) -> dict[str, Any]:
    """Linear layers, as rlpipe's encoders are described."""
    return {"type": "mlp", "hidden": list(stack.widths), "activation": activation}


def read_body(tensors: Tensors, prefix: str, shape: Shape) -> Body:
    """Take an encoder.

    Raises:
        ForeignFormatError: It is none of linear layers, a LSTM or a GRU.
    """
    for kind in _GATES:
        if tensors.has(f"{prefix}.{kind}"):
            return _recurrent(tensors, prefix, kind, shape)
    return Body(layers=_linear(tensors, prefix, shape), activation=shape.activation)


def _recurrent(tensors: Tensors, prefix: str, kind: str, shape: Shape) -> Body:
    before = _linear(tensors, f"{prefix}.tokenizer", shape) if tensors.has(f"{prefix}.tokenizer") else _NONE
    inputs = before.widths[-1] if before.layers else shape.features
    cells: Entries = {}
    while tensors.has(f"{prefix}.{kind}.weight_hh_l{len(cells) // 4}"):
        layer = len(cells) // 4
        hidden = tensors.size_of(f"{prefix}.{kind}.weight_hh_l{layer}")
        rows = _GATES[kind] * hidden
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
        for name, wanted in shapes.items():
            cells[f"{name}_l{layer}"] = tensors.parameter(f"{prefix}.{kind}.{name}_l{layer}", shape=wanted)
        inputs = hidden
    if not cells:
        raise tensors.misfit(f"{prefix}.{kind}", "weight_hh_l0 and its like", "other weights")
    return Body(layers=before, activation=shape.activation, kind=kind, cells=cells)


def _linear(tensors: Tensors, prefix: str, shape: Shape) -> Stack:
    if tensors.has(f"{prefix}.net.0") or tensors.has(f"{prefix}.net.cnn"):
        raise tensors.not_supported("an encoder of images")
    return tensors.stack(f"{prefix}.net.mlp", inputs=shape.features, place=place_of(shape.activation))
