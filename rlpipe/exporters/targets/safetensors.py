"""safetensors: the weights under their names, and what they are, for people who bring their own network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpipe.errors import UnsupportedModuleError, listed
from rlpipe.exporters.target import install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "weights.safetensors"
SPEC_NAME = "spec.json"
BLOCKED: tuple[str, ...] = ("torch",)
LOADING_RUNS_CODE = False

_DTYPES = frozenset(
    ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the file is made.

    Attributes:
        atol: Not used: arrays are compared bit for bit.
        rtol: Not used.
        timeout: Seconds after which the export is ended.
    """

    atol: float = 0.0
    rtol: float = 0.0
    timeout: float = 600.0


def missing_dependency() -> str | None:
    """What to install, or None."""
    hint = install_hint("safetensors")
    return f"{hint}, or pip install 'rlpipe[safetensors]'" if hint else None


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the arrays that inference needs, normaliser statistics too, and beside them spec.json.

    Raises:
        UnsupportedModuleError: An array of a type that the format's numpy reader lacks.
    """
    import numpy as np
    from safetensors.numpy import save

    del options
    foreign = [f"{name} {array.dtype}" for name, array in graph.weights.items() if array.dtype.name not in _DTYPES]
    if foreign:
        raise UnsupportedModuleError(
            "arrays of types that safetensors has not in numpy", expected=listed(_DTYPES), found=listed(foreign)
        )
    arrays = {name: np.ascontiguousarray(graph.weights[name]) for name in sorted(graph.weights)}
    # One key: the order of several differs from run to run.
    path.write_bytes(save(arrays, {"rlpipe": json.dumps(dict(essentials), sort_keys=True)}))
    spec = {
        "essentials": {name: _parsed(text) for name, text in essentials.items()},
        "tensors": {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()},
    }
    text = json.dumps(spec, indent=2, sort_keys=True) + "\n"
    (path.parent / SPEC_NAME).write_text(text, encoding="utf-8", newline="\n")


def compare(path: str, graph: ExportGraph) -> str:
    """What differs between a file and the policy's weights, or ""."""
    import numpy as np
    from safetensors.numpy import load_file

    found = load_file(path)
    if set(found) != set(graph.weights):
        return f"other arrays: {listed(set(found) ^ set(graph.weights))}"
    differing = [
        name
        for name, array in graph.weights.items()
        if found[name].dtype != array.dtype or found[name].tobytes() != np.ascontiguousarray(array).tobytes()
    ]
    return f"other numbers in {listed(differing)}" if differing else ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
