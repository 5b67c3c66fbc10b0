"""Attributes that a policy changes when it acts, and caches that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.freeze import freeze
from tests.exporters.graphs import Example, unbounded

Act = Callable[[Any], None]


class Net(nn.Module):
    """(B, 4) -> (B, 2), and something on the side."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.layer, self.act = nn.Linear(4, 2), act
        self.k, self.flag, self.word, self.nothing = 0, True, "a", None
        self.kept: list[int] = []
        self.table: dict[Any, Any] = {"inner": [0]}
        self.array = np.full(3, np.nan)
        self.shapes: dict[Any, Any] = {}

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.act(self)
        self.size = obs.shape[1]
        self.shapes[len(obs)] = obs.shape[1]
        return self.layer(obs) + 1e-3 * (self.k > 40)


class Around(nn.Module):
    def __init__(self, act: Act) -> None:
        super().__init__()
        self.net = Net(act)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.net(obs)
        return found


def _count(net: Any) -> None:
    net.k += 1


def _once(net: Any) -> None:
    net.flag = False


def _grow(net: Any) -> None:
    net.word += "a"


def _append(net: Any) -> None:
    net.kept.append(1)


def _inside(net: Any) -> None:
    net.table["inner"][0] += 1


def _in_place(net: Any) -> None:
    net.array[0] = 1.0


def _tensors(net: Any) -> None:
    net.table["seen"] = net.table.get("seen", torch.zeros(1)) + 1


def _nothing(net: Any) -> None:
    del net


def _lazily(net: Any) -> None:
    if net.nothing is None:
        net.nothing = 5


def _frozen(act: Act) -> nn.Module:
    example = Example(Around(act), unbounded(4), unbounded(2))
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    return freeze(Around(act), example.signature, {"obs": obs})


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (_count, "net.k"),
        (_once, "net.flag"),
        (_grow, "net.word"),
        (_append, "net.kept"),
        (_inside, "net.table"),
        (_in_place, "net.array"),
        (_tensors, "net.table"),
    ],
)
def test_an_attribute_that_acting_changes_is_named(act: Act, name: str) -> None:
    with pytest.raises(UnsupportedModuleError, match="changes its own attributes when it acts") as caught:
        _frozen(act)
    assert caught.value.found == name


@pytest.mark.parametrize("act", [_nothing, _lazily])
def test_what_is_filled_once_is_a_cache(act: Act) -> None:
    assert _frozen(act)(torch.zeros(1, 4)).shape == (1, 2)
