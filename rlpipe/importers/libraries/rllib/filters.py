"""What RLlib's settings say of convolutions, beside their weights.

Sources: TorchCNN in ray/rllib/core/models/torch/primitives.py, get_filter_config() in ray/rllib/models/utils.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from rlpipe.errors import ForeignFormatError

_STRIDES: Mapping[tuple[int, int], tuple[int, ...]] = MappingProxyType(
    {(96, 96): (4, 2, 2), (84, 84): (4, 2, 1), (64, 64): (2, 2, 2, 2), (42, 42): (2, 2, 1), (10, 10): (2, 2)}
)
"""Height and width -> strides of the filters that get_filter_config() in ray/rllib/models/utils.py gives images."""

Margins: TypeAlias = tuple[int, int, int, int]
"""Zeros at the left, right, top and bottom of an image."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What the weights of a convolution do not say.

    Attributes:
        stride: In both directions.
        is_padded: With zeros around the image, so that it keeps its size but for the stride.
    """

    stride: int
    is_padded: bool


def filters_of(given: Any, sides: tuple[int, ...], *, subject: str) -> tuple[Filter, ...]:
    """What the settings say of filters; RLlib has some of its own for images of well known sizes.

    Args:
        given: `conv_filters` of a module: [outputs, size, stride] of each, or with "same" or "valid" behind that.
        sides: Height and width of the image.
        subject: How errors name the module.

    Raises:
        ForeignFormatError: They are of another form, or nothing is known of images of this size.
    """
    if not given and sides in _STRIDES:
        return tuple(Filter(stride, is_padded=True) for stride in _STRIDES[sides])  # type: ignore[index]
    try:
        return tuple(map(_filter, given))
    except (TypeError, ValueError):
        raise ForeignFormatError(
            f"conv_filters of {subject} cannot be imported",
            expected="[outputs, size, stride] for each filter, with one stride for both directions",
            found=repr(given)[:80],
            fix="build an RLModule with the same network and load the weights into it",
        ) from None


def _filter(given: Any) -> Filter:
    _, _, stride, *padding = given
    strides = {stride} if isinstance(stride, (int, np.integer)) else set(stride)
    (only,) = strides
    if padding not in ([], ["same"], ["valid"]) or only < 1:
        raise ValueError
    return Filter(int(only), is_padded=padding != ["valid"])


def filter_places(filters: Iterable[Filter], *, has_activations: bool) -> list[str]:
    """Where each filter lies in the nn.Sequential of TorchCNN: padding and activations take places of their own."""
    places, place = list[str](), 0
    for one in filters:
        place += one.is_padded
        places.append(str(place))
        place += 1 + has_activations
    return places
