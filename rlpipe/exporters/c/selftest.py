"""The file selftest.c: the vectors, and a program that replays them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlpipe.exporters.c.interface import BEGIN, Field, Interface
from rlpipe.exporters.c.source import filled
from rlpipe.exporters.c.text import TYPES, is_real, literal, wrapped
from rlpipe.exporters.c.vectors import Vectors
from rlpipe.exporters.program.program import Array
from rlpipe.exporters.signature import NEXT

_DEEP = " " * 8


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
    held = [field for field in interface.inputs if field.place == "state"]
    carried = [field for field in held if f"{field.name}{NEXT}" in vectors.outputs]
    rows, steps = (len(next(iter(part.values()), ())) for part in (vectors.inputs, vectors.run_inputs))
    compared = [_comparison(field, "output", "expected[i]", atol, rtol) for field in taken]
    compared += [_comparison(field, "state", f"wanted_{field.identifier}[i]", atol, rtol) for field in carried]
    values = {
        "prefix": prefix,
        "rows": str(rows),
        "inputs": _rows(given, vectors.inputs, rows),
        "outputs": _rows(taken, vectors.outputs, rows),
        "memory": "\n".join(
            [
                *(_table(f"given_{field.identifier}", field, vectors.inputs[field.name]) for field in held),
                *(
                    _table(f"wanted_{field.identifier}", field, vectors.outputs[f"{field.name}{NEXT}"])
                    for field in carried
                ),
            ]
        ),
        "given": "\n".join(line for field in held for line in _assignment(field)),
        "comparisons": "\n".join(line for lines in compared for line in lines),
        "run": _run(interface, vectors, prefix, steps) if steps else "",
        "replay": _replay(taken, prefix, atol, rtol) if steps else "",
        "total": "ROWS + STEPS" if steps else "ROWS",
    }
    return filled("selftest.c", values)


def _run(interface: Interface, vectors: Vectors, prefix: str, steps: int) -> str:
    starts = vectors.run_inputs.get(BEGIN, [index == 0 for index in range(steps)])
    values = {
        "prefix": prefix,
        "steps": str(steps),
        "begins": ", ".join(str(int(start)) for start in starts),
        "inputs": _rows(interface.fields("input"), vectors.run_inputs, steps),
        "outputs": _rows(interface.fields("output"), vectors.run_outputs, steps),
    }
    return filled("selftest_run.c", values)


def _replay(taken: Sequence[Field], prefix: str, atol: float, rtol: float) -> str:
    compared = [line for field in taken for line in _comparison(field, "output", "answered[i]", atol, rtol)]
    lines = [
        f"    {prefix}_init(&state);",
        "    for (int i = 0; i < STEPS; ++i) {",
        "        if (begins[i])",
        f"            {prefix}_reset(&state);",
        f"        {prefix}_step(&state, &met[i], &output);",
        *compared,
        "    }",
    ]
    return "\n".join(lines)


def _rows(fields: Sequence[Field], arrays: Mapping[str, Array], steps: int) -> str:
    # A struct has no fewer than one field.
    return ",\n".join(
        "{" + (",\n".join(_numbers(arrays[field.name][step], field.dtype) for field in fields) or "0") + "}"
        for step in range(steps)
    )


def _table(name: str, field: Field, array: Array) -> str:
    rows = ",\n".join(_numbers(row, field.dtype) for row in array)
    return f"static const {TYPES[field.dtype]} {name}[ROWS][{field.size}] = {{\n{rows}\n}};\n"


def _numbers(array: Array, dtype: str) -> str:
    return "{" + (wrapped(literal(number, dtype) for number in array.reshape(-1).tolist()) or "0") + "}"


def _assignment(field: Field) -> list[str]:
    return [
        f"{_DEEP}for (int j = 0; j < {field.size}; ++j)",
        f"{_DEEP}    state.{field.identifier}[j] = given_{field.identifier}[i][j];",
    ]


def _comparison(field: Field, struct: str, wanted: str, atol: float, rtol: float) -> list[str]:
    """Of a field with what lies in the same field of a struct, or for the state with an array."""
    found = f"{struct}.{field.identifier}[j]"
    other = f"{wanted}[j]" if struct == "state" else f"{wanted}.{field.identifier}[j]"
    allowed = f"{atol!r}, {rtol!r}" if is_real(field.dtype) else "0.0, 0.0"
    return [
        f"{_DEEP}for (int j = 0; j < {field.size}; ++j)",
        f"{_DEEP}    wrong += differs({found}, {other}, {allowed});",
    ]
