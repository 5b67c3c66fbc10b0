"""One operator of a traced program with its arguments by name, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Node

from rlpipe.exporters.program.builder import Builder, UnsupportedError, Value
from rlpipe.exporters.program.program import Shape

Results: TypeAlias = "Value | Sequence[Value]"
Rule: TypeAlias = "Callable[[Builder, Call], Results]"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What an operator is called with.

    Attributes:
        arguments: By name as in torch's schema, defaults filled in. Tensors are values, sizes plain numbers, where a
            negative one counts batches.
        result: torch's own description of the result, or of all results.
        common: The dtype in which elementwise operands meet.
    """

    arguments: Mapping[str, Any]
    result: Any
    common: str

    def __getitem__(self, name: str) -> Any:
        """An argument."""
        return self.arguments[name]

    @property
    def shape(self) -> Shape:
        """Of the one result."""
        return shape_of(self.result)

    @property
    def dtype(self) -> str:
        """Of the one result."""
        return dtype_of(self.result.dtype)


def call_of(node: Node, values: Mapping[str, Any]) -> Call:
    """The call of a node whose operands are all known by name."""

    def known(argument: Any) -> Any:
        if isinstance(argument, Node):
            return values[argument.name] if argument.name in values else size_of(argument.meta["val"])
        if isinstance(argument, (list, tuple)):
            return [known(item) for item in argument]
        return argument

    operator: Any = node.target
    schema = operator._schema.arguments  # noqa: SLF001 - torch's only view of it
    given = dict(zip((item.name for item in schema), node.args, strict=False)) | dict(node.kwargs)
    arguments = {item.name: known(given.get(item.name, item.default_value)) for item in schema}
    return Call(arguments, node.meta["val"], _common(node))


def shape_of(tensor: Any) -> Shape:
    """The shape of torch's description of a tensor."""
    return tuple(map(size_of, tensor.shape))


def dtype_of(dtype: torch.dtype) -> str:
    """Such as float32."""
    return str(dtype).removeprefix("torch.")


def size_of(size: Any) -> int:
    """A size as programs have it.

    Raises:
        UnsupportedError: It grows with the batch in another way than proportionally.
    """
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    symbols = sorted(expression.free_symbols, key=str)
    factor = expression / symbols[0] if len(symbols) == 1 else None
    if factor is None or not factor.is_Integer:
        raise UnsupportedError(f"an axis of size {expression} at a batch of {', '.join(map(str, symbols))}")
    return -int(factor)


def _common(node: Node) -> str:
    """torch's rules for operands of different types, from what stands in the node."""
    operands = [item.meta["val"] if isinstance(item, Node) else item for item in node.args[:2]]
    if len(operands) == 2 and all(isinstance(item, (torch.Tensor, bool, int, float)) for item in operands):
        left, right = operands
        return dtype_of(torch.result_type(left, right))  # type: ignore[arg-type]
    first = operands[0] if operands else None
    return dtype_of(first.dtype) if isinstance(first, torch.Tensor) else ""
