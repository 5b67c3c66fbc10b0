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

MEMORY = 64 * 2**20
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
    job = {
        "path": os.fspath(path.absolute()),
        # An isolated process does not see packages of the user's own or of PYTHONPATH.
        "search": [entry for entry in sys.path if entry],
        "memory": MEMORY,
        "seconds": seconds_for(size),
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
    return answer_of(path, done.returncode, done.stdout, size)


def seconds_for(size: int) -> float:
    """Time of the processor for a file of so many bytes."""
    return _SECONDS + _SECONDS_PER_BYTE * size


def _environment() -> dict[str, str]:
    """This one's, without what steers the HDF5 library, and without threads that take memory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_")}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def answer_of(path: Path, code: int, text: str, size: int) -> dict[str, Any]:
    """What a process said before it ended with an exit code; below zero is the signal that killed it.

    Raises:
        ForeignFormatError: The HDF5 library cannot read the file.
        UnsafePayloadError: The process was stopped, or crashed.
    """
    if code == -getattr(signal, "SIGPROF", 0):
        raise _unsafe(path, f"no end within {seconds_for(size):.1f} s")
    if code:
        raise _unsafe(path, f"a crash of the HDF5 library (exit code {code})")
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        raise _unsafe(path, "an answer that is cut") from None
    if "unsafe" in answer:
        raise _unsafe(path, answer["unsafe"])
    if "damaged" in answer:
        raise damaged(path, answer["damaged"])
    return answer


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
