"""Encoders: prepared observations to features, described by plain data. A new kind of encoder is one line here."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeAlias

from rlpipe.errors import SpecError
from rlpipe.modules.torch.feedforward import CNN, MLP, Encoder, Shape, activation, linear_stack, read_among
from rlpipe.modules.torch.recurrent import GRU, LSTM, RecurrentEncoder
from rlpipe.snapshot.spaces import Box, Space

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "AnyEncoder",
    "Encoder",
    "EncoderConfig",
    "RecurrentEncoder",
    "Shape",
    "activation",
    "input_shape",
    "linear_stack",
    "read_encoder",
]

EncoderConfig: TypeAlias = MLP | CNN | LSTM | GRU
AnyEncoder: TypeAlias = Encoder | RecurrentEncoder
_TYPES: MappingProxyType[str, type[EncoderConfig]] = MappingProxyType(
    {kind.type: kind for kind in (CNN, GRU, LSTM, MLP)}
)


def read_encoder(value: Any, *, where: str) -> EncoderConfig:
    """The encoder config of a plain mapping with a `type`.

    Raises:
        SpecError: Unknown type or field, or a value that does not fit.
    """
    return read_among(value, _TYPES, where=where)


def input_shape(space: Space) -> Shape:
    """The shape of prepared observations that an encoder can take.

    Raises:
        SpecError: They are no float arrays.
    """
    if isinstance(space, Box) and space.dtype.kind == "f":
        return space.shape
    raise SpecError(
        "an encoder cannot take these observations",
        expected="a Box of floats",
        found=space.describe(),
        fix="put observation stages before the module: default_observation_stages(space)",
    )
