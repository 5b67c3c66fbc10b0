"""A state dict of Stable-Baselines3, taken apart network by network until nothing is left over."""

from __future__ import annotations

from typing import TypeAlias

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.importers.libraries.stable_baselines3.container import is_floating
from rlpipe.importers.untaken import Entries, Untaken
from rlpipe.snapshot.state import Array

Widths: TypeAlias = tuple[int, ...]
"""Sizes of the hidden layers."""


class Weights(Untaken):
    """The tensors of a policy that no one has taken yet."""

    thing = "policy"
    networks = "the networks of MlpPolicy"
    fix = "policies with custom networks cannot be imported; build an RLModule and load the weights into it"

    def tensor(self, name: str, *, dimensions: int) -> Array:
        """Take one tensor.

        Raises:
            ForeignFormatError: It is not there, has another number of dimensions, or holds no floats.
        """
        if name not in self._left or self._left[name].ndim != dimensions:
            raise ForeignFormatError(
                f"the weights of {self.subject} do not have {name} as expected",
                expected=f"a tensor with {dimensions} dimensions",
                found=self.found(name),
                fix="the policy is not a plain MlpPolicy, or the file was changed",
            )
        return require_floats(self.take(name), f"{name} of {self.subject}")

    def linear(self, prefix: str, key: str, *, inputs: int, outputs: int | None = None) -> Entries:
        """Take a linear layer and put it under another key.

        Raises:
            ForeignFormatError: It is not there, or has other sizes than those before and behind it ask for.
        """
        weight = self.tensor(f"{prefix}.weight", dimensions=2)
        bias = self.tensor(f"{prefix}.bias", dimensions=1)
        expected = (len(weight) if outputs is None else outputs, inputs)
        if weight.shape != expected or bias.shape != expected[:1]:
            raise ForeignFormatError(
                f"the layer {prefix} of {self.subject} does not fit the spaces and the layers before it",
                expected=f"weight {expected}, bias {expected[:1]}",
                found=f"weight {weight.shape}, bias {bias.shape}",
                fix="the file is not whole, or its spaces were changed after training",
            )
        return {f"{key}/weight": weight, f"{key}/bias": bias}

    def hidden(self, prefix: str, key: str, *, inputs: int) -> tuple[Widths, Entries]:
        """Take a stack of linear layers, each with an activation behind it.

        Args:
            prefix: Name of the nn.Sequential; without layers it is the identity.
            key: Where its layers go, under the same numbers.
            inputs: Width of what goes in.

        Returns:
            The widths of the layers, and the entries.

        Raises:
            ForeignFormatError: There is more in it than linear layers.
        """
        return self._stack(prefix, key, self._numbers(prefix), inputs)

    def network(self, prefix: str, key: str, head: str, *, inputs: int, outputs: int) -> tuple[Widths, Entries]:
        """As `hidden`, for a stack that ends in a linear layer without activation, which goes to `head`."""
        *numbers, last = self._numbers(prefix) or [0]
        widths, entries = self._stack(prefix, key, numbers, inputs)
        width = widths[-1] if widths else inputs
        return widths, entries | self.linear(f"{prefix}.{last}", head, inputs=width, outputs=outputs)

    def _numbers(self, prefix: str) -> list[int]:
        """The places of the layers in an nn.Sequential."""
        parts = {name.removeprefix(f"{prefix}.").split(".")[0] for name in self._left if name.startswith(f"{prefix}.")}
        if parts != {str(2 * index) for index in range(len(parts))}:
            raise ForeignFormatError(
                f"the network {prefix} of {self.subject} is not a plain stack of layers",
                expected="linear layers at 0, 2, 4 ..., with activations without parameters between them",
                found=f"parameters at {listed(parts)}",
                fix="networks with normalisation layers, PReLU or other extras cannot be imported",
            )
        return sorted(map(int, parts))

    def _stack(self, prefix: str, key: str, numbers: list[int], inputs: int) -> tuple[Widths, Entries]:
        entries: Entries = {}
        widths: list[int] = []
        for number in numbers:
            entries |= self.linear(f"{prefix}.{number}", f"{key}/{number}", inputs=widths[-1] if widths else inputs)
            widths.append(len(entries[f"{key}/{number}/bias"]))
        return tuple(widths), entries


def require_floats(array: Array, subject: str) -> Array:
    """The array, if its numbers are real floats: what a network computes with.

    Raises:
        ForeignFormatError: They are whole, complex or truth values.
    """
    if not is_floating(array):
        raise ForeignFormatError(
            f"{subject} holds no floats",
            expected="a float dtype, as the trainer saves weights",
            found=str(array.dtype),
            fix="the file was changed after training: save the model again with model.save()",
        )
    return array
