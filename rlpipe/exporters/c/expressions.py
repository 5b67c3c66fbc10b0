"""One element of an elementwise operation as a C expression."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from rlpipe.exporters.c.text import TYPES, is_real, lowest
from rlpipe.exporters.program.builder import UnsupportedError
from rlpipe.exporters.program.program import UNARY

_FUNCTIONS = MappingProxyType(
    {name: name for name in sorted((UNARY | {"atan2", "fmod", "pow"}) - {"neg", "not", "sigmoid", "sign"})}
    | {"abs": "fabs", "round": "rint"}
)
_SIGNS = MappingProxyType(
    {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "div": "/",
        "eq": "==",
        "ne": "!=",
        "lt": "<",
        "le": "<=",
        "gt": ">",
        "ge": ">=",
    }
)
_FORMS = MappingProxyType(
    {
        "and": "{0} & {1}",
        "or": "{0} | {1}",
        "xor": "{0} ^ {1}",
        "not": "!{0}",
        "neg": "-{0}",
        "sign": "({0} > 0) - ({0} < 0)",
        "where": "{0} ? {1} : {2}",
    }
)
_LOGIC = MappingProxyType({"and": "&&", "or": "||", "xor": "!=", "add": "||", "mul": "&&"})
_NARROW = ("int8", "int16", "uint8", "uint16")
_MOST = MappingProxyType({"int64": "0x1p63", "int32": "0x1p31", "int16": "0x1p15", "int8": "0x1p7"})
_MOST_UNSIGNED = MappingProxyType({"uint64": "0x1p64", "uint32": "0x1p32", "uint16": "0x1p16", "uint8": "0x1p8"})


def expression(kind: str, operands: Sequence[str], dtype: str, result: str) -> str:
    """The value of an elementwise operation.

    Args:
        kind: Of the operation, but for casts.
        operands: C expressions without side effects, parenthesised where needed.
        dtype: Of the last operand.
        result: Of the result.

    Raises:
        UnsupportedError: This kind does not go with this dtype.
    """
    x, y = operands[0], operands[-1]
    if kind in ("maximum", "minimum"):
        return _extreme(">" if kind == "maximum" else "<", x, y, dtype)
    if kind in _LOGIC and dtype == "bool":
        return f"{x} {_LOGIC[kind]} {y}"
    if kind in _SIGNS:
        return _narrowed(f"{x} {_SIGNS[kind]} {y}", result)
    if kind in _FORMS:
        return _narrowed(_FORMS[kind].format(*operands), result)
    return _function(kind, operands, dtype, result)


def cast_to(x: str, dtype: str, result: str) -> str:
    """A number in another dtype; what no whole number can hold becomes the lowest one, as on x86."""
    if is_real(dtype) and not is_real(result):
        one = "f" if dtype == "float32" else ""
        most = {**_MOST, **_MOST_UNSIGNED}[result]
        least = f"-{most}" if result in _MOST else "0.0"
        return f"{x} >= {least}{one} && {x} < {most}{one} ? ({TYPES[result]}){x} : {lowest(result)}"
    return f"({TYPES[result]}){x}"


def better(sign: str, x: str, best: str, dtype: str) -> str:
    """Whether x is beyond the best so far; NaN is beyond everything but NaN."""
    return f"({x} {sign} {best} || {x} != {x})" if is_real(dtype) else f"{x} {sign} {best}"


def _function(kind: str, operands: Sequence[str], dtype: str, result: str) -> str:
    one = "f" if dtype == "float32" else ""
    if kind == "abs" and not is_real(dtype):
        return _narrowed("{0} < 0 ? -{0} : {0}".format(*operands), result)
    if not is_real(dtype):
        raise UnsupportedError(f"{kind} of {dtype}")
    if kind == "sigmoid":
        return f"1.0{one} / (1.0{one} + exp{one}(-{operands[0]}))"
    return f"{_FUNCTIONS[kind]}{one}({', '.join(operands)})"


def _extreme(sign: str, x: str, y: str, dtype: str) -> str:
    """NaN in either operand wins; literals are none."""
    if _is_literal(x):
        x, y = y, x
    if _is_literal(y):
        return f"{y} {sign} {x} ? {y} : {x}"
    return f"{better(sign, x, y, dtype)} ? {x} : {y}"


def _is_literal(text: str) -> bool:
    return text != "NAN" and not text.endswith("]")


def _narrowed(text: str, result: str) -> str:
    """Arithmetic of narrow types is done in int."""
    return f"({TYPES[result]})({text})" if result in _NARROW else text
