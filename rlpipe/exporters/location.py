"""Where in a policy something went wrong."""

from __future__ import annotations

from traceback import walk_tb
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn

_WHOLE = "the policy"


class Location:
    """Knows the parts of a module by name and, while it is entered, watches which one makes the batch size a constant.

    Attributes:
        fixed_batch: Name of the part that did so, or "".
    """

    def __init__(self, module: nn.Module) -> None:
        parts = list(module.named_modules())
        self._parts = [part for _, part in parts]
        self._names = {id(part): f"{path} ({type(part).__name__})" if path else _WHOLE for path, part in parts}
        self._running: list[str] = []
        self._handles: list[Any] = []
        self._size: Any = None
        self.fixed_batch = ""

    def of(self, error: BaseException) -> str:
        """The innermost part of the module whose code the error passed through."""
        owners = (id(frame.f_locals.get("self")) for frame, _ in walk_tb(error.__traceback__))
        return ([_WHOLE] + [self._names[owner] for owner in owners if owner in self._names])[-1]

    def __enter__(self) -> Self:
        for part in self._parts:
            self._handles.append(part.register_forward_pre_hook(self._enters))
            self._handles.append(part.register_forward_hook(self._leaves))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _enters(self, part: nn.Module, args: Any) -> None:
        if not self._running and args and isinstance(args[0], torch.Tensor):
            self._size = args[0].shape[0]
        self._look()
        self._running.append(self._names[id(part)])

    def _leaves(self, part: nn.Module, args: Any, output: Any) -> None:
        del part, args, output
        self._look()
        self._running.pop()

    def _look(self) -> None:
        """Blame the part that is running if the batch size has just become a constant."""
        if self.fixed_batch or not self._running or not isinstance(self._size, torch.SymInt):
            return
        if self._size.node.maybe_as_int() is not None:
            self.fixed_batch = self._running[-1]
