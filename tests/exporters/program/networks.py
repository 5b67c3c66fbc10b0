"""Graphs that between them use every rule of the walk; each maps (B, ...) to (B, n)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.snapshot.spaces import Box, Dict, Discrete
from tests.exporters.graphs import Example, unbounded

Tensor = torch.Tensor


class Activations(nn.Module):
    """All of them side by side, and some of torch that no config names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(getattr(nn, name)() for name in ACTIVATIONS.values())
        self.parts += [
            nn.GELU("tanh"),
            nn.PReLU(),
            nn.LeakyReLU(0.3),
            nn.ELU(0.7),
            nn.Softplus(2),
            nn.Threshold(0.1, 2),
        ]

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([part(obs) for part in self.parts], dim=1)


class Maths(nn.Module):
    """Elementwise operators of one and two operands, comparisons and choices."""

    def forward(self, obs: Tensor) -> Tensor:
        x, y = obs.clamp(-8, 8).chunk(2, dim=1)
        z = y.abs() + 0.5
        parts = [x + y, 2 - x, x - 3 * y, x * y, x / z, -x, x.abs(), z.sqrt(), z.rsqrt(), 1 / z, z.log(), z.log1p()]
        parts += [x.exp(), x.expm1(), x.sin(), x.cos(), x.atan(), torch.atan2(x, y), x.erf(), x.sign(), x.square()]
        parts += [x**3, z**x, x.floor(), x.ceil(), x.round(), x.trunc(), torch.fmod(x, z), torch.hypot(x, y)]
        parts += [
            torch.maximum(x, y),
            torch.minimum(x, y),
            x.clamp(min=y),
            torch.lerp(x, y, 0.3),
            torch.addcmul(x, y, z),
        ]
        parts += [
            torch.where(x > y, x, y),
            torch.where((x > 0) & ~(y > 0) | (x <= -3), x, 0.5),
            x.masked_fill(x < y, 1),
        ]
        unit = (x / 9).clamp(-0.9, 0.9)
        parts += [unit.asin(), unit.acos(), unit.atanh(), x.asinh(), (z + 1).acosh(), x.sinh(), x.cosh(), unit.tan()]
        parts += [x.exp2(), z.log2(), z.log10(), torch.logaddexp(x, y)]
        flags = [
            torch.isfinite(x),
            x == y,
            x != y,
            x >= y,
            x < 1,
            torch.logical_xor(x > 0, y > 0),
            torch.isnan(x),
            torch.isinf(x),
        ]
        return torch.cat([*parts, *(flag.to(torch.float32) for flag in flags)], dim=1)


class Moves(nn.Module):
    """Everything that moves elements."""

    def __init__(self) -> None:
        super().__init__()
        self.order: Tensor
        self.register_buffer("order", torch.tensor([3, 0, 2]))

    def forward(self, obs: Tensor) -> Tensor:
        x = obs  # (B, 2, 3, 4)
        parts = [
            x.permute(0, 2, 3, 1),
            x.transpose(1, 3) * 2,
            x[:, 1],
            x[:, :, 1:],
            x[..., ::2],
            x[:, :, -1],
            x.flip(3),
        ]
        parts += [x.index_select(3, self.order), x[:, :, :, [1, 1]], F.pad(x, (1, 2, 0, 1), value=0.5), x.roll(1, 3)]
        parts += [
            F.pad(x, (-1, 0)),
            x.unsqueeze(1).expand(-1, 2, -1, -1, -1),
            x.repeat(1, 2, 1, 1),
            torch.stack([x, x], 2),
        ]
        parts += [
            *torch.split(x, [1, 2], dim=2),
            x.permute(0, 3, 1, 2).reshape(-1, 8, 3),
            x.flatten(2).mT,
            torch.tril(x),
        ]
        best = x[:, :, 0].argmax(dim=2)  # (B, 2)
        parts += [x.gather(3, x.argmax(3, keepdim=True)), x.gather(2, best[:, :, None, None].expand(-1, -1, 2, 3) % 3)]
        parts += [
            x[torch.arange(x.shape[0]), best[:, 1] % 2],
            torch.zeros_like(x[:, :, 0]).scatter(2, best[:, :, None], 1),
        ]
        changed = x.clone()
        changed[:, :, 1] = 0.25
        changed[..., 1:3] = x[..., :2]
        parts += [changed]
        parts += [torch.zeros_like(x), torch.full((x.shape[0], 2), 3.0), x.new_ones(x.shape[0], 1) + x[:, 0, 0]]
        parts += [x.reshape(-1, 4).softmax(1).reshape(-1, 6, 4), x.transpose(1, 2).contiguous().view(-1, 24)]
        return torch.cat([part.flatten(1) for part in parts], dim=1)


