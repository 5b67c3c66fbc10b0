"""Runs rlpipe as a user does, in a folder of its own, and reads what it wrote with outside tools only."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "rlpipe" / "sample" / "checkpoint"
FINGERPRINT = r"\b[0-9a-f]{12}\b"
TRACEBACK = "Traceback (most recent call last)"
# A stream with one global, numpy.ndarray: neither rlpipe nor torch nor ml_dtypes may be needed to read it.
_READ_PICKLE = """
import hashlib, json, pickle, sys
for name in ("rlpipe", "torch", "ml_dtypes", "h5py"):
    sys.modules[name] = None
import numpy
with open(sys.argv[1], "rb") as file:
    state = pickle.load(file)
assert type(state) is dict, type(state)
assert all(type(array) is numpy.ndarray for array in state.values())
digest = lambda array: hashlib.sha256(array.tobytes()).hexdigest()
print(json.dumps({key: [str(a.dtype), list(a.shape), digest(a)] for key, a in state.items()}))
"""

ArrayDigest = tuple[str, tuple[int, ...], str]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one call of the program left behind."""

    arguments: tuple[str, ...]
    folder: Path
    code: int
    out: str
    err: str
    seconds: float
    reports: tuple[Any, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """Everything that a person sees."""
        return self.out + self.err

    @property
    def report(self) -> Any:
        """The one result.json of this run."""
        assert len(self.reports) == 1, f"{len(self.reports)} result.json files after {self}"
        return self.reports[0]

    def succeeded(self) -> "Run":
        """This run, after a check that it went well."""
        assert self.code == 0, str(self)
        assert TRACEBACK not in self.text, str(self)
        return self

    def failed(self, *codes: int) -> "Run":
        """This run, after a check that it was refused in a civil way."""
        assert self.code in codes, str(self)
        assert TRACEBACK not in self.text, str(self)
        return self

    def __str__(self) -> str:
        return f"rlpipe {' '.join(self.arguments)} -> {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run_program(
    *arguments: str | Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
) -> Run:
    """`python <flags> -m rlpipe <arguments>` in `folder`, with nothing on the path but this repository."""
    kept = {key: value for key, value in os.environ.items() if key not in ("HYDRA_FULL_ERROR", "COLUMNS", "PYTHONPATH")}
    told = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})}
    written = tuple(str(argument) for argument in arguments)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, *flags, "-m", "rlpipe", *written],
        cwd=folder,
        env=kept | told,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    seconds = time.monotonic() - started
    new = [path for path in sorted(folder.rglob("result.json")) if before.get(path) != path.stat().st_mtime_ns]
    return Run(
        arguments=written,
        folder=folder,
        code=done.returncode,
        out=done.stdout,
        err=done.stderr,
        seconds=seconds,
        reports=tuple(json.loads(path.read_text()) for path in new),
    )


def run_python(program: str, *, folder: Path) -> str:
    """Standard output of a Python program of the user's, run in `folder`, where warnings are errors of nobody."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def leaves(value: Any) -> Iterator[Any]:
    """Every key and every plain value inside a JSON value."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def values_at(value: Any, name: str) -> list[Any]:
    """Everything that stands under the key `name`, at any depth."""
    if isinstance(value, dict):
        here = [value[name]] if name in value else []
        return here + [found for part in value.values() for found in values_at(part, name)]
    if isinstance(value, list):
        return [found for part in value for found in values_at(part, name)]
    return []


def digests(component: Path) -> dict[str, ArrayDigest]:
    """Key -> (dtype, shape, SHA-256 of the bytes) of a component, by raw h5py or by pickle.load with numpy alone."""
    if (component / "state.h5").exists():
        return _digests_of_hdf5(component / "state.h5")
    if (component / "state.pkl").exists():
        return _digests_of_pickle(component / "state.pkl")
    return {}


def _digests_of_hdf5(path: Path) -> dict[str, ArrayDigest]:
    found: dict[str, ArrayDigest] = {}

    def visit(key: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            array = item[()]
            found[key] = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest())

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return found


def _digests_of_pickle(path: Path) -> dict[str, ArrayDigest]:
    command = [sys.executable, "-I", "-c", _READ_PICKLE, str(path)]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    return {key: (dtype, tuple(shape), sha) for key, (dtype, shape, sha) in json.loads(read.stdout).items()}


def roles(component: Path) -> dict[str, str]:
    """Array key -> role, from the manifest."""
    manifest = json.loads((component / "manifest.json").read_text())
    return {key: role for key, _, _, role, _ in manifest["file"]["arrays"]}


def files(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def flip_byte(path: Path, *, at: int) -> None:
    """Damages one bit of one byte, keeping the size."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
