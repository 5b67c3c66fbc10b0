"""The activations that architectures name: every one of torch.nn that needs no arguments and has no parameters."""

from __future__ import annotations

from types import MappingProxyType

ACTIVATIONS = MappingProxyType(
    {
        "celu": "CELU",
        "elu": "ELU",
        "gelu": "GELU",
        "hardshrink": "Hardshrink",
        "hardsigmoid": "Hardsigmoid",
        "hardswish": "Hardswish",
        "hardtanh": "Hardtanh",
        "identity": "Identity",
        "leaky_relu": "LeakyReLU",
        "logsigmoid": "LogSigmoid",
        "mish": "Mish",
        "relu": "ReLU",
        "relu6": "ReLU6",
        "selu": "SELU",
        "sigmoid": "Sigmoid",
        "silu": "SiLU",
        "softplus": "Softplus",
        "softshrink": "Softshrink",
        "softsign": "Softsign",
        "tanh": "Tanh",
        "tanhshrink": "Tanhshrink",
    }
)
"""Name in a config -> name in torch.nn. A table without torch, so that importers can read it backwards."""
