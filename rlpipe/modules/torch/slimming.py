"""Taking attributes out of a torch module that only acts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import nn

COMPILED = "_orig_mod"
"""Where torch.compile keeps the module that it wraps; never part of a path."""


def clean(name: str) -> str:
    """A dotted name without the wrappers of torch.compile in it."""
    return ".".join(part for part in name.split(".") if part != COMPILED)


def remove_attributes(module: nn.Module, attributes: Collection[str]) -> None:
    """Remove the attribute at the end of each dotted path. Those that are not there are left out."""
    for path in attributes:
        *parents, last = path.split(".")
        owner = _descend(module, parents)
        if owner is not None and _owns(owner, last):
            delattr(owner, last)


def _descend(module: Any, names: list[str]) -> Any:
    for name in names:
        if not _owns(module, name):
            return None
        module = _unwrapped(getattr(module, name))
    return module


def _unwrapped(module: Any) -> Any:
    return getattr(module, COMPILED) if isinstance(module, nn.Module) and COMPILED in module._modules else module


def _owns(owner: Any, name: str) -> bool:
    held = vars(owner) if hasattr(owner, "__dict__") else {}
    return name in held or any(name in held.get(kind, {}) for kind in ("_modules", "_parameters", "_buffers"))


def view_of(module: nn.Module) -> Any:
    """The same module tree in fresh objects around the same parameters, in eval mode; buffers are copied.

    Attributes can be taken out of it, and forward passes run on it, without a trace in the module itself.
    """
    return _view(module, {}).eval()


def _view(module: nn.Module, seen: dict[int, nn.Module]) -> nn.Module:
    module = _unwrapped(module)
    if id(module) not in seen:
        # Not copy.copy: parametrized layers refuse to be pickled, and copying asks as pickling does.
        seen[id(module)] = made = object.__new__(type(module))
        made.__dict__.update(vars(module))
        children = {name: None if child is None else _view(child, seen) for name, child in module._modules.items()}
        buffers = {name: buffer if buffer is None else buffer.clone() for name, buffer in module._buffers.items()}
        own = {"_modules": children, "_parameters": dict(module._parameters), "_buffers": buffers}
        made.__dict__.update(own, _compiled_call_impl=None)
    return seen[id(module)]
