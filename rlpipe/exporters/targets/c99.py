"""C99: the policy as source code with its weights inside, for whatever has a C compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from rlpipe.errors import ConfigError, UnsupportedModuleError
from rlpipe.exporters.target import CheckOptions, Step, install_hint

if TYPE_CHECKING:
    from rlpipe.exporters.graph import ExportGraph

FILE_NAME = "policy.c"
BLOCKED: tuple[str, ...] = ("torch",)
LOADING_RUNS_CODE = True
"""It is compiled and run."""

_COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(CheckOptions):
    """How the files are made and checked.

    Attributes:
        prefix: What every name in the files begins with; "" for `policy_` and the policy's fingerprint, so that the
            files of several policies go into one program.
    """

    prefix: str = ""

    def __post_init__(self) -> None:
        CheckOptions.__post_init__(self)  # a class with slots is made anew, which super() does not see
        if self.prefix and not re.fullmatch(r"[a-z][a-z0-9_]*", self.prefix):
            raise ConfigError(
                "export.c99.prefix is no name in C",
                expected="a small letter, then small letters, digits and _",
                found=repr(self.prefix),
                fix="export.c99.prefix=walker",
            )


def missing_dependency() -> str | None:
    """What to install, or None; the compiler is for the verification."""
    if not any(map(which, _COMPILERS)):
        return "no C compiler found; install gcc or clang, such as with apt-get install gcc"
    return install_hint("torch", "numpy")


def export(graph: ExportGraph, path: Path, options: Options, essentials: Mapping[str, str]) -> None:
    """Write the source, and beside it the header, the self-test and what builds them; equal policies, equal bytes.

    Raises:
        UnsupportedModuleError: An operator that programs do not have.
    """
    from rlpipe.exporters.c.interface import interface_of
    from rlpipe.exporters.c.selftest import selftest
    from rlpipe.exporters.c.source import sources
    from rlpipe.exporters.c.vectors import vectors
    from rlpipe.exporters.program.builder import UnsupportedError
    from rlpipe.exporters.program.walk import program_of

    program = program_of(graph)
    prefix = options.prefix or "_".join(filter(None, ("policy", essentials.get("rlpipe.fingerprint", ""))))
    try:
        files = sources(program, prefix, essentials)
    except UnsupportedError as error:
        raise UnsupportedModuleError(
            "the policy cannot be written in C", expected="operations on float32 and float64", found=str(error)
        ) from error
    steps = vectors(graph, atol=options.atol, rtol=options.rtol)
    files["selftest.c"] = selftest(interface_of(program), steps, prefix, atol=options.atol, rtol=options.rtol)
    for name, text in files.items():
        (path.parent / name).write_text(text, encoding="ascii", newline="\n")


def operators(path: str) -> tuple[str, ...]:
    """The names of what a file computes with; it is read and not run."""
    text = Path(path).read_text(encoding="utf-8")
    # What the policy itself is called is the user's choice.
    called = set(re.findall(r"\b([a-z]\w*)\(", text))
    return tuple(sorted(name for name in called if not name.endswith(("_init", "_reset", "_step"))))


def load(path: str) -> Step:  # noqa: C901, PLR0915 - its text alone goes where rlpipe is not
    """Compile the file with the machine's C compiler and open the result; a batch is a loop."""
    import ctypes
    import os
    import re
    import shutil
    import subprocess
    import tempfile

    import numpy as np

    folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - this function stands alone
    with open(os.path.join(folder, "policy.h"), encoding="ascii") as header:  # noqa: PTH118, PTH123
        prefix = re.search(r"void (\w+)_step\(", header.read())[1]  # type: ignore[index]
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise OSError("no C compiler found; install gcc or clang, such as with apt-get install gcc")
    with tempfile.TemporaryDirectory(prefix="c99-") as made:
        built = os.path.join(made, "policy.so")  # noqa: PTH118
        strict = ["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
        done = subprocess.run(
            [compiler, *strict, "-o", built, path, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise OSError(f"{compiler} refuses it: {done.stderr[:500]}")
        library = ctypes.CDLL(built)

    class Entry(ctypes.Structure):
        """A row of the tables as policy.h has it, up to the name."""

        _fields_ = (
            ("offset", ctypes.c_size_t),
            *((name, ctypes.c_int) for name in ("size", "rank")),
            ("shape", ctypes.c_int * 8),
            ("kept", ctypes.c_int),
            ("dtype", ctypes.c_char * 8),
        )

    def address(name: str) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(library, f"{prefix}_{name}"))

    n_inputs, n_outputs, *sizes, row = (ctypes.c_int * 6).in_dll(library, f"{prefix}_sizes")

    def table(name: str, count: int) -> list[Any]:
        found = []
        for index in range(count):
            place = address(name) + index * row
            entry = Entry.from_address(place)
            key = ctypes.string_at(place + Entry.dtype.offset + 8).decode()
            found.append((key, entry, np.dtype(entry.dtype.decode()), tuple(entry.shape[: entry.rank])))
        return found

    inputs, outputs = table("input_table", n_inputs), table("output_table", n_outputs)
    step_function = library[f"{prefix}_step"]
    step_function.argtypes, step_function.restype = [ctypes.c_void_p] * 3, None

    def check(arrays: Any) -> int:
        if set(arrays) != {key for key, *_ in inputs}:
            raise ValueError(f"expected the inputs {[key for key, *_ in inputs]}, found {sorted(arrays)}")
        for key, _, dtype, shape in inputs:
            if arrays[key].dtype != dtype or arrays[key].shape[1:] != shape or arrays[key].ndim != len(shape) + 1:
                raise ValueError(f"{key}: expected {dtype} {shape}, found {arrays[key].dtype} {arrays[key].shape}")
        if len({len(array) for array in arrays.values()}) != 1:
            raise ValueError("the batch sizes differ")
        return len(arrays[inputs[0][0]])

    def step(arrays: Any) -> dict[str, Any]:
        n = check(arrays)
        # Input, output and state of every row, as bytes.
        rows = [np.zeros((n, -(-size // 64) * 64), np.uint8) for size in (sizes[0], sizes[1], sizes[2])]
        for key, entry, dtype, _ in inputs:
            flat = np.ascontiguousarray(arrays[key]).reshape(n, entry.size).view(np.uint8)
            rows[2 if entry.kept else 0][:, entry.offset : entry.offset + entry.size * dtype.itemsize] = flat
        starts, widths = [part.ctypes.data for part in rows], [part.shape[1] for part in rows]
        for index in range(n):
            given, taken, kept = (start + index * width for start, width in zip(starts, widths, strict=True))
            step_function(kept, given, taken)
        results = {}
        for key, entry, dtype, shape in outputs:
            part = rows[2 if entry.kept else 1][:, entry.offset : entry.offset + entry.size * dtype.itemsize]
            results[key] = np.ascontiguousarray(part).view(dtype).reshape(n, *shape)
        return results

    return step
