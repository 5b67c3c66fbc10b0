"""Encoders without memory: arrays to features, described by plain data.

Every one is an `nn.Sequential`, so its parameters lie at `0/weight`, `0/bias`, `2/weight`, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.activations import ACTIVATIONS
from rlpipe.modules.fields import choice, read_fields, wholes

Shape: TypeAlias = tuple[int, ...]
Margins: TypeAlias = tuple[int, int, int, int]
T = TypeVar("T")
_NO_MARGINS = (0, 0, 0, 0)


class Encoder(nn.Sequential):
    """A stack of layers that knows the width of its features.

    Attributes:
        out_features: Length of the feature vector.
    """

    def __init__(self, layers: list[nn.Module], *, out_features: int) -> None:
        super().__init__(*layers)
        self.out_features = out_features


class MLPEncoder(Encoder):
    """Linear layers, each with an activation behind it; without layers it is the identity."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name of nn.Sequential
        """(B, ...) float to features (B, out_features); what lies behind the batch axis is flattened."""
        features: torch.Tensor = super().forward(input.flatten(1))  # type: ignore[no-untyped-call]
        return features


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """Linear layers of the widths `hidden`, each followed by the activation. `hidden=()` is the identity."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"

    type: ClassVar[str] = "mlp"

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "hidden", wholes(self.hidden, where="hidden of a mlp", least=1))
        choice(self.activation, ACTIVATIONS, where="activation of a mlp")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_among`."""
        return {"type": self.type, "hidden": list(self.hidden), "activation": self.activation}

    def build(self, shape: Shape | Mapping[str, Shape]) -> Encoder:
        """The network for inputs (B, *shape)."""
        shape = one_shape(shape, where=self.type)
        return MLPEncoder(
            linear_stack(prod(shape), self.hidden, self.activation),
            out_features=self.hidden[-1] if self.hidden else prod(shape),
        )


