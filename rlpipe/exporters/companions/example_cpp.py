"""`example.cpp`: the ONNX file in a C++ program, its memory carried from step to step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.golden import Golden
from rlpipe.exporters.signature import NEXT, Array, Signature, TensorSpec

EXAMPLE_CPP_NAME = "example.cpp"
TARGET = "onnx"
STEPS = 3

_TEMPLATE = Path(__file__).parents[1] / "templates" / "onnx" / EXAMPLE_CPP_NAME
_MOST_NUMBERS = 256
"""Larger inputs are left as zeros; an image as text helps nobody."""

_TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"std::{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_RESET = """
    // Call it before the first step of every episode: the policy forgets the one before.
    void reset() {
@STATES@        @START@ = {true};
    }
"""


def example_cpp(record: Mapping[str, Any], vectors: Golden) -> str | None:
    """The text of `example.cpp`; None where a profile renames the tensors, or C++ has no type for one of them.

    Args:
        record: What `artifact.json` says, with the target onnx.
        vectors: The golden vectors.
    """
    profile = record["targets"][TARGET].get("options", {}).get("profile", {})
    if profile.get("inputs") or profile.get("outputs"):
        return None
    signature = Signature.from_json(record["signature"])
    if any(spec.dtype not in _TYPES for spec in (*signature.inputs, *signature.outputs)):
        return None
    names = _members(signature)
    starts = signature.of_kind("episode_start")
    parts = {
        "POLICY": str(record["policy_id"]),
        "FILE": str(record["targets"][TARGET]["file"]),
        "DESCRIBED": "".join(f"// {line}".rstrip() + "\n" for line in _described(signature)),
        "MEMBERS": "".join(_declared(spec, name) for spec, name in names.items()),
        "OPENING": " reset(); " if starts else "",
        "RESET": _reset(signature, names) if starts else "",
        "COUNT": str(len(signature.inputs)),
        "OUTPUT_COUNT": str(len(signature.outputs)),
        "FEEDS": "".join(_fed(spec, names[spec]) for spec in signature.inputs),
        "INPUT_NAMES": _quoted(signature.inputs),
        "OUTPUT_NAMES": _quoted(signature.outputs),
        "READS": "".join(_reads(signature, names)),
        "MAIN": "".join(_main(signature, names, vectors)),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for part, value in parts.items():
        text = text.replace(f"@{part}@", value)
    return text


def _members(signature: Signature) -> dict[TensorSpec, str]:
    """A name in C++ for every tensor; next states have none, they are read into the states."""
    found: dict[TensorSpec, str] = {}
    for spec in (*signature.inputs, *signature.outputs):
        if spec.kind != "next_state":
            name = re.sub(r"\W", "_", spec.name, flags=re.ASCII)
            found[spec] = name if name not in found.values() else f"{name}_{len(found)}"
    return found


def _described(signature: Signature) -> Iterator[str]:
    for side, specs in (("input ", signature.inputs), ("output", signature.outputs)):
        yield from (f"{side} {spec.describe()}" for spec in specs)
    if signature.of_kind("episode_start"):
        yield ""
        yield "episode_start is true at the first step of every episode and puts the memory of that row back inside of"
        yield "the policy, whatever the states hold; at all other steps it is false and the states are what the step"
        yield "before gave. reset() and step() do that."
    if signature.of_kind("action_mask"):
        yield "action_mask: true where a choice is allowed, for one part of the action after the other."
    for spec in signature.of_kind("noise"):
        kind = "normal" if spec.distribution == "normal" else "uniform_real"
        yield f"noise: drawn anew for every step from a std::{kind}_distribution<float>."


def _declared(spec: TensorSpec, name: str) -> str:
    return f"    std::array<{_TYPES[spec.dtype]}, {_size(spec)}> {name}{{}};\n"


def _reset(signature: Signature, names: Mapping[TensorSpec, str]) -> str:
    (start,) = signature.of_kind("episode_start")
    states = "".join(f"        {names[spec]}.fill(0);\n" for spec in signature.of_kind("state"))
    return _RESET.replace("@STATES@", states).replace("@START@", names[start])


def _fed(spec: TensorSpec, name: str) -> str:
    shape = ", ".join(map(str, (1, *spec.shape)))
    return f"            tensor({name}, std::array<std::int64_t, {1 + len(spec.shape)}>{{{shape}}}),\n"


def _reads(signature: Signature, names: Mapping[TensorSpec, str]) -> Iterator[str]:
    places = {spec.name: name for spec, name in names.items()}
    for index, spec in enumerate(signature.outputs):
        yield f"        read(outputs[{index}], {places[spec.name.removesuffix(NEXT)]});\n"
    yield from (f"        {names[spec]} = {{false}};\n" for spec in signature.of_kind("episode_start"))


def _main(signature: Signature, names: Mapping[TensorSpec, str], vectors: Golden) -> Iterator[str]:
    """Golden steps: some in a row with memory, otherwise one."""
    given = [spec for spec in signature.inputs if spec.kind not in ("state", "episode_start")]
    answers = [spec for spec in signature.outputs if spec.kind != "next_state"]
    rows = [{spec.name: vectors.inputs[spec.name][0] for spec in given}]
    if vectors.run_inputs:
        count = min(STEPS, len(next(iter(vectors.run_inputs.values()))))
        rows = [{spec.name: vectors.run_inputs[spec.name][step, 0] for spec in given} for step in range(count)]
    for row in rows:
        for spec in given:
            if row[spec.name].size <= _MOST_NUMBERS:
                yield f"    policy.{names[spec]} = {{{_numbers(row[spec.name])}}};\n"
        yield "    policy.step();\n"
        yield from (f'    print("{_text(spec.name)}", policy.{names[spec]});\n' for spec in answers)


def _numbers(array: Array) -> str:
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        return ", ".join("true" if value else "false" for value in flat)
    if array.dtype.kind != "f":
        return ", ".join(map(str, flat.tolist()))
    suffix = "f" if array.dtype == np.float32 else ""
    return ", ".join(f"{float(value):.9g}" if not suffix else _float(value) for value in flat)


def _float(value: Any) -> str:
    text = f"{float(value):.9g}"
    return f"{text}f" if set(text) & set(".e") else f"{text}.0f"


def _quoted(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f'"{_text(spec.name)}"' for spec in specs)


def _text(name: str) -> str:
    """Inside of a string of C++."""
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _size(spec: TensorSpec) -> int:
    return max(1, math.prod(spec.shape))
