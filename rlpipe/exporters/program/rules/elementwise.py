"""Operators that work element by element."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rlpipe.exporters.program.builder import Builder, Value
from rlpipe.exporters.program.call import Call, Rule

# fmt: off
_SAME_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1",
    "floor", "log", "log10", "log1p", "log2", "neg", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)
# fmt: on
_BINARY = {
    "add": "add",
    "atan2": "atan2",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "mul",
    "sub": "sub",
}
_COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
_LOGIC = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


def operand(b: Builder, x: Any, dtype: str) -> Value:
    """A tensor or a number in a dtype."""
    return b.cast(x, dtype) if isinstance(x, Value) else b.constant(x, dtype)


def unary(kind: str) -> Rule:
    """One operand in the result's dtype."""
    return lambda b, call: b.elementwise(kind, operand(b, call["self"], call.dtype))


def binary(kind: str) -> Rule:
    """Two operands in the result's dtype; `alpha` multiplies the second."""

    def rule(b: Builder, call: Call) -> Value:
        left, right = (operand(b, call[name], call.dtype) for name in ("self", "other"))
        if (alpha := call.arguments.get("alpha", 1)) != 1:
            right = b.elementwise("mul", right, b.constant(alpha, call.dtype))
        return b.elementwise(kind, left, right)

    return rule


def comparison(kind: str) -> Rule:
    """Two operands in their common dtype."""
    return lambda b, call: b.elementwise(kind, *(operand(b, call[name], call.common) for name in ("self", "other")))


def logic(kind: str) -> Rule:
    """Two operands as truth values."""
    return lambda b, call: b.elementwise(kind, *(operand(b, call[name], "bool") for name in ("self", "other")))


def _negation(b: Builder, call: Call) -> Value:
    return b.elementwise("not", b.cast(call["self"], "bool"))


def real(kind: str) -> Rule:
    """Two operands, whole numbers as float64: neither numpy nor C divides them as torch does."""

    def rule(b: Builder, call: Call) -> Value:
        work = _work(call)
        other = call["other"] if "other" in call.arguments else call["exponent"]
        return b.cast(b.elementwise(kind, operand(b, call["self"], work), operand(b, other, work)), call.dtype)

    return rule


def _work(call: Call) -> str:
    return call.dtype if call.dtype.startswith("float") else "float64"


def _divided(b: Builder, call: Call) -> Value:
    work = _work(call)
    quotient = b.elementwise("div", *(operand(b, call[name], work) for name in ("self", "other")))
    mode = call.arguments.get("rounding_mode")
    return b.cast(b.elementwise(mode, quotient) if mode else quotient, call.dtype)


def _remainder(b: Builder, call: Call) -> Value:
    """What is left over has the sign of the divisor."""
    work = _work(call)
    x, y = (operand(b, call[name], work) for name in ("self", "other"))
    left, zero = b.elementwise("fmod", x, y), b.constant(0, work)
    signs = (b.elementwise("lt", value, zero) for value in (left, y))
    other_sign = b.elementwise("and", b.elementwise("ne", left, zero), b.elementwise("xor", *signs))
    return b.cast(b.elementwise("where", other_sign, b.elementwise("add", left, y), left), call.dtype)


def _distance(b: Builder, call: Call) -> Value:
    squares = (b.elementwise("mul", call[name], call[name]) for name in ("self", "other"))
    return b.elementwise("sqrt", b.elementwise("add", *squares))


def _power(b: Builder, call: Call) -> Value:
    exponent = call["exponent"]
    if exponent == 2:
        x = operand(b, call["self"], call.dtype)
        return b.elementwise("mul", x, x)
    if exponent == 0.5:
        return b.elementwise("sqrt", operand(b, call["self"], call.dtype))
    power: Value = real("pow")(b, call)  # type: ignore[assignment]
    return power


def _clamped(b: Builder, call: Call) -> Value:
    x = operand(b, call["self"], call.dtype)
    for kind, name in (("maximum", "min"), ("minimum", "max")):
        if call[name] is not None:
            x = b.elementwise(kind, x, operand(b, call[name], call.dtype))
    return x


def _chosen(b: Builder, call: Call) -> Value:
    pair = (operand(b, call[name], call.dtype) for name in ("self", "other"))
    return b.elementwise("where", b.cast(call["condition"], "bool"), *pair)


def _inverse(b: Builder, x: Value) -> Value:
    return b.elementwise("div", b.constant(1, x.dtype), x)


def _rectified(b: Builder, call: Call) -> Value:
    return b.elementwise("maximum", call["self"], b.constant(0, call.dtype))


def _is_nan(b: Builder, call: Call) -> Value:
    return b.elementwise("ne", call["self"], call["self"])


def _is_infinite(b: Builder, call: Call) -> Value:
    return b.elementwise("eq", b.elementwise("abs", call["self"]), b.constant(float("inf"), call["self"].dtype))


def _rounded(b: Builder, call: Call) -> Value:
    return call["self"] if call.dtype.startswith(("int", "uint")) else b.elementwise("round", call["self"])


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **{f"{name}.default": unary(name) for name in _SAME_UNARY},
        **{
            f"{name}.{form}": binary(kind) for name, kind in _BINARY.items() for form in ("default", "Tensor", "Scalar")
        },
        **{f"{name}.{form}": comparison(name) for name in _COMPARISONS for form in ("Tensor", "Scalar")},
        **{f"{name}.default": logic(kind) for name, kind in _LOGIC.items()},
        "logical_not.default": _negation,
        "bitwise_not.default": _negation,
        "div.Tensor": _divided,
        "div.Tensor_mode": _divided,
        "div.Scalar": _divided,
        **{f"fmod.{form}": real("fmod") for form in ("Tensor", "Scalar")},
        **{f"remainder.{form}": _remainder for form in ("Tensor", "Scalar")},
        "hypot.default": _distance,
        "pow.Tensor_Scalar": _power,
        "pow.Tensor_Tensor": _power,
        "pow.Scalar": _power,
        "clamp.default": _clamped,
        "clamp.Tensor": _clamped,
        "where.self": _chosen,
        "where.ScalarSelf": _chosen,
        "where.ScalarOther": _chosen,
        "relu.default": _rectified,
        "reciprocal.default": lambda b, call: _inverse(b, operand(b, call["self"], call.dtype)),
        "rsqrt.default": lambda b, call: _inverse(b, b.elementwise("sqrt", operand(b, call["self"], call.dtype))),
        "isnan.default": _is_nan,
        "isinf.default": _is_infinite,
        "round.default": _rounded,
    }
)