class PaddedConv2d(nn.Conv2d):
    """A convolution of an image with zeros around it, on each side as many as that side is given.

    Attributes:
        margins: Zeros at the left, right, top and bottom.
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int, *, margins: Margins) -> None:
        super().__init__(channels, out, kernel, stride)
        self.margins = margins

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name of nn.Conv2d
        """(B, channels, height, width) to (B, out, ...)."""
        return super().forward(nn.functional.pad(input, self.margins))


@dataclass(frozen=True, slots=True, kw_only=True)
class CNN:
    """Convolutions, then linear layers, with an activation behind each.

    Attributes:
        filters: (out channels, kernel, stride) of each convolution.
        hidden: Widths of the linear layers.
        activation: Behind every layer.
        padding: Zeros at the left, right, top and bottom of what each convolution sees, below 0 lines that it does not
            see; None: none anywhere.
    """

    filters: tuple[tuple[int, int, int], ...] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    hidden: tuple[int, ...] = (512,)
    activation: str = "relu"
    padding: tuple[Margins, ...] | None = None

    type: ClassVar[str] = "cnn"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.filters, (list, tuple)):
            expected = "a list of [channels, kernel, stride]"
            raise SpecError("filters of a cnn are no list", expected=expected, found=repr(self.filters)[:80])
        object.__setattr__(self, "filters", tuple(map(_filter, self.filters)))
        object.__setattr__(self, "hidden", wholes(self.hidden, where="hidden of a cnn", least=1))
        choice(self.activation, ACTIVATIONS, where="activation of a cnn")
        if self.padding is not None:
            object.__setattr__(self, "padding", _padding(self.padding, len(self.filters)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_among`; padding only where there is some, as specs always had it."""
        return {
            "type": self.type,
            "filters": [list(layer) for layer in self.filters],
            "hidden": list(self.hidden),
            "activation": self.activation,
            **({"padding": [list(margins) for margins in self.padding]} if self.padding is not None else {}),
        }

    def build(self, shape: Shape | Mapping[str, Shape]) -> Encoder:
        """The network for inputs (B, channels, height, width).

        Raises:
            SpecError: The inputs are no images, or too small for the filters.
        """
        shape = one_shape(shape, where=self.type)
        if len(shape) != 3:
            raise SpecError("a cnn encoder takes images", expected="shape (channels, height, width)", found=str(shape))
        layers: list[nn.Module] = []
        channels, height, width = shape
        for (out, kernel, stride), margins in zip(self.filters, self._margins(), strict=True):
            layers += [_convolution(channels, out, kernel, stride, margins), activation(self.activation)]
            channels = out
            left, right, top, bottom = margins
            height, width = ((side - kernel) // stride + 1 for side in (height + top + bottom, width + left + right))
            _require_room(height, width, shape, self.filters)
        flat = channels * height * width
        layers += [nn.Flatten(), *linear_stack(flat, self.hidden, self.activation)]
        return Encoder(layers, out_features=self.hidden[-1] if self.hidden else flat)

    def _margins(self) -> tuple[Margins, ...]:
        return self.padding if self.padding is not None else (_NO_MARGINS,) * len(self.filters)


def _convolution(channels: int, out: int, kernel: int, stride: int, margins: Margins) -> nn.Conv2d:
    if margins == _NO_MARGINS:
        return nn.Conv2d(channels, out, kernel, stride)
    return PaddedConv2d(channels, out, kernel, stride, margins=margins)


def _padding(value: Any, count: int) -> tuple[Margins, ...]:
    layers = value if isinstance(value, (list, tuple)) else ()
    margins = [wholes(layer, where="padding of a cnn") for layer in layers]
    if len(margins) != count or any(len(layer) != 4 for layer in margins):
        expected = f"[left, right, top, bottom] for each of {count} filters, or null"
        raise SpecError("padding of a cnn does not fit its filters", expected=expected, found=repr(value)[:80])
    return tuple((left, right, top, bottom) for left, right, top, bottom in margins)


def _filter(layer: Any) -> tuple[int, int, int]:
    numbers = wholes(layer, where="a filter of a cnn", least=1)
    if len(numbers) != 3:
        raise SpecError("a filter of a cnn has three numbers", expected="[channels, kernel, stride]", found=str(layer))
    return (numbers[0], numbers[1], numbers[2])


def _require_room(height: int, width: int, shape: Shape, filters: Any) -> None:
    if min(height, width) < 1:
        raise SpecError(
            "the image is too small for the filters", expected=f"room for {filters}", found=f"shape {shape}"
        )


def one_shape(shape: Shape | Mapping[str, Shape], *, where: str) -> Shape:
    """The shape of an observation without parts.

    Raises:
        SpecError: It has parts.
    """
    if not isinstance(shape, Mapping):
        return shape
    raise SpecError(
        f"a {where} encoder takes one array",
        expected="an observation without parts",
        found=f"the parts {', '.join(shape)}",
        fix="name an encoder of type multi for it: {type: multi}",
    )


FeedForward: TypeAlias = MLP | CNN


def read_among(value: Any, kinds: Mapping[str, type[T]], *, where: str) -> T:
    """The encoder config of a plain mapping with a `type`, one of `kinds`; a config comes back as it is.

    Raises:
        SpecError: Unknown type or field, or a value that does not fit.
    """
    if isinstance(value, tuple(kinds.values())):
        return cast("T", value)
    if not isinstance(value, Mapping):
        raise SpecError(f"{where} is no encoder", expected="a mapping with a type", found=repr(value)[:80])
    rest = dict(value)
    kind = choice(rest.pop("type", None), kinds, where=f"{where}.type")
    return read_fields(kinds[kind], rest, where=where)


def activation(name: str) -> nn.Module:
    """A fresh activation module by its name in a config."""
    module: nn.Module = getattr(nn, ACTIVATIONS[name])()
    return module


def linear_stack(width: int, hidden: tuple[int, ...], act: str) -> list[nn.Module]:
    """Linear layers from `width` through `hidden`, each with an activation behind it."""
    layers = [(nn.Linear(left, right), activation(act)) for left, right in pairwise((width, *hidden))]
    return [module for pair in layers for module in pair]
