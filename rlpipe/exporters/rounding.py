"""How far a policy's own float32 rounding reaches: its sums computed again with every factor slightly off.

A fixed tolerance is wrong at both ends. Where large terms cancel, two correct runtimes differ by more than it; where a
decision hangs on the last bit, either answer is right. Both are recognised by what the policy itself does when the
factors of its sums move by a few units in the last place (Monte Carlo arithmetic, Parker 1997). Only sums are moved:
a normaliser that subtracts large means inexactly is a bug and stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from rlpipe.exporters.target import Arrays

_RUNS = 16
# fmt: off
_SUMS = frozenset((
    "addmm", "addmv", "baddbmm", "bilinear", "bmm", "conv1d", "conv2d", "conv3d", "convolution", "dot", "einsum", "gru",
    "gru_cell", "linear", "lstm", "lstm_cell", "matmul", "mean", "mm", "mv", "rnn_relu", "rnn_tanh",
    "scaled_dot_product_attention", "sum", "tensordot",
))
# fmt: on


class _MovedSums(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves every factor of a sum by a random relative amount of at most `relative`."""

    def __init__(self, relative: float, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._relative = relative
        self._generator = generator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        if func.overloadpacket.__name__ in _SUMS:
            args = tree_map_only(torch.Tensor, self._moved, args)
        return func(*args, **(kwargs or {}))

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.rand(tensor.shape, generator=self._generator, dtype=torch.float32)
        return tensor * (1 + (2 * noise - 1) * self._relative).to(tensor.dtype)


def perturbed(compute: Callable[[], Arrays], relative: float) -> Iterator[Arrays]:
    """What `compute`, which runs torch on the CPU, answers when its sums are off by `relative`; 16 fixed draws.

    Args:
        compute: Gives the policy's actions by flat name for some observations.
        relative: Largest relative move of a factor.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(_RUNS):
        with _MovedSums(relative, generator):
            yield compute()