class Sums(nn.Module):
    """Reductions, choices, norms and products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.batch, self.group = nn.LayerNorm(4), nn.BatchNorm1d(6), nn.GroupNorm(2, 6)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.table = nn.Embedding(3, 5)
        self.matrix = nn.Parameter(torch.randn(4, 3))
        for tensor in (self.batch.running_mean, self.batch.running_var):
            assert tensor is not None
            tensor.uniform_(0.5, 2)

    def forward(self, obs: Tensor) -> Tensor:
        x = obs.clamp(-3, 3)  # (B, 6, 4)
        parts = [
            x.sum(1),
            x.mean((1, 2), keepdim=True),
            x.amax(2),
            x.amin(1),
            x.std(1),
            x.var(2, correction=0),
            *torch.var_mean(x, 2),
            x.prod(1),
        ]
        parts += [
            x.norm(dim=2),
            x.logsumexp(1),
            x.softmax(2),
            x.log_softmax(1),
            self.norm(x),
            self.batch(x),
            self.group(x),
        ]
        parts += [*x.max(2), *x.min(1), x.argmax(1), x.argmin(2, keepdim=True), x.flatten(1).argmax(1, keepdim=True)]
        parts += [(x > 0).any(1), (x > 0).all(2), x @ self.matrix, x @ x.mT, self.attention(x, x, x)[0]]
        parts += [self.table(x[:, :, 0].argmax(1) % 3), torch.einsum("bij,bkj->bik", x, x)]
        return torch.cat([part.flatten(1).to(torch.float32) for part in parts], dim=1)


class Images(nn.Module):
    """Convolutions and pools of all forms on (B, 13, 11, 4) uint8."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(4, 6, 3),
                nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), bias=False),
                nn.Conv2d(4, 8, 3, dilation=2, groups=2),
                nn.Conv2d(4, 4, 3, padding="same", groups=4),
            ]
        )
        self.line = nn.Conv1d(4, 5, 3, stride=2, padding=1)

    def forward(self, obs: Tensor) -> Tensor:
        x = obs.permute(0, 3, 1, 2).to(torch.float32) / 255
        parts = [conv(x) for conv in self.convs]
        parts += [self.line(x[:, :, 0]), F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)]
        parts += [F.adaptive_avg_pool2d(x, 1)]
        return torch.cat([part.flatten(1) for part in parts], dim=1)


class Recurrent(nn.Module):
    """(B, 5) and the memory of an LSTM of two layers, through GRUs and cells."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, batch_first=True)
        self.gru, self.both = nn.GRU(6, 4), nn.LSTM(6, 3, bidirectional=True, batch_first=True)
        self.cell, self.gate, self.plain = nn.LSTMCell(6, 4), nn.GRUCell(6, 4), nn.RNN(6, 4, batch_first=True)

    def forward(self, cell: Tensor, hidden: Tensor, obs: Tensor) -> Tensor:
        sequence = torch.stack([obs, obs * 2], dim=1)
        memory = (hidden.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous())
        features, (hidden, cell) = self.lstm(sequence, memory)
        parts = [features, hidden.transpose(0, 1), cell.transpose(0, 1), self.gru(features.transpose(0, 1))[0][-1]]
        parts += [self.both(features)[0], self.plain(features)[0]]
        parts += [*self.cell(features[:, 0]), self.gate(features[:, 1])]
        return torch.cat([part.flatten(1) for part in parts], dim=1)


class Doubles(nn.Module):
    """float64 in, all in float64 until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).double()

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([self.net(obs), obs - 1000.0], dim=1).to(torch.float32)


class Wholes(nn.Module):
    """Whole numbers and switches: (B, 3) int64, (B, 2) int8 -> (B, n)."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        x, y = left, right.to(torch.int64)
        parts = [x + 1, x * y[:, :1], x.abs(), -x, x // 2, torch.div(x, 3, rounding_mode="trunc"), x.clamp(0, 2), x % 3]
        parts += [
            x.sum(1, keepdim=True),
            x.amax(1, keepdim=True),
            x.bool() | (y[:, :1] > 0),
            y.to(torch.uint8),
            x.sign(),
            (x > 0) * (y[:, :1] > 0),
            (x > 0) + (y[:, :1] > 0),
        ]
        parts += [F.one_hot(x[:, 0].clamp(0, 4), 5), right + right, x.float().round().to(torch.int32), x.bool() ^ True]
        parts += [torch.arange(3).expand(x.shape[0], 3), x.to(torch.float64) / 7]
        return torch.cat([part.to(torch.float32) for part in parts], dim=1)


def _example(module: nn.Module, **spaces: Box | Discrete) -> Example:
    module = module.eval()
    names = sorted(spaces)
    samples = [torch.zeros((2, *spaces[name].shape), dtype=getattr(torch, spaces[name].dtype.name)) for name in names]
    with torch.no_grad():
        width = prod(module(*samples).shape[1:])
    observed = spaces["obs"] if names == ["obs"] else Dict(spaces)
    return Example(module, observed, unbounded(width))


def _seeded(make: Callable[[], Example]) -> Callable[[], Example]:
    def seeded() -> Example:
        torch.manual_seed(0)
        return make()

    return seeded


NETWORKS: dict[str, Callable[[], Example]] = {
    "activations": _seeded(lambda: _example(Activations(), obs=unbounded(6))),
    "maths": _seeded(lambda: _example(Maths(), obs=unbounded(8))),
    "moves": _seeded(lambda: _example(Moves(), obs=unbounded(2, 3, 4))),
    "sums": _seeded(lambda: _example(Sums(), obs=Box.uniform(-3, 3, (6, 4)))),
    "images": _seeded(lambda: _example(Images(), obs=Box.uniform(0, 255, (13, 11, 4), "uint8"))),
    "recurrent": _seeded(lambda: _example(Recurrent(), obs=unbounded(5), hidden=unbounded(2, 6), cell=unbounded(2, 6))),
    "doubles": _seeded(lambda: _example(Doubles(), obs=unbounded(4, dtype="float64"))),
    "wholes": _seeded(
        lambda: _example(Wholes(), left=Box.uniform(-9, 9, (3,), "int64"), right=Box.uniform(-2, 2, (2,), "int8"))
    ),
}
