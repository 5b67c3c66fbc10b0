"""The encoder of observations with several parts: for each part an encoder, their features behind each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import torch
from torch import nn

from rlpipe.errors import SpecError, listed
from rlpipe.modules.torch.feedforward import CNN, MLP, Encoder, FeedForward, Shape, read_among

Inputs: TypeAlias = Shape | Mapping[str, Shape]
"""Shape of one prepared observation, or of each part of it."""

_PARTS: MappingProxyType[str, type[FeedForward]] = MappingProxyType({"cnn": CNN, "mlp": MLP})


class MultiEncoder(nn.Module):
    """Encoders side by side, and one behind them where asked for.

    Attributes:
        parts: One for each key, sorted by key; their parameters lie at `parts/0`, `parts/1`, ...
        after: From all features to the features; absent without.
        out_features: Length of the feature vector.
    """

    def __init__(self, keys: tuple[str, ...], parts: list[Encoder], after: MLP | None) -> None:
        super().__init__()
        self.keys = keys
        self.parts = nn.ModuleList(parts)
        width = sum(part.out_features for part in parts)
        self.after = None if after is None else after.build((width,))
        self.out_features = width if self.after is None else self.after.out_features

    def forward(self, input: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: A002 - as in every encoder
        """Parts (B, ...) by key to features (B, out_features)."""
        # An encoder without layers does not flatten images.
        found = [part(input[key]).flatten(1) for key, part in zip(self.keys, self.parts, strict=True)]
        features = torch.cat(found, dim=1)
        return features if self.after is None else self.after(features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multi:
    """For each part of a Dict an encoder; features are behind each other in the order of the sorted keys.

    Attributes:
        encoders: Key -> encoder; keys that are not named get one of the two below.
        image: Encoder of parts with three axes.
        vector: Encoder of all others.
        after: Layers behind all of them, a mlp, or None.
    """

    encoders: Mapping[str, FeedForward] = field(default_factory=dict)
    image: FeedForward = field(default_factory=CNN)
    vector: FeedForward = field(default_factory=lambda: MLP(hidden=()))
    after: MLP | None = None

    type: ClassVar[str] = "multi"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.encoders, Mapping):
            expected = "a mapping of keys to encoders"
            raise SpecError("encoders of a multi are none", expected=expected, found=repr(self.encoders)[:80])
        named = {
            str(key): read_among(value, _PARTS, where=f"encoders.{key} of a multi")
            for key, value in sorted(self.encoders.items())
        }
        object.__setattr__(self, "encoders", named)
        for name in ("image", "vector"):
            object.__setattr__(self, name, read_among(getattr(self, name), _PARTS, where=f"{name} of a multi"))
        if self.after is not None:
            object.__setattr__(self, "after", read_among(self.after, {"mlp": MLP}, where="after of a multi"))

    @property
    def activation(self) -> str:
        """That of the layers nearest to the features."""
        return (self.after or self.vector).activation

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_encoder`."""
        return {
            "type": self.type,
            "encoders": {key: encoder.to_json() for key, encoder in self.encoders.items()},
            "image": self.image.to_json(),
            "vector": self.vector.to_json(),
            "after": self.after and self.after.to_json(),
        }

    def build(self, shape: Inputs) -> MultiEncoder:
        """The network for a dict of inputs (B, *shape).

        Raises:
            SpecError: The observation has no parts, or an encoder is named for one that is not there.
        """
        if not isinstance(shape, Mapping):
            expected = "a Dict or Tuple of observations"
            raise SpecError("a multi encoder takes observations with parts", expected=expected, found=f"shape {shape}")
        if strange := self.encoders.keys() - shape.keys():
            expected = listed(shape)
            raise SpecError("a multi encoder names parts that are not there", expected=expected, found=listed(strange))
        keys = tuple(sorted(shape))
        return MultiEncoder(keys, [self._of(key, shape[key]).build(shape[key]) for key in keys], self.after)

    def _of(self, key: str, shape: Shape) -> FeedForward:
        return self.encoders.get(key, self.image if len(shape) == 3 else self.vector)
