"""Encoders one behind the other, where one alone does not say it: other activations, layers behind an image's."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import nn

from rlpipe.errors import SpecError
from rlpipe.modules.torch.feedforward import CNN, MLP, Encoder, FeedForward, read_among
from rlpipe.modules.torch.multi import Inputs

_LINKS: MappingProxyType[str, type[FeedForward]] = MappingProxyType({"cnn": CNN, "mlp": MLP})


class ChainEncoder(nn.Sequential):
    """Encoders one behind the other; their parameters lie at `0/...`, `1/...`.

    Attributes:
        out_features: Length of the feature vector, that of the last.
    """

    def __init__(self, links: list[Encoder]) -> None:
        super().__init__(*links)
        self.out_features = links[-1].out_features

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name of nn.Sequential
        """(B, ...) float to features (B, out_features)."""
        features: torch.Tensor = super().forward(input)  # type: ignore[no-untyped-call]
        return features


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Encoders `links`, at least one, each fed with the features of the one before it: mlp or cnn, a cnn only first."""

    links: tuple[FeedForward, ...]

    type: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        """Check the fields."""
        if not isinstance(self.links, (list, tuple)) or not self.links:
            found = repr(self.links)[:80]
            raise SpecError("links of a chain are none", expected="a list of encoders, at least one", found=found)
        links = [read_among(link, _LINKS, where=f"links.{place} of a chain") for place, link in enumerate(self.links)]
        if any(isinstance(link, CNN) for link in links[1:]):
            expected = "a mlp behind the first link"
            raise SpecError("a chain has a cnn behind features", expected=expected, found="a cnn")
        object.__setattr__(self, "links", tuple(links))

    @property
    def activation(self) -> str:
        """That of the layers nearest to the features."""
        return self.links[-1].activation

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, the inverse of `read_encoder`."""
        return {"type": self.type, "links": [link.to_json() for link in self.links]}

    def build(self, shape: Inputs) -> ChainEncoder:
        """The network for inputs (B, *shape).

        Raises:
            SpecError: The first link does not take them.
        """
        links: list[Encoder] = []
        for link in self.links:
            links.append(link.build(shape))
            shape = (links[-1].out_features,)
        return ChainEncoder(links)
