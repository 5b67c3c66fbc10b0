"""RLlib's convolutions as those of rlpipe's encoders.

Sources: TorchCNN in ray/rllib/core/models/torch/primitives.py, same_padding() in ray/rllib/models/torch/misc.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from rlpipe.importers.libraries.rllib.filters import Filter, Margins
from rlpipe.importers.libraries.rllib.settings import Shape
from rlpipe.importers.libraries.rllib.weights import Layer, Stack, Tensors
from rlpipe.importers.untaken import Entries
from rlpipe.snapshot.state import Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Images:
    """Convolutions with an activation behind each.

    Attributes:
        stack: The layers; weights are (outputs, inputs, size, size).
        strides: Of each layer.
        padding: Zeros around what each layer sees.
        activation: Behind each of them.
        made: Channels, height and width of what comes out.
        order: Where each of the features lies among RLlib's.
    """

    stack: Stack
    strides: tuple[int, ...]
    padding: tuple[Margins, ...]
    activation: str
    made: tuple[int, int, int]
    order: Array

    def config(self) -> dict[str, Any]:
        """As rlpipe's encoders are described."""
        layers = zip(self.stack.layers, self.strides, strict=True)
        filters = [[len(bias), weight.shape[2], stride] for (weight, bias), stride in layers]
        padding = {"padding": [list(margins) for margins in self.padding]} if any(map(any, self.padding)) else {}
        return {"type": "cnn", "filters": filters, "hidden": [], "activation": self.activation, **padding}

    def entries(self, key: str) -> Entries:
        """The weights under a key."""
        return self.stack.entries(key)


def channels_last(images: Images) -> Images:
    """The same, where the features were taken from images with their channels last."""
    channels, height, width = images.made
    places = np.arange(prod(images.made)).reshape(height, width, channels)
    return replace(images, order=places.transpose(2, 0, 1).reshape(-1))


def convolutions(tensors: Tensors, names: Sequence[str], shape: Shape) -> Images:
    """Take convolutions, one for each filter of the settings.

    Raises:
        ForeignFormatError: They are not as the settings say, or the observations are no images.
    """
    if shape.image is None or len(names) != len(shape.filters):
        found = f"{len(names)} of them, over {shape.features} numbers"
        raise tensors.misfit("convolutions", f"{len(shape.filters)} of them, over images", found)
    made, layers = shape.image, list[Layer]()
    padding: list[Margins] = []
    for name, one in zip(names, shape.filters, strict=True):
        weight, bias = tensors.convolution(name, channels=made[0])
        padding.append(_margins(one, weight.shape[2], made[1:]))
        made = _after(made, one, weight, padding[-1])
        layers.append((weight, bias))
    return Images(
        stack=Stack(tuple(layers)),
        strides=tuple(one.stride for one in shape.filters),
        padding=tuple(padding),
        activation=shape.image_activation,
        made=made,
        order=np.arange(prod(made)),
    )


def _margins(one: Filter, size: int, sides: tuple[int, int]) -> Margins:
    """Zeros at the left, right, top and bottom that keep an image's size but for the stride; below 0 they cut."""
    if not one.is_padded:
        return (0, 0, 0, 0)
    top, left = ((-(-side // one.stride) - 1) * one.stride + size - side for side in sides)
    return (left // 2, left - left // 2, top // 2, top - top // 2)


def _after(made: tuple[int, int, int], one: Filter, weight: Array, margins: Margins) -> tuple[int, int, int]:
    left, right, top, bottom = margins
    _, height, width = made
    size = weight.shape[2]
    return (
        len(weight),
        (height + top + bottom - size) // one.stride + 1,
        (width + left + right - size) // one.stride + 1,
    )
