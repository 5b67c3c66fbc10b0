"""Names, types and numbers as C has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.exporters.program.program import Array

TYPES = MappingProxyType(
    {
        "bool": "bool",
        "float32": "float",
        "float64": "double",
        **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }
)
"""numpy's dtype -> C type."""

_WIDTH = 116
_LOWEST = {64: "INT64_MIN", 32: "INT32_MIN", 16: "INT16_MIN", 8: "INT8_MIN"}


def is_real(dtype: str) -> bool:
    """Whether numbers of a dtype have fractions."""
    return dtype.startswith("float")


def literal(number: Any, dtype: str) -> str:
    """A number, exactly."""
    if dtype == "bool":
        return "true" if number else "false"
    if is_real(dtype):
        return _real(float(number), "f" if dtype == "float32" else "")
    bits = int(dtype.rpartition("int")[2])
    if not dtype.startswith("u") and int(number) == -(1 << (bits - 1)):
        return _LOWEST[bits]
    suffix = "" if bits < 64 else ("ULL" if dtype.startswith("u") else "LL")
    return f"{int(number)}{'U' if dtype == 'uint32' else suffix}"


def lowest(dtype: str) -> str:
    """What is below every other number of a dtype."""
    if is_real(dtype):
        return "-INFINITY"
    return literal(0 if dtype == "bool" else np.iinfo(dtype).min, dtype)


def highest(dtype: str) -> str:
    """What is above every other number of a dtype."""
    if is_real(dtype):
        return "INFINITY"
    return literal(1 if dtype == "bool" else np.iinfo(dtype).max, dtype)


def initializer(array: Array) -> str:
    """The elements in C order between braces, on lines that are not too long."""
    dtype = array.dtype.name
    return "{\n" + wrapped(literal(number, dtype) for number in array.reshape(-1).tolist()) + "\n}"


def wrapped(items: Iterable[str]) -> str:
    """Items with commas between them, many to a line."""
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) > _WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += f"{item}, "
    return "\n".join([*lines, line.rstrip(", ")]).rstrip().rstrip(",")


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """A C identifier for each name, no two the same."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^0-9A-Za-z_]", "_", name)
        taken, number = base, 2
        while taken in found.values():
            taken, number = f"{base}_{number}", number + 1
        found[name] = taken
    return found


def quoted(text: str) -> str:
    """A string literal of ASCII characters without trigraphs."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{plain}"'


def _real(number: float, suffix: str) -> str:
    if number != number:  # noqa: PLR0124 - NaN
        return "NAN"
    if number in (float("inf"), float("-inf")):
        return "INFINITY" if number > 0 else "-INFINITY"
    if number == int(number) and abs(number) < 1 << 20 and (number or str(number)[0] != "-"):
        return f"{number:.1f}{suffix}"
    mantissa, _, exponent = number.hex().partition("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}p{int(exponent)}{suffix}"
