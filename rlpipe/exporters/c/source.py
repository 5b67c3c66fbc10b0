"""The files policy.h, policy.c, policy.hpp and CMakeLists.txt of a program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rlpipe.exporters.c.arena import arrange
from rlpipe.exporters.c.body import Body, declared
from rlpipe.exporters.c.interface import BEGIN, Field, Interface, interface_of
from rlpipe.exporters.c.operations import PANEL, emit
from rlpipe.exporters.c.text import TYPES, initializer, quoted
from rlpipe.exporters.c.views import View, solid
from rlpipe.exporters.program.program import Program

TEMPLATES = Path(__file__).parents[1] / "templates" / "c99"

_KERNELS = (("linear", ""), ("conv", "conv_sizes"), ("max_pool", "max_pool_sizes"))
"""Functions in the order in which they need each other, and the type that comes before."""
_FINGERPRINT = "rlpipe.fingerprint"


def sources(program: Program, prefix: str, essentials: Mapping[str, str]) -> dict[str, str]:
    """The text of each file by name.

    Args:
        program: What to write.
        prefix: Of every name that other files see.
        essentials: What the files say about the policy.

    Raises:
        UnsupportedError: An operation of a dtype that C code does not have.
    """
    interface = interface_of(program)
    body = _body(program, interface)
    arena = arrange(body.pieces)
    fingerprint = essentials.get(_FINGERPRINT, "")
    rooms = [f"{TYPES[dtype]} work_{dtype}[{size}];" for dtype, size in arena.sizes.items()]
    reached = {dtype: f"state->work_{dtype}" for dtype in arena.sizes}
    code = [*_pointers(body, interface), *declared(body.pieces, arena.places, reached), "", *body.lines]
    values = {
        "prefix": prefix,
        "PREFIX": prefix.upper(),
        "summary": _lines(_described(interface), " *     "),
        "input": _lines(field.declaration() for field in interface.fields("input")) or "    char unused;",
        "output": _lines(field.declaration() for field in interface.fields("output")),
        "state": _lines([*(field.declaration() for field in interface.fields("state")), *rooms]) or "    char unused;",
        "name_length": str(max(len(field.name.encode()) for field in (*interface.inputs, *interface.outputs)) + 1),
        "inputs": str(len(interface.inputs)),
        "outputs": str(len(interface.outputs)),
        "fingerprint": quoted(fingerprint),
        "fingerprint_length": str(len(fingerprint.encode()) + 1),
        "constants": "\n".join(_constants(body)),
        "kernels": "\n".join(_kernels(body)),
        "body": _lines(["(void)state;", "(void)input;", *code]),
        "reset": _lines(_reset(interface)),
        "input_table": _table(interface.inputs, prefix),
        "output_table": _table(interface.outputs, prefix),
        "essentials": _harmless(json.dumps(dict(essentials), sort_keys=True)),
    }
    return {name: filled(name, values) for name in ("policy.h", "policy.c", "policy.hpp", "CMakeLists.txt")}


def filled(name: str, values: Mapping[str, str]) -> str:
    """A template with its @words@ replaced."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)


def _body(program: Program, interface: Interface) -> Body:
    views: dict[str, View] = {
        field.tensor: solid(field.tensor, field.dtype, (1, *field.shape)) for field in interface.inputs
    }
    body = Body(program, views)
    for operation in program.operations:
        emit(body, operation)
    body.begin("results")
    memory = {field.tensor for field in interface.inputs if field.place == "state"}
    results = [(field, body.view(field.tensor)) for field in interface.outputs]
    # Memory that is handed on must be read before it is written.
    safe = [(field, body.copied(view) if view.array in memory else view) for field, view in results]
    for field, view in safe:
        target = solid(f"{field.place}->{field.identifier}", field.dtype, view.shape)
        body.store(target, [view], lambda operands: operands[0])
    if any(field.name == BEGIN and field.place == "state" for field in interface.inputs):
        body.lines.append(f"state->{BEGIN}[0] = 0;")
    return body


def _code(body: Body) -> str:
    return "\n".join(line for line in body.lines if not line.startswith("/*"))


def _pointers(body: Body, interface: Interface) -> list[str]:
    words = set(re.findall(r"\w+", _code(body)))
    return [
        f"const {TYPES[field.dtype]} *const {field.tensor} = {field.place}->{field.identifier};"
        for field in interface.inputs
        if field.tensor in words
    ]


def _constants(body: Body) -> list[str]:
    words = set(re.findall(r"\w+", _code(body)))
    return [
        f"static const {TYPES[array.dtype.name]} {name}[{array.size}] = {initializer(array)};\n"
        for name, array in body.constants.items()
        if name in words
    ]


def _kernels(body: Body) -> list[str]:
    texts = []
    for kernel, sizes in _KERNELS:
        dtypes = sorted(dtype for name, dtype in body.kernels if name == kernel)
        texts += [filled(f"{sizes}.c", {})] if dtypes and sizes else []
        texts += [filled(f"{kernel}.c", {"type": TYPES[dtype], "panel": str(PANEL)}) for dtype in dtypes]
    return texts


def _reset(interface: Interface) -> list[str]:
    lines = ["(void)state;"]
    for field in interface.fields("state"):
        value = "1" if field.name == BEGIN else "0"
        lines += [f"for (int i = 0; i < {field.size}; ++i)", f"    state->{field.identifier}[i] = {value};"]
    return lines


def _table(fields: Sequence[Field], prefix: str) -> str:
    rows = []
    for field in fields:
        offset = f"offsetof({prefix}_{field.place}, {field.identifier})"
        shape = ", ".join(map(str, field.shape)) or "0"
        kept = int(field.place == "state")
        texts = f"{quoted(field.dtype)}, {quoted(field.name)}"
        rows.append(f"{{{offset}, {field.size}, {len(field.shape)}, {{{shape}}}, {kept}, {texts}}},")
    return _lines(rows)


def _described(interface: Interface) -> list[str]:
    texts = [f"{field.place}.{field.identifier}: {field.name}, {_shape(field)}" for field in interface.inputs]
    return [
        _harmless(text)
        for text in [
            *texts,
            *(f"output.{field.identifier}: {field.name}, {_shape(field)}" for field in interface.fields("output")),
        ]
    ]


def _shape(field: Field) -> str:
    return f"{field.dtype} {list(field.shape)}"


def _harmless(text: str) -> str:
    """Inside a comment of C, with the JSON in it unharmed."""
    plain = "".join(char if 32 <= ord(char) < 127 else f"\\u{ord(char):04x}" for char in text)
    return plain.replace("/", "\\u002f").replace("?", "\\u003f")


def _lines(lines: Iterable[str], indent: str = "    ") -> str:
    return "\n".join((indent + line).rstrip() for line in lines)
