"""Hand-written steps of policies with memory, masks, noise and several outputs: flat tensors in, flat tensors out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpipe.exporters.graph import ExportGraph, export_graph
from rlpipe.exporters.observations import Observations
from rlpipe.exporters.reference import Reference, reference
from rlpipe.exporters.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Tensor = torch.Tensor
Runner = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def put(name: str, dtype: str, *shape: int, distribution: Any = "", memory: str = "") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape, distribution=distribution, memory=memory)


def enlarge(module: nn.Module) -> None:
    """Fresh weights are so small that memory hardly matters."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2)


def forget(start: Tensor, *states: Tensor) -> list[Tensor]:
    """The states, where an episode begins zero."""
    return [
        torch.where(start.reshape(-1, *(1 for _ in state.shape[1:])), torch.zeros_like(state), state)
        for state in states
    ]


class Remembers(nn.Module):
    """obs, c, h, start -> clipped (B, 3), c, h; by nn.LSTM, behind a clip and a hidden layer."""

    def __init__(self, layers: int = 2, hidden: int = 8, width: int = 5) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, 6), nn.Linear(hidden, 3)
        self.lstm = nn.LSTM(6, hidden, num_layers=layers, batch_first=True)
        enlarge(self)

    def forward(self, obs: Tensor, cell: Tensor, hidden: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        hidden, cell = (state.transpose(0, 1).contiguous() for state in forget(start, hidden, cell))
        features = torch.tanh(self.first(obs.clamp(-5, 5)))[:, None]
        out, (hidden, cell) = self.lstm(features, (hidden, cell))
        return (2 * self.last(out[:, 0])).clamp(-1, 1), cell.transpose(0, 1), hidden.transpose(0, 1)


class Gated(nn.Module):
    """obs, h, start, mask -> a choice of 4 that is allowed, h, logits; by nn.GRU."""

    def __init__(self, layers: int = 1, hidden: int = 7, width: int = 5) -> None:
        super().__init__()
        self.gru, self.last = nn.GRU(width, hidden, num_layers=layers), nn.Linear(hidden, 4)
        enlarge(self)

    def forward(self, obs: Tensor, hidden: Tensor, start: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = (state.transpose(0, 1).contiguous() for state in forget(start, hidden))
        out, hidden = self.gru(obs.clamp(-5, 5)[None], hidden)
        logits = self.last(out[0])
        allowed = mask | ~mask.any(dim=1, keepdim=True)
        choice = logits.masked_fill(~allowed, float("-inf")).argmax(dim=1)
        return choice, hidden.transpose(0, 1), logits


class ByFormula(nn.Module):
    """An LSTM cell and a GRU cell in plain operations, whose memory begins at learnt values."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(4, 6), nn.GRUCell(6, 5)
        self.begin, self.last = nn.Parameter(torch.randn(1, 6)), nn.Linear(5, 2)

    def forward(self, obs: Tensor, hidden: Tensor, cell: Tensor, gate: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        first = start[:, None, None]
        hidden = torch.where(first, self.begin, hidden)[:, 0]
        cell = torch.where(first, torch.zeros(()), cell)[:, 0]
        gate = (gate * (~first).to(torch.float32))[:, 0]
        hidden, cell = self._lstm(obs.clamp(-5, 5), hidden, cell)
        gate = self._gru(hidden, gate)
        return torch.tanh(self.last(gate)), hidden[:, None], cell[:, None], gate[:, None]

    def _lstm(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        part = self.lstm
        gates = x @ part.weight_ih.T + part.bias_ih + hidden @ part.weight_hh.T + part.bias_hh
        i, f, g, o = gates.chunk(4, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell

    def _gru(self, x: Tensor, hidden: Tensor) -> Tensor:
        part = self.gru
        r1, z1, n1 = (x @ part.weight_ih.T + part.bias_ih).chunk(3, dim=1)
        r2, z2, n2 = (hidden @ part.weight_hh.T + part.bias_hh).chunk(3, dim=1)
        update = (z1 + z2).sigmoid()
        return (1 - update) * (n1 + (r1 + r2).sigmoid() * n2).tanh() + update * hidden


class Branches(nn.Module):
    """image (B, 12, 10, 3) uint8, vector (B, 4) float64, GRU memory, mask -> a choice of 3, (B, 2), memory, value."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten())
        self.first, self.gru = nn.Linear(4 * 3 * 2 + 4, 8), nn.GRU(8, 8, batch_first=True)
        self.choose, self.move, self.judge = nn.Linear(8, 3), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, image: Tensor, vector: Tensor, hidden: Tensor, start: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        pixels = self.conv(image.permute(0, 3, 1, 2).to(torch.float32) / 255)
        both = torch.cat([pixels, vector.to(torch.float32).clamp(-5, 5)], dim=1)
        (hidden,) = (state.transpose(0, 1).contiguous() for state in forget(start, hidden))
        out, hidden = self.gru(torch.relu(self.first(both))[:, None], hidden)
        mask = mask | ~mask.any(dim=1, keepdim=True)
        scores = torch.where(mask, self.choose(out[:, 0]), torch.tensor(float("-inf")))
        return scores.argmax(1) - 1, self.move(out[:, 0]).tanh() * 3, hidden.transpose(0, 1), self.judge(out[:, 0])


class Parts(nn.Module):
    """obs, mask -> MultiDiscrete([2, 3]) of what is allowed, by one-hot scores gathered from a table."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 5)

    def forward(self, obs: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        logits = self.net(obs.clamp(-5, 5))
        parts = zip(torch.split(logits, [2, 3], dim=1), torch.split(mask, [2, 3], dim=1), strict=True)
        chosen = [self._best(scores, allowed) for scores, allowed in parts]
        return torch.stack(chosen, dim=1), logits.gather(1, torch.stack([chosen[0], chosen[1] + 2], dim=1))

    @staticmethod
    def _best(scores: Tensor, allowed: Tensor) -> Tensor:
        allowed = torch.where(allowed.any(dim=1, keepdim=True), allowed, torch.ones_like(allowed))
        return scores.masked_fill(~allowed, -torch.inf).argmax(dim=1)


class Draws(nn.Module):
    """obs, noise -> mean + exp(log_std) * noise, squashed between -2 and 1; mean; log_std."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.log_std = nn.Linear(4, 3), nn.Parameter(torch.tensor([-1.0, 0.3, -30.0]))

    def forward(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        mean = self.net(obs.clamp(-5, 5))
        log_std = self.log_std.clamp(-20, 2).expand_as(mean)
        return (mean + log_std.exp() * noise).tanh() * 1.5 - 0.5, mean, log_std


class Picks(nn.Module):
    """obs, mask, noise -> a choice of 3 by the Gumbel trick and two switches, drawn; logits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 5)

    def forward(self, obs: Tensor, mask: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        logits = self.net(obs.clamp(-5, 5))
        mask = mask | ~mask.any(dim=1, keepdim=True)
        allowed = logits[:, :3].masked_fill(~mask, -torch.inf)
        choice = (allowed - torch.log(-torch.log(noise[:, :3]))).argmax(dim=1)
        return choice, (noise[:, 3:] < logits[:, 3:].sigmoid()).to(torch.int8), logits


class Stacks(nn.Module):
    """image (B, 6, 6, 1) uint8 and the last three -> (B,) int64, the last three, as uint8."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))

    def forward(self, image: Tensor, last: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        begun = start[:, None, None, None]
        last = torch.where(begun, image.expand(-1, -1, -1, 3), last)
        frames = torch.cat([last, image], dim=3)
        scores = self.net(frames.permute(0, 3, 1, 2).to(torch.float32) / 255)
        return scores.argmax(dim=1), frames[..., 1:]


@dataclass(frozen=True)
class Step:
    """One step of a policy between named tensors."""

    module: nn.Module
    signature: Signature

    def compute(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The step itself, in eager torch."""
        with torch.inference_mode():
            outputs = self.module(*(torch.tensor(arrays[spec.name]) for spec in self.signature.inputs))
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        return {spec.name: tensor.numpy() for spec, tensor in zip(self.signature.outputs, outputs, strict=True)}

    def draw(self, *sizes: int, seed: int = 0) -> dict[str, Array]:
        """Input name -> (*sizes, *shape)."""
        rng = np.random.default_rng(seed)
        return {spec.name: _drawn(spec, sizes, rng) for spec in self.signature.inputs}

    def traced(self) -> ExportGraph:
        return export_graph(self.module, self.signature, self.draw(64))

    def reference(self) -> Reference:
        return reference(self.compute, Observations(self.draw(300), {"samples": 300}, self.signature))

    def played(self, runner: Runner, given: Mapping[str, Array]) -> dict[str, Array]:
        """Output name -> (T, B, *shape), the memory handed on from step to step; `given` holds (T, B, *shape)."""
        memory = {name: np.zeros_like(given[name][0]) for name in self.signature.memory}
        found = []
        for index in range(len(next(iter(given.values())))):
            outputs = runner({**{name: array[index] for name, array in given.items()}, **memory})
            memory = {name: outputs[following] for name, following in self.signature.memory.items()}
            found.append(outputs)
        return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


def _drawn(spec: TensorSpec, sizes: tuple[int, ...], rng: np.random.Generator) -> Array:
    shape = (*sizes, *spec.shape)
    if spec.kind == "action_mask":
        mask = rng.random(shape) < 0.5
        mask[..., 0] = mask[..., -1] = True
        return mask
    if spec.kind == "episode_start":
        return rng.random(shape) < 0.1
    if spec.dtype == "uint8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    if spec.distribution == "uniform":
        return rng.uniform(0.001, 0.999, shape).astype(spec.dtype)
    return rng.normal(size=shape).astype(spec.dtype)


START = put("episode_start", "bool")


def remembers(layers: int = 2, hidden: int = 8, width: int = 5) -> Step:
    torch.manual_seed(0)
    names = ("actor/c", "actor/h")
    memory = [put(f"state.{index}", "float32", layers, hidden, memory=name) for index, name in enumerate(names)]
    following = [put(f"state.{index}.next", "float32", layers, hidden, memory=name) for index, name in enumerate(names)]
    inputs = (put("obs", "float32", width), *memory, START)
    outputs = (put("action", "float32", 3), *following)
    return Step(Remembers(layers, hidden, width).eval(), Signature(inputs=inputs, outputs=outputs))


def gated(layers: int = 1, hidden: int = 7, width: int = 5) -> Step:
    torch.manual_seed(1)
    memory, following = (put(f"state.0{end}", "float32", layers, hidden, memory="actor/h") for end in ("", ".next"))
    inputs = (put("obs", "float32", width), memory, START)
    outputs = (put("action", "int64"), following, put("logits", "float32", 4))
    module = Gated(layers, hidden, width).eval()
    return Step(module, Signature(inputs=(*inputs, put("action_mask", "bool", 4)), outputs=outputs))


def by_formula() -> Step:
    torch.manual_seed(2)
    sizes = (6, 6, 5)
    memory = [put(f"state.{index}", "float32", 1, size) for index, size in enumerate(sizes)]
    following = [put(f"state.{index}.next", "float32", 1, size) for index, size in enumerate(sizes)]
    inputs = (put("obs", "float32", 4), *memory, START)
    return Step(ByFormula().eval(), Signature(inputs=inputs, outputs=(put("action", "float32", 2), *following)))


def branches() -> Step:
    torch.manual_seed(3)
    inputs = (
        put("obs.camera", "uint8", 12, 10, 3),
        put("obs.joints", "float64", 4),
        put("state.0", "float32", 1, 8),
        START,
        put("action_mask", "bool", 3),
    )
    outputs = (
        put("action.0", "int64"),
        put("action.1", "float32", 2),
        put("state.0.next", "float32", 1, 8),
        put("value", "float32", 1),
    )
    return Step(Branches().eval(), Signature(inputs=inputs, outputs=outputs))


def parts() -> Step:
    torch.manual_seed(4)
    inputs = (put("obs", "float32", 4), put("action_mask", "bool", 5))
    outputs = (put("action", "int64", 2), put("logits", "float32", 2))
    return Step(Parts().eval(), Signature(inputs=inputs, outputs=outputs))


def draws() -> Step:
    torch.manual_seed(5)
    inputs = (put("obs", "float32", 4), put("noise", "float32", 3, distribution="normal"))
    outputs = tuple(put(name, "float32", 3) for name in ("action", "mean", "log_std"))
    return Step(Draws().eval(), Signature(inputs=inputs, outputs=outputs))


def picks() -> Step:
    torch.manual_seed(6)
    inputs = (
        put("obs", "float32", 4),
        put("action_mask", "bool", 3),
        put("noise", "float32", 5, distribution="uniform"),
    )
    outputs = (put("action.0", "int64"), put("action.1", "int8", 2), put("logits", "float32", 5))
    return Step(Picks().eval(), Signature(inputs=inputs, outputs=outputs))


def stacks() -> Step:
    torch.manual_seed(7)
    inputs = (put("obs", "uint8", 6, 6, 1), put("state.0", "uint8", 6, 6, 3), START)
    outputs = (put("action", "int64"), put("state.0.next", "uint8", 6, 6, 3))
    return Step(Stacks().eval(), Signature(inputs=inputs, outputs=outputs))


STEPS: dict[str, Callable[[], Step]] = {
    make.__name__: make for make in (remembers, gated, by_formula, branches, parts, draws, picks, stacks)
}
WITH_MEMORY = ("remembers", "gated", "by_formula", "branches", "stacks")
