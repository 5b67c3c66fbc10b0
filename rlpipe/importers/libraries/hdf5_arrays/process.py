"""Starting `survey.py` in a process of its own, and what may come of that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.libraries.hdf5_arrays import survey

_MEMORY = 64 * 2**20
_SECONDS, _SECONDS_PER_BYTE = 1.2, 0.3e-6
"""Of the processor. A dataset takes 0.1 ms and at least 500 bytes."""

_PATIENCE = 60.0
"""Seconds of the clock that a process may take where the system does not count those of the processor."""


def surveyed(path: Path, size: int) -> dict[str, Any]:
    """What `survey.py` says of a file.

    Raises:
        ForeignFormatError: The HDF5 library cannot read it.
        UnsafePayloadError: It takes more time, memory or objects than an honest file, or the library crashed.
    """
    seconds = _SECONDS + _SECONDS_PER_BYTE * size
    job = {
        "path": os.fspath(path.absolute()),
        # An isolated process does not see packages of the user's own or of PYTHONPATH.
        "search": [entry for entry in sys.path if entry],
        "memory": _MEMORY,
        "seconds": seconds,
    }
    command = [sys.executable, "-I", "-S", survey.__file__]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        raise _unsafe(path, f"no end within {_PATIENCE:g} s") from None
    except OSError as error:
        raise ForeignFormatError(
            f"{path.name} is not read", expected=f"a Python at {sys.executable}", found=str(error)
        ) from None
    if done.returncode:
        raise _unsafe(path, _death(done.returncode, seconds))
    return _answer(path, done.stdout)


def _environment() -> dict[str, str]:
    """This one's, without what steers the HDF5 library, and without threads that take memory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_")}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _death(code: int, seconds: float) -> str:
    if code == -getattr(signal, "SIGPROF", 0):
        return f"no end within {seconds:.1f} s"
    return f"a crash of the HDF5 library (exit code {code})"


def _answer(path: Path, text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        raise _unsafe(path, "an answer that is cut") from None
    if "unsafe" in answer:
        raise _unsafe(path, answer["unsafe"])
    if "damaged" in answer:
        raise damaged(path, answer["damaged"])
    return dict(answer)


def damaged(path: Path, found: str) -> ForeignFormatError:
    """The error that a file is no whole HDF5 file."""
    return ForeignFormatError(
        f"{path.name} is damaged",
        expected="a whole HDF5 file",
        found=found,
        fix="copy or download it again",
    )


def _unsafe(path: Path, found: str) -> UnsafePayloadError:
    return UnsafePayloadError(
        f"{path.name} is not read",
        expected="a plain HDF5 file of arrays",
        found=found,
        fix="get the file from its author anew, or write its arrays into a new file with h5py",
    )
