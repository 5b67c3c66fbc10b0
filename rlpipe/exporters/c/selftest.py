"""The file selftest.c: the vectors, and a program that replays them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlpipe.exporters.c.interface import Field, Interface
from rlpipe.exporters.c.source import filled
from rlpipe.exporters.c.text import is_real, literal, wrapped
from rlpipe.exporters.c.vectors import Vectors
from rlpipe.exporters.program.program import Array


def selftest(interface: Interface, vectors: Vectors, prefix: str, *, atol: float, rtol: float) -> str:
    """Its text.

    Args:
        interface: The fields of the structs.
        vectors: What is replayed.
        prefix: Of the names in policy.h.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
    """
    given, taken = interface.fields("input"), interface.fields("output")
    values = {
        "prefix": prefix,
        "steps": str(len(vectors.begins)),
        "begins": ", ".join(str(int(begin)) for begin in vectors.begins),
        "inputs": _rows(given, vectors.inputs, len(vectors.begins)),
        "outputs": _rows(taken, vectors.outputs, len(vectors.begins)),
        "comparisons": "\n".join(line for field in taken for line in _comparison(field, atol, rtol)),
    }
    return filled("selftest.c", values)


def _rows(fields: Sequence[Field], arrays: Mapping[str, Array], steps: int) -> str:
    return ",\n".join(
        "{" + ",\n".join(_numbers(arrays[field.name][step], field.dtype) for field in fields) + "}"
        for step in range(steps)
    )


def _numbers(array: Array, dtype: str) -> str:
    return "{" + wrapped(literal(number, dtype) for number in array.reshape(-1).tolist()) + "}"


def _comparison(field: Field, atol: float, rtol: float) -> list[str]:
    found, wanted = (f"{struct}.{field.identifier}[j]" for struct in ("output", "expected[i]"))
    allowed = f"{atol!r}, {rtol!r}" if is_real(field.dtype) else "0.0, 0.0"
    return [
        f"        for (int j = 0; j < {field.size}; ++j)",
        f"            wrong += differs({found}, {wanted}, {allowed});",
    ]
