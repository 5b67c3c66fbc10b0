"""Encoders with a memory: LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014).

Their parameters have the names, shapes and order of torch's `nn.LSTM` and `nn.GRU`, and compute the same. One step is
plain tensor maths, so that it exports to everything that knows a matrix product; sequences use torch's own kernels.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import nn

from rlpipe.modules.fields import whole
from rlpipe.modules.torch.feedforward import CNN, MLP, Encoder, FeedForward, one_shape, read_among
from rlpipe.modules.torch.multi import Inputs, Multi, MultiEncoder
from rlpipe.snapshot.state import Array

Memory: TypeAlias = Mapping[str, torch.Tensor]
"""`h`, and for a LSTM `c`: (B, layers, hidden)."""

_BEFORE: MappingProxyType[str, type[FeedForward | Multi]] = MappingProxyType({"cnn": CNN, "mlp": MLP, "multi": Multi})
_AFTER: MappingProxyType[str, type[MLP]] = MappingProxyType({"mlp": MLP})


class Cells(nn.Module):
    """The layers of a recurrent network, one above the other.

    Attributes:
        kept: Names of what is remembered, sorted.
        gates: How many blocks of `hidden` rows a weight has.
    """

    kept: tuple[str, ...]
    gates: int

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        bound = hidden**-0.5
        for layer in range(layers):
            width = inputs if layer == 0 else hidden
            shapes = {"weight_ih": (width,), "weight_hh": (hidden,), "bias_ih": (), "bias_hh": ()}
            for name, columns in shapes.items():
                values = torch.empty(self.gates * hidden, *columns).uniform_(-bound, bound)
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(values))

    @abstractmethod
    def cell(self, inputs: torch.Tensor, hidden: torch.Tensor, memory: dict[str, torch.Tensor]) -> Memory:
        """One layer's memory after a step.

        Args:
            inputs: (B, gates * hidden), what the layer is given, times its weights.
            hidden: (B, gates * hidden), what it remembers, times its weights.
            memory: What it remembers, (B, hidden) each.
        """

    @abstractmethod
    def kernel(self, x: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Torch's own kernel over (B, T, inputs), with a memory of (layers, B, hidden) each."""

    def forward(self, x: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """One step: (B, inputs) and (B, layers, hidden) each to (B, hidden) and the next memory."""
        made: dict[str, list[torch.Tensor]] = {name: [] for name in self.kept}
        for layer in range(self.layers):
            past = {name: memory[name][:, layer] for name in self.kept}
            now = self.cell(self._part("ih", layer, x), self._part("hh", layer, past["h"]), past)
            for name in self.kept:
                made[name].append(now[name])
            x = now["h"]
        return x, {name: torch.stack(parts, dim=1) for name, parts in made.items()}

    def _part(self, name: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        weight, bias = (self.get_parameter(f"{kind}_{name}_l{layer}") for kind in ("weight", "bias"))
        return nn.functional.linear(x, weight, bias)

    def sequence(self, x: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Steps without an end between them: (B, T, inputs) to (B, T, hidden) and the memory behind the last."""
        turned = {name: memory[name].transpose(0, 1).contiguous() for name in self.kept}
        with warnings.catch_warnings():
            # On a GPU it would like all weights in one piece of memory, which ties between policies do not allow.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            features, last = self.kernel(x, turned)
        return features, {name: last[name].transpose(0, 1) for name in self.kept}

    def _kernel_options(self) -> tuple[bool, int, float, bool, bool, bool]:
        """Has biases, layers, dropout, is training, goes both ways, is batch first."""
        return True, self.layers, 0.0, self.training, False, True


class LSTMCells(Cells):
    """Gates in torch's order: input, forget, cell, output."""

    kept = ("c", "h")
    gates = 4

    def cell(self, inputs: torch.Tensor, hidden: torch.Tensor, memory: dict[str, torch.Tensor]) -> Memory:
        """c' = f * c + i * g, h' = o * tanh(c')."""
        i, f, g, o = torch.split(inputs + hidden, self.hidden, dim=1)
        c = torch.sigmoid(f) * memory["c"] + torch.sigmoid(i) * torch.tanh(g)
        return {"c": c, "h": torch.sigmoid(o) * torch.tanh(c)}

    def kernel(self, x: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See `Cells.kernel`."""
        past = (memory["h"], memory["c"])
        out, h, c = torch.lstm(x, past, list(self.parameters()), *self._kernel_options())
        return out, {"c": c, "h": h}


class GRUCells(Cells):
    """Gates in torch's order: reset, update, new."""

    kept = ("h",)
    gates = 3

    def cell(self, inputs: torch.Tensor, hidden: torch.Tensor, memory: dict[str, torch.Tensor]) -> Memory:
        """n = tanh(x + r * h), h' = (1 - z) * n + z * h, each with its weights."""
        given, past = (torch.split(part, self.hidden, dim=1) for part in (inputs, hidden))
        r, z = (torch.sigmoid(given[gate] + past[gate]) for gate in (0, 1))
        n = torch.tanh(given[2] + r * past[2])
        return {"h": n + z * (memory["h"] - n)}

    def kernel(self, x: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """See `Cells.kernel`."""
        out, h = torch.gru(x, memory["h"], list(self.parameters()), *self._kernel_options())
        return out, {"h": h}


CellsKind: TypeAlias = type[LSTMCells] | type[GRUCells]


class RecurrentEncoder(nn.Module):
    """A recurrent network, with an encoder before it and one behind it where asked for.

    Attributes:
        before: From the observation to what the recurrent network is given; absent without.
        rnn: The recurrent network.
        after: From its output to the features; absent without.
        out_features: Length of the feature vector.
    """

    def __init__(self, rnn: Cells, before: Encoder | MultiEncoder | None, after: Encoder | None) -> None:
        super().__init__()
        self.before, self.rnn, self.after = before, rnn, after
        self.out_features = rnn.hidden if after is None else after.out_features

    def initial_memory(self) -> dict[str, Array]:
        """Zeros (layers, hidden), without a batch axis."""
        return {name: np.zeros((self.rnn.layers, self.rnn.hidden), np.float32) for name in self.rnn.kept}

    def forward(self, input: Any, memory: Memory) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:  # noqa: A002 - as in every encoder
        """One step: (B, ...) and the memory to features (B, out_features) and the next memory."""
        hidden, now = self.rnn(self._given(input), memory)
        return self._features(hidden), now

    def sequence(
        self, inputs: Any, memory: Memory, episode_start: torch.Tensor | None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Steps of several rows: (B, T, ...) to features (B, T, out_features) and the memory behind the last.

        Args:
            inputs: What the encoder is given, nested as it takes it.
            memory: What is remembered before the first step.
            episode_start: (B, T) bool, where an episode begins and the memory goes back to zeros; None: nowhere.
        """
        given = per_step(inputs, self._given)
        if episode_start is None:
            hidden, now = self.rnn.sequence(given, memory)
        else:
            hidden, now = self._stepped(given, dict(memory), episode_start)
        return per_step(hidden, self._features), now

    def _stepped(
        self, given: torch.Tensor, memory: Memory, starts: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        found = []
        for step in range(given.shape[1]):
            begins = starts[:, step, None, None]
            kept = {name: torch.where(begins, torch.zeros_like(part), part) for name, part in memory.items()}
            hidden, memory = self.rnn(given[:, step], kept)
            found.append(hidden)
        return torch.stack(found, dim=1), dict(memory)

    def _given(self, x: Any) -> torch.Tensor:
        given: torch.Tensor = x.flatten(1) if self.before is None else self.before(x)
        return given

    def _features(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden if self.after is None else self.after(hidden)


def per_step(values: Any, encode: Callable[[Any], torch.Tensor]) -> torch.Tensor:
    """(B, T, ...), perhaps nested, through an encoder of single steps: (B, T, n)."""
    made = encode(merged(values))
    return made.reshape(*rows_and_steps(values), *made.shape[1:])


def rows_and_steps(values: Any) -> tuple[int, int]:
    """B and T of (B, T, ...), perhaps nested."""
    while isinstance(values, Mapping):
        values = next(iter(values.values()))
    return values.shape[0], values.shape[1]


def merged(values: Any) -> Any:
    """(B, T, ...), perhaps nested, as (B * T, ...)."""
    if isinstance(values, Mapping):
        return {name: merged(value) for name, value in values.items()}
    return values.flatten(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LSTM:
    """A LSTM. Its memory is `h` and `c`, (num_layers, hidden_size) each.

    Attributes:
        hidden_size: Length of what each layer remembers.
        num_layers: Layers above each other.
        before: Encoder ahead of it, a mlp, a cnn or a multi, or None.
        after: Layers behind it, a mlp, or None.
    """

    hidden_size: int = 64
    num_layers: int = 1
    before: FeedForward | Multi | None = None
    after: MLP | None = None

    type: ClassVar[str] = "lstm"
    cells: ClassVar[CellsKind] = LSTMCells

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("hidden_size", "num_layers"):
            whole(getattr(self, name), where=f"{name} of a {self.type}", least=1)
        for name, kinds in (("before", _BEFORE), ("after", _AFTER)):
            if (value := getattr(self, name)) is not None:
                read: Any = read_among(value, kinds, where=f"{name} of a {self.type}")
                object.__setattr__(self, name, read)

    @property
    def activation(self) -> str:
        """That of the layers around it."""
        near = self.after or self.before
        return "relu" if near is None else near.activation

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_encoder`."""
        return {
            "type": self.type,
            "hidden_size": self.hidden_size,
            "num_layers": self.num_layers,
            "before": self.before and self.before.to_json(),
            "after": self.after and self.after.to_json(),
        }

    def build(self, shape: Inputs) -> RecurrentEncoder:
        """The network for inputs (B, *shape)."""
        before = None if self.before is None else self.before.build(shape)
        width = prod(one_shape(shape, where=self.type)) if before is None else before.out_features
        cells = self.cells(width, self.hidden_size, self.num_layers)
        return RecurrentEncoder(cells, before, None if self.after is None else self.after.build((self.hidden_size,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GRU(LSTM):
    """A GRU, with the fields of a LSTM. Its memory is `h`, (num_layers, hidden_size)."""

    type: ClassVar[str] = "gru"
    cells: ClassVar[CellsKind] = GRUCells
