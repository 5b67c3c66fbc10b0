"""torch.export: a .pt2 program that torch alone runs, and the input of further torch compilers."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpipe.errors import UnsupportedModuleError
from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.pt2"
BLOCKED: tuple[str, ...] = ()
LOADING_RUNS_CODE = True
"""torch.export.load unpickles some payloads and evaluates expressions."""


_SWITCHES = ("train", "training")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the file is checked."""


def missing_dependency() -> str | None:
    """What to install, or None."""
    return install_hint("torch")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the file; equal policies give equal bytes with one version of torch.

    The names of the tensors, which a program does not keep, are in its extra file rlpipe.json.

    Raises:
        UnsupportedModuleError: A batch that is not symbolic after all.
    """
    import torch

    del options
    _require_symbolic_batch(graph)
    names = {
        "inputs": [spec.name for spec in graph.signature.inputs],
        "outputs": [spec.name for spec in graph.signature.outputs],
    }
    text = json.dumps({**names, "essentials": dict(essentials)}, sort_keys=True)
    file = io.BytesIO()  # given a path, torch would write the path's stem into the archive
    torch.export.save(graph.program, file, extra_files={"rlpipe.json": text})
    path.write_bytes(file.getvalue())


def operators(path: str) -> tuple[str, ...]:
    """The names of what a file computes with; it is read and not run."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("models/model.json"))
        nodes = json.loads(archive.read(name))["graph_module"]["graph"]["nodes"]
    return tuple(sorted({str(node["target"]) for node in nodes if not _is_off(node)}))


def _is_off(node: Mapping[str, Any]) -> bool:
    """Whether an operator such as dropout is told that nobody trains."""
    switches = [given["arg"].get("as_bool") for given in node["inputs"] if given["name"] in _SWITCHES]
    return bool(switches) and not any(switches)


def load(path: str) -> Step:
    """Open a file in torch on the CPU."""
    import json

    import torch

    extra = {"rlpipe.json": ""}
    module = torch.export.load(path, extra_files=extra).module()
    names = json.loads(extra["rlpipe.json"])

    def step(arrays: Any) -> dict[str, Any]:
        if set(arrays) != set(names["inputs"]):
            raise ValueError(f"expected the inputs {names['inputs']}, found {sorted(arrays)}")
        with torch.no_grad():
            outputs = module(*(torch.tensor(arrays[name]) for name in names["inputs"]))
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        # Copies: a result may be an input or a weight seen in another way.
        return {name: output.numpy().copy() for name, output in zip(names["outputs"], outputs, strict=True)}

    return step


def _require_symbolic_batch(graph: ExportGraph) -> None:
    import torch

    nodes = {node.name: node for node in graph.program.graph.nodes}
    signature = graph.program.graph_signature
    found = [nodes[name].meta["val"] for name in (*signature.user_inputs, *signature.user_outputs)]
    fixed = [str(list(value.shape)) for value in found if not isinstance(value.shape[0], torch.SymInt)]
    if fixed:
        raise UnsupportedModuleError(
            "the traced program has a fixed batch",
            expected="a symbolic first dimension everywhere",
            found=", ".join(fixed),
        )
