"""Encoders: prepared observations to features, described by plain data. A new kind of encoder is one line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from rlpipe.errors import SpecError
from rlpipe.modules.torch.chain import Chain, ChainEncoder
from rlpipe.modules.torch.feedforward import CNN, MLP, Encoder, Shape, activation, linear_stack, read_among
from rlpipe.modules.torch.multi import Inputs, Multi, MultiEncoder
from rlpipe.modules.torch.recurrent import GRU, LSTM, RecurrentEncoder
from rlpipe.snapshot.spaces import Box, Dict, Space

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "AnyEncoder",
    "Chain",
    "ChainEncoder",
    "Encoder",
    "EncoderConfig",
    "Inputs",
    "Multi",
    "MultiEncoder",
    "RecurrentEncoder",
    "Shape",
    "activation",
    "input_shape",
    "linear_stack",
    "read_encoder",
    "sees_parts",
]

EncoderConfig: TypeAlias = MLP | CNN | Chain | Multi | LSTM | GRU
AnyEncoder: TypeAlias = Encoder | ChainEncoder | MultiEncoder | RecurrentEncoder
_TYPES: MappingProxyType[str, type[EncoderConfig]] = MappingProxyType(
    {kind.type: kind for kind in (Chain, CNN, GRU, LSTM, MLP, Multi)}
)


def read_encoder(value: Any, *, where: str) -> EncoderConfig:
    """The encoder config of a plain mapping with a `type`.

    Raises:
        SpecError: Unknown type or field, or a value that does not fit.
    """
    return read_among(value, _TYPES, where=where)


def input_shape(space: Space) -> Inputs:
    """The shape of prepared observations that an encoder can take, or of each part of them.

    Raises:
        SpecError: They are no float arrays.
    """
    if isinstance(space, Dict) and all(isinstance(part, Box) for part in space.spaces.values()):
        return {key: _shape(part) for key, part in space.spaces.items()}
    return _shape(space)


def _shape(space: Space) -> Shape:
    if isinstance(space, Box) and space.dtype.kind == "f":
        return space.shape
    raise SpecError(
        "an encoder cannot take these observations",
        expected="a Box of floats, or a Dict of them",
        found=space.describe(),
        fix="put observation stages before the module: default_observation_stages(space)",
    )


def sees_parts(*encoders: Any) -> bool:
    """Whether one of these encoders, as a config has them, takes observations with parts."""
    kinds = [_kind(encoder) for encoder in encoders]
    before = [_kind(_field(encoder, "before")) for encoder in encoders]
    return Multi.type in (*kinds, *before)


def _kind(encoder: Any) -> Any:
    return _field(encoder, "type")


def _field(encoder: Any, name: str) -> Any:
    return encoder.get(name) if isinstance(encoder, Mapping) else getattr(encoder, name, None)
