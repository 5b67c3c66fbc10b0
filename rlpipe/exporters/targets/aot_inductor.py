"""AOTInductor: the policy compiled to native code for x86-64 with AVX2, in a .pt2 package that torch runs."""

from __future__ import annotations

import copy
import io
import json
import os
import platform
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.pt2"
BLOCKED: tuple[str, ...] = ()
LOADING_RUNS_CODE = True
"""It is native code."""

_COMPILERS = ("g++", "clang++")
_MACHINES = ("x86_64", "AMD64")
_TRACED_BATCH = 2
# Without these, torch compiles for whatever this machine has: AVX-512 and AMX do not run elsewhere.
_PINNED = {"cpp.march": "x86-64-v3", "cpp.simdlen": 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the file is checked. Compiling takes up to a minute, and more on a busy machine."""

    timeout: float = 1200.0


def missing_dependency() -> str | None:
    """What to install, or None."""
    if platform.machine() not in _MACHINES:
        return f"it compiles for x86-64, and this machine is {platform.machine()}"
    if not any(map(which, _COMPILERS)):
        return "no C++ compiler found; install g++, such as with apt-get install g++"
    return install_hint("torch")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Compile and write the package; names, dtypes and shapes are in its metadata."""
    import torch
    from torch._inductor import aoti_compile_and_package

    del options
    signature = graph.signature.to_json()
    facts = {"inputs": signature["inputs"], "outputs": signature["outputs"], "essentials": dict(essentials)}
    program = _opened(graph.program)
    sample = (torch.tensor(graph.sample[spec.name][:_TRACED_BATCH]) for spec in graph.signature.inputs)
    program.example_inputs = (tuple(sample), {})
    with tempfile.TemporaryDirectory(prefix="aoti-") as made, _cache_in(made):
        package = Path(made) / "policy.pt2"
        aoti_compile_and_package(program, package_path=str(package), inductor_configs=_settings(facts))
        path.write_bytes(_without_places(package.read_bytes(), made))


def load(path: str) -> Step:
    """Open a package in torch on the CPU.

    The compiled code reads whatever memory it is pointed to, so that the inputs are checked here. torch's own public
    loader compiles a probe of the processor first, which takes seconds and a compiler.
    """
    import json
    import platform
    from pathlib import Path

    import numpy as np
    import torch

    flags = set()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = set(next((line for line in lines if line.startswith("flags")), "").split())
    missing = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"} - flags if flags else set()
    if platform.machine() not in ("x86_64", "AMD64") or missing:
        raise RuntimeError(f"this processor cannot run it: x86-64-v3 is needed, {sorted(missing)} is missing")
    loader = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)  # noqa: SLF001, FBT003 - see above
    facts = json.loads(loader.get_metadata()["rlpipe"])

    inputs = [(spec["name"], np.dtype(spec["dtype"]), tuple(spec["shape"][1:])) for spec in facts["inputs"]]
    outputs, names = [spec["name"] for spec in facts["outputs"]], {name for name, _, _ in inputs}
    run, borrowed, copied = loader.run, torch.from_numpy, torch.tensor

    def step(arrays: Any) -> dict[str, Any]:
        if arrays.keys() != names:
            raise ValueError(f"expected the inputs {sorted(names)}, found {sorted(arrays)}")
        batch = arrays[inputs[0][0]].shape[:1]
        given = []
        for name, dtype, shape in inputs:
            array = arrays[name]
            if array.dtype != dtype or array.shape != batch + shape or not batch:
                expected = f"{dtype} {['batch', *shape]} in one batch size"
                raise ValueError(f"{name}: expected {expected}, found {array.dtype} {list(array.shape)}")
            flags = array.flags
            given.append(borrowed(array) if flags.writeable and flags.c_contiguous else copied(np.array(array)))
        # Copies: a result may be an input or a weight seen in another way.
        return {name: tensor.numpy().copy() for name, tensor in zip(outputs, run(given), strict=True)}

    return step


def _opened(program: Any) -> Any:
    """The program with its LSTMs in plain operators, which become one loop; whole, they are calls that take longer."""
    import torch

    whole = torch.ops.aten.lstm.input
    if all(node.target is not whole for node in program.graph.nodes):
        return copy.copy(program)
    table = torch.export.default_decompositions()
    return program.run_decompositions({whole: table[whole]})


def _settings(facts: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"rlpipe": json.dumps(facts, sort_keys=True)}
    return {**_PINNED, "compile_threads": 1, "aot_inductor.metadata": metadata}


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """torch's compiler caches by the user's name and keeps it for good; here it works in a folder that goes."""
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def _without_places(data: bytes, folder: str) -> bytes:
    """The package without its generated source, and with the paths of this machine blanked out in what is compiled."""
    import torch

    places = {folder, sys.prefix, str(Path.cwd()), str(Path.home()), str(Path(torch.__file__).parents[1])}
    private = sorted((place.encode() for place in places if len(place) > len("/tmp")), key=len, reverse=True)  # noqa: S108
    stripped = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(stripped, "w", zipfile.ZIP_STORED) as made:
        for entry in given.infolist():
            if not entry.filename.endswith(".cpp"):
                content = given.read(entry)
                for place in private:
                    content = content.replace(place, b"/" + b"_" * (len(place) - 1))
                made.writestr(zipfile.ZipInfo(entry.filename), content)
    return stripped.getvalue()
