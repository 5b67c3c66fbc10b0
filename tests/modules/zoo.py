"""Modules that hold everything a torch module may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from rlpipe.modules.torch.rl_module import RLModule

DTYPES = (
    *(
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
    ),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
)
SHAPES: Mapping[str, Any] = {
    "row": lambda tensor: tensor,
    "turned": lambda tensor: tensor.reshape(4, 6).t(),
    "strided": lambda tensor: tensor[1::3],
    "empty": lambda tensor: tensor[:0].reshape(0, 3),
    "single": lambda tensor: tensor[5],
    "channels_last": lambda tensor: tensor.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
}
EXTRAS: Mapping[str, Any] = {
    "dict": {"scale": 1.5, "names": ["a", ("b", None)], "empty": {}},
    "tuple": (1, True, b"\0raw", 2**70),
    "text": "\u00fcn\u00ef",
    "tensor": torch.tensor([1.5, -0.0]),
    "empty": {},
}


class Headed(RLModule):
    """Acts by its head alone."""

    def setup(self) -> None:
        self.head = nn.Linear(3, 2)

    def forward_inference(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {"logits": self.head(batch["obs"])}


class Zoo(Headed):
    """A buffer of every dtype in every layout, of any bits."""

    def setup(self) -> None:
        super().setup()
        raw = torch.arange(24 * 16).remainder(251).to(torch.uint8)
        for name in DTYPES:
            flat = raw > 100 if name == "bool" else raw.view(getattr(torch, name))
            for shape, view in SHAPES.items():
                self.register_buffer(f"{name}_{shape}", view(flat[:24]))


class Extra(nn.Module):
    """Something beside its tensors, as quantised and sharded layers have."""

    def __init__(self, extra: Any) -> None:
        super().__init__()
        self.extra = extra

    def get_extra_state(self) -> Any:
        return self.extra

    def set_extra_state(self, state: Any) -> None:
        self.extra = state


class WithExtras(Headed):
    """A part for each kind of extra state."""

    def setup(self) -> None:
        super().setup()
        self.parts = nn.ModuleDict({name: Extra(value) for name, value in EXTRAS.items()})
