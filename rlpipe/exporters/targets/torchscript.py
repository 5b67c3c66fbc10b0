"""TorchScript: a trace for programs that still load it, in C++ most of all. torch has deprecated the format."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.pt"
BLOCKED: tuple[str, ...] = ()
LOADING_RUNS_CODE = True
"""A TorchScript file is a program."""
LEGACY = "torch deprecated TorchScript in 2.11"

_TRACED_BATCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the file is checked."""


def missing_dependency() -> str | None:
    """What to install, or None."""
    return install_hint("torch")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the file; the names of the tensors are in its extra file rlpipe.json."""
    import torch

    del options
    names = {
        "inputs": [spec.name for spec in graph.signature.inputs],
        "outputs": [spec.name for spec in graph.signature.outputs],
    }
    text = json.dumps({**names, "essentials": dict(essentials)}, sort_keys=True)
    inputs = tuple(torch.tensor(graph.sample[name][:_TRACED_BATCH]) for name in names["inputs"])
    file = io.BytesIO()
    with torch.no_grad():
        # torch.export has followed the module before, so that no branch hangs on values; what the tracer warns of are
        # shapes, and a batch that it takes for a constant does not survive the verification.
        traced = torch.jit.trace(graph.module, inputs, check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.save(torch.jit.freeze(traced.eval()), file, _extra_files={"rlpipe.json": text})
    path.write_bytes(_without_traces(file.getvalue()))


def operators(path: str) -> tuple[str, ...]:
    """The names of what a file computes with; it is read and not run."""
    with zipfile.ZipFile(path) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")]
    return tuple(sorted(set(re.findall(r"\btorch\.(\w+)\(", "\n".join(texts)))))


def load(path: str) -> Step:
    """Open a file in torch on the CPU."""
    import json
    import warnings

    import torch

    extra = {"rlpipe.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.load(path, map_location="cpu", _extra_files=extra)  # type: ignore[no-untyped-call]
    names = json.loads(extra["rlpipe.json"])
    inputs, outputs = names["inputs"], names["outputs"]
    expected = set(inputs)
    forward, borrowed, copied = module.forward, torch.from_numpy, torch.tensor

    def step(arrays: Any) -> dict[str, Any]:
        if arrays.keys() != expected:
            raise ValueError(f"expected the inputs {inputs}, found {sorted(arrays)}")
        given = [
            borrowed(array) if array.flags.writeable and array.flags.c_contiguous else copied(array)
            for array in map(arrays.__getitem__, inputs)
        ]
        found = forward(*given)
        # Copies: a result may be an input or a weight seen in another way.
        if len(outputs) == 1:
            return {outputs[0]: found.numpy().copy()}
        return {name: tensor.numpy().copy() for name, tensor in zip(outputs, found, strict=True)}

    return step


def _without_traces(data: bytes) -> bytes:
    """The archive without the records that say which source line made what: they name the author's machine."""
    stripped = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(stripped, "w", zipfile.ZIP_STORED) as made:
        for entry in given.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                made.writestr(zipfile.ZipInfo(entry.filename), given.read(entry))
    return stripped.getvalue()
