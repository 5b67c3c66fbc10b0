"""numpy: the weights as .npz, the operations as JSON, and a short program that runs them with numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.npz"
BLOCKED: tuple[str, ...] = ("torch",)
LOADING_RUNS_CODE = True
"""The program beside the weights is Python."""

GRAPH_NAME, RUNNER_NAME = "policy.json", "policy_np.py"
_TEMPLATES = Path(__file__).parents[1] / "templates" / "numpy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the file is checked."""


def missing_dependency() -> str | None:
    """What to install, or None."""
    return install_hint("torch")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the weights, and beside them the operations and the program; equal policies give equal bytes.

    Raises:
        UnsupportedModuleError: An operator that programs do not have.
    """
    import numpy as np

    from rlpipe.exporters.program.walk import program_of

    del options
    program = program_of(graph)
    np.savez(path, allow_pickle=False, **program.constants)
    operations = {"format": "rlpipe-numpy", "version": 0, "essentials": dict(essentials), **program.to_json()}
    (path.parent / GRAPH_NAME).write_text(_lines(operations), encoding="utf-8", newline="\n")
    (path.parent / RUNNER_NAME).write_bytes((_TEMPLATES / RUNNER_NAME).read_bytes())


def operators(path: str) -> tuple[str, ...]:
    """The names of what a file computes with; it is read and not run."""
    operations = json.loads(Path(path).with_name(GRAPH_NAME).read_text(encoding="utf-8"))["operations"]
    return tuple(sorted({str(operation[0]) for operation in operations}))


def load(path: str) -> Step:
    """Open the files with the program beside them."""
    import os

    runner = os.path.join(os.path.dirname(os.path.abspath(path)), "policy_np.py")  # noqa: PTH100, PTH118, PTH120
    space: dict[str, Any] = {"__name__": "policy_np", "__file__": runner}
    with open(runner, encoding="utf-8") as file:  # noqa: PTH123 - loading has to be quick
        exec(compile(file.read(), "policy_np.py", "exec"), space)  # noqa: S102 - imported, it would leave a cache there
    step: Step = space["load"](path)
    return step


def _lines(graph: Mapping[str, Any]) -> str:
    """JSON with one line for each operation."""
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in graph.items() if key != "operations"]
    operations = ",\n  ".join(map(json.dumps, graph["operations"]))
    return "{\n" + ",\n".join(parts) + f',\n"operations": [\n  {operations}\n]\n}}\n'
