"""Taking attributes out of a torch module that only acts, and finding out whether it still acts the same."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import nn

from rlpipe.errors import SpecError, listed
from rlpipe.modules.torch.batch import DECISIONS, Outputs

logger = logging.getLogger(__name__)

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
        seen[id(module)] = made = copy.copy(module)
        children = {name: None if child is None else _view(child, seen) for name, child in module._modules.items()}
        buffers = {name: buffer if buffer is None else buffer.clone() for name, buffer in module._buffers.items()}
        own = {"_modules": children, "_parameters": dict(module._parameters), "_buffers": buffers}
        made.__dict__.update(own, _compiled_call_impl=None)
    return seen[id(module)]


def first_line(error: Exception) -> str:
    """What an error says, on one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def require_same_actions(
    module: nn.Module, attributes: Collection[str], act: Callable[[nn.Module], Outputs], *, where: str
) -> None:
    """Check that the module acts the same without the attributes, bit for bit.

    Args:
        module: The full module.
        attributes: Dotted paths of what would be removed.
        act: Runs a module's inference on fixed inputs.
        where: How errors name the module.

    Raises:
        SpecError: It does not; the attributes that it needs are named.
    """
    view = view_of(module)
    try:
        full = act(view)
    except Exception as error:  # noqa: BLE001 - a module may need inputs that only its author knows
        # To refuse would lose what was learnt; what the list says is taken for true.
        logger.warning("%s: its non-inference attributes could not be checked: %s", where, first_line(error))
        return
    if (problem := _problem(module, attributes, act, full)) is None:
        return
    guilty = [path for path in attributes if _problem(module, [path], act, full)] or list(attributes)
    raise SpecError(
        f"{where} acts differently without its non-inference attributes",
        expected="attributes that only training needs",
        found=f"inference needs {listed(guilty)}: {problem}",
        fix=f"take {listed(guilty)} out of non_inference_attributes",
    )


def _problem(module: nn.Module, attributes: Collection[str], act: Callable[[nn.Module], Outputs], full: Outputs) -> Any:
    slim = view_of(module)
    remove_attributes(slim, attributes)
    try:
        outputs = act(slim)
    except Exception as error:  # noqa: BLE001 - a user's forward may fail in any way without its attribute
        return first_line(error)
    changed = [name for name in outputs if name not in full or not _same(outputs[name], full[name])]
    lost = [name for name in DECISIONS if name in full and name not in outputs]
    return f"other outputs {listed([*changed, *lost])}" if changed or lost else None


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    both_nan = left.isnan() & right.isnan()
    return bool(((left == right) | both_nan).all())
