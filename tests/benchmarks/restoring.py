"""A live object of tensors, for measuring restores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

from rlpipe.checkpoint.restorable import Restorable
from rlpipe.snapshot import Role, Spec
from rlpipe.snapshot.state import Array, State, from_dotted

SHAPES = {f"w{index:02}.weight": (4096, 4096) for index in range(16)}


class Tensors(Restorable):
    """Tensors that nothing was computed for: what a restore costs beside building a module."""

    def __init__(self) -> None:
        self.tensors = {name: torch.empty(shape) for name, shape in SHAPES.items()}

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        return Spec(f"{__name__}.Tensors")

    def get_own_state(self) -> State:
        """See `Restorable`."""
        return from_dotted({name: tensor.numpy() for name, tensor in self.tensors.items()})

    def get_own_roles(self) -> Mapping[str, Role]:
        """See `Restorable`."""
        return dict.fromkeys((name.replace(".", "/") for name in self.tensors), "inference")

    def get_own_memory(self) -> Mapping[str, Array]:
        """See `Restorable`."""
        return {name.replace(".", "/"): tensor.numpy() for name, tensor in self.tensors.items()}

    def set_own_state(self, state: State) -> None:
        """See `Restorable`; everything is there already."""

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del spec, children, device, trust
        return cls()
