from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.modules.torch.encoders import activation

# GLU halves its input, RReLU and Dropout-like ones draw numbers, Softmax needs an axis, PReLU has a parameter.
LEFT_OUT = {"GLU", "RReLU", "Softmax", "Softmax2d", "Softmin", "LogSoftmax", "PReLU", "Threshold", "MultiheadAttention"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_name_is_an_activation_without_parameters(name: str) -> None:
    module = activation(name)
    assert not list(module.parameters())
    x = torch.linspace(-3, 3, 13)
    assert module(x).shape == x.shape


def test_every_activation_of_torch_is_named() -> None:
    found = {
        name for name, kind in inspect.getmembers(nn.modules.activation, inspect.isclass) if issubclass(kind, nn.Module)
    }
    known = {name for name in found if name in nn.__dict__ and name not in ("Module", "Parameter")} - LEFT_OUT
    assert known == set(ACTIVATIONS.values()) - {"Identity"}
