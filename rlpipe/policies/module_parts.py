"""The features that a part of a module computes on the way to its decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from rlpipe.errors import UnsupportedModuleError, closest, listed

T = TypeVar("T")


def features_of(module: nn.Module, component: str, run: Callable[[], T]) -> tuple[torch.Tensor, T]:
    """What a part put out while the module ran, and what running it gave.

    Args:
        module: The module; its class may give parts further names in `COMPONENTS`.
        component: Dotted path of a submodule, or such a name.
        run: Lets the module act.

    Raises:
        UnsupportedModuleError: There is no such part, it does not act, acts twice, or puts out no tensor.
    """
    path = getattr(type(module), "COMPONENTS", {}).get(component, component)
    found: list[Any] = []
    handle = _part(module, path, component).register_forward_hook(lambda *call: found.append(call[2]))
    try:
        made = run()
    finally:
        handle.remove()
    if len(found) != 1:
        raise UnsupportedModuleError(
            f"export.component={component} takes no single part in acting",
            expected="a submodule that runs once in forward_inference",
            found=f"{path}, which ran {len(found)} times",
            fix="name the submodule whose features acting goes through",
        )
    features = found[0][0] if isinstance(found[0], tuple) else found[0]
    if isinstance(features, torch.Tensor) and features.dim() > 0:
        return features, made
    raise UnsupportedModuleError(
        f"export.component={component} puts out no tensor of features",
        expected="a tensor (B, ...)",
        found=type(features).__name__,
        fix="name a submodule that does",
    )


def _part(module: nn.Module, path: str, component: str) -> nn.Module:
    parts = dict(module.named_modules())
    if path in parts and path:
        return parts[path]
    known = [*getattr(type(module), "COMPONENTS", {}), *(name for name in parts if name)]
    near = closest(component, known)
    raise UnsupportedModuleError(
        f"there is no component {component!r} in the module",
        expected=f"one of {listed(known)}",
        found=component,
        fix=f"did you mean {' or '.join(near)}?" if near else "name a submodule",
    )
