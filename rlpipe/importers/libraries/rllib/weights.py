"""The tensors of an RLlib module, taken apart network by network until nothing is left over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.importers.untaken import Entries, Untaken
from rlpipe.snapshot.state import Array

Layer: TypeAlias = tuple[Array, Array]
"""Weight (outputs, inputs) and bias (outputs,)."""

CLIP_BUFFER = "log_std_clip_param_const"
_FIX = "networks with other layers than RLlib's default ones cannot be imported; build an RLModule and load them"


@dataclass(frozen=True, slots=True)
class Stack:
    """Linear layers, one behind the other."""

    layers: tuple[Layer, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Outputs of each layer."""
        return tuple(len(bias) for _, bias in self.layers)

    def entries(self, key: str, *, start: int = 0) -> Entries:
        """The layers as rlpipe numbers them, every second one an activation."""
        found: Entries = {}
        for index, layer in enumerate(self.layers):
            found |= as_linear(layer, f"{key}/{2 * (start + index)}")
        return found


def as_linear(layer: Layer, key: str) -> Entries:
    """A linear layer under a key."""
    weight, bias = layer
    return {f"{key}/weight": weight, f"{key}/bias": bias}


class Tensors(Untaken):
    """The tensors of a module that no one has taken yet.

    Args:
        named: Dotted name -> array.
        subject: How errors name the module.

    Attributes:
        skipped: Names of those that were left out -> why.

    Raises:
        ForeignFormatError: There is something else than arrays of floats.
    """

    thing = "module"
    networks = "the networks of RLlib's default module"
    fix = _FIX

    def __init__(self, named: Mapping[Any, Any], *, subject: str) -> None:
        strange = [str(name) for name, value in named.items() if not _is_tensor(name, value)]
        if strange or not named:
            raise ForeignFormatError(
                f"{subject} holds no weights of a torch module",
                expected="names, and an array of floats for each",
                found=listed(strange) or "nothing",
                fix="a module that keeps none, or one of another framework, cannot be imported",
            )
        super().__init__({name: np.asarray(value, np.float32) for name, value in named.items()}, subject=subject)
        self.skipped: dict[str, str] = {}

    def size_of(self, name: str) -> int:
        """Length of the last axis of a tensor that is left; 0 for one without axes, or that is not there."""
        return (0, *self._left[name].shape)[-1] if name in self._left else 0

    def has_ending(self, ending: str) -> bool:
        """Whether the name of a tensor that is left ends so."""
        return any(name.endswith(ending) for name in self._left)

    def take_means(self, why: str) -> None:
        """Give the means of noisy layers the names of plain ones, and leave their noise out."""
        for name in list(self._left):
            stem, _, kind = name.rpartition("_")
            if kind == "mu":
                self._left[stem] = self._left.pop(name)
            elif kind in ("sigma", "epsilon"):
                self.skip(name, why)

    def skip(self, prefix: str, why: str) -> None:
        """Leave out a tensor, or all that are below a name."""
        for name in [name for name in self._left if name == prefix or name.startswith(f"{prefix}.")]:
            self.skipped[name] = why
            del self._left[name]

    def skip_ending_in(self, ending: str, why: str) -> None:
        """Leave out all tensors whose last name is this."""
        for name in [name for name in self._left if name.rpartition(".")[2] == ending]:
            self.skipped[name] = why
            del self._left[name]

    def parameter(self, name: str, *, shape: tuple[int, ...]) -> Array:
        """Take one tensor.

        Raises:
            ForeignFormatError: It is not there, or has another shape.
        """
        if name not in self._left or self._left[name].shape != shape:
            raise self.misfit(name, f"shape {shape}", self.found(name))
        return self.take(name)

    def stack(self, prefix: str, *, inputs: int, place: Callable[[int], str]) -> Stack:
        """Take all linear layers below a prefix.

        Args:
            prefix: Name that the layers are below.
            inputs: Width of what goes into the first.
            place: Number of a layer -> its name below the prefix.

        Raises:
            ForeignFormatError: There are none, they do not fit each other, or there is more than such layers.
        """
        layers: list[Layer] = []
        for name in self.layers_below(prefix, place):
            layers.append(self.linear(name, inputs=inputs))
            inputs = len(layers[-1][1])
        return Stack(tuple(layers))

    def layers_below(self, prefix: str, place: Callable[[int], str] | Sequence[str]) -> list[str]:
        """Names of all layers below a prefix, each a weight and a bias.

        Args:
            prefix: Name that the layers are below.
            place: Number of a layer -> its name below the prefix; or the names of all.

        Raises:
            ForeignFormatError: There are none, others, or more than these.
        """
        below = {name.removeprefix(f"{prefix}.") for name in self._left if name.startswith(f"{prefix}.")}
        count = sum(name.endswith("weight") for name in below)
        places = [place(index) for index in range(count)] if callable(place) else list(place)
        expected = {f"{one}.{part}" for one in places for part in ("weight", "bias")}
        if not count or below != expected:
            raise self.misfit(prefix, f"layers {listed(expected) or 'at all'}", listed(below) or "nothing")
        return [f"{prefix}.{one}" for one in places]

    def linear(self, name: str, *, inputs: int) -> Layer:
        """Take a linear layer.

        Raises:
            ForeignFormatError: It is not there, or takes another count of numbers.
        """
        outputs = self.size_of(f"{name}.bias")
        weight = self.parameter(f"{name}.weight", shape=(outputs, inputs))
        return weight, self.parameter(f"{name}.bias", shape=(outputs,))

    def convolution(self, name: str, *, channels: int) -> Layer:
        """Take a convolution with square filters.

        Raises:
            ForeignFormatError: It does not see images of so many channels, or its filters are not square.
        """
        outputs, size = self.size_of(f"{name}.bias"), self.size_of(f"{name}.weight")
        weight = self.parameter(f"{name}.weight", shape=(outputs, channels, size, size))
        return weight, self.parameter(f"{name}.bias", shape=(outputs,))

    def misfit(self, name: str, expected: str, found: str) -> ForeignFormatError:
        """The error about a part that is not as RLlib's default networks have it."""
        return ForeignFormatError(
            f"{name} of {self.subject} is not as RLlib's default networks have it",
            expected=expected,
            found=found,
            fix=_FIX,
        )

    def not_supported(self, what: str) -> ForeignFormatError:
        """The error about networks of a kind that cannot be imported yet."""
        return ForeignFormatError(
            f"{self.subject} holds {what}, which cannot be imported",
            expected="networks of linear layers, convolutions, LSTM or GRU, as RLlib builds them by default",
            found=what,
            fix="build an RLModule with the same network and load the weights into it",
        )


def _is_tensor(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, np.ndarray) and value.dtype.kind == "f"
