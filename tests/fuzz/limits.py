"""Reading files that mean harm, each in a process of its own with limits. `outcomes` is what tests call.

Run as a program it forks for each file, which is only safe in a process without other threads.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY = 64 * 2**20
"""Bytes above the file."""

SECONDS = 2.0
PATIENCE = 30.0
"""Seconds of the clock after which a process counts as hung, on a machine that has other things to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of reading a file.

    Attributes:
        error: Name of the error of rlpipe that was raised; "" if the file was read; else what went wrong, in capitals.
        text: The message, or what was read.
        seconds: Time of the processor, children included.
    """

    error: str
    text: str
    seconds: float

    @property
    def is_typed(self) -> bool:
        """Whether the file was read, or refused in words, in time."""
        return not self.error.isupper() and self.seconds < SECONDS


def outcomes(reader: str, paths: Sequence[Path]) -> list[Outcome]:
    """Read each file in a limited process.

    Args:
        reader: Name of a reader in `READERS`.
        paths: The files.
    """
    job = json.dumps([reader, [str(path) for path in paths]])
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__], input=job, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(*entry) for entry in json.loads(done.stdout)]


def read_foreign(importer_id: str) -> Callable[[Path], Any]:
    from rlpipe.importers import resolve

    importer = resolve(importer_id)

    def read(path: Path) -> Any:
        importer.recognise(path)
        return importer.read(path, importer.Options()).report.imported

    return read


def read_torch_file() -> Callable[[Path], Any]:
    from rlpipe.importers.restricted.torch_file import read_torch

    return lambda path: type(read_torch(path.read_bytes(), subject=path.name)).__name__


def read_pickle() -> Callable[[Path], Any]:
    from rlpipe.importers.restricted.numpy_names import KNOWN
    from rlpipe.importers.restricted.reader import load_file

    return lambda path: type(load_file(path, known=KNOWN)).__name__


def read_directory() -> Callable[[Path], Any]:
    from rlpipe.checkpoint.reader import read_checkpoint
    from rlpipe.checkpoint.verify import verify_checkpoint
    from rlpipe.snapshot.identity import content_hash

    def read(path: Path) -> Any:
        report = verify_checkpoint(path)
        found = content_hash(read_checkpoint(path))
        assert all(each.file.startswith("model/") for each in report.findings), report
        return found

    return read


def read_hdf5_by_forks() -> Callable[[Path], Any]:
    """The importer of HDF5 files; its other process is a fork of this one, which starts faster and runs the same."""
    import h5py

    from rlpipe.importers.bare_arrays import Options
    from rlpipe.importers.libraries.hdf5_arrays import importer, process, survey

    def surveyed(path: Path, size: int) -> dict[str, Any]:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            survey.limit(process.MEMORY, process.seconds_for(size))
            with os.fdopen(theirs, "w") as stream:
                json.dump(survey.answer_for(h5py, str(path)), stream)
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as stream:
            text = stream.read()
        return process.answer_of(path, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text, size)

    vars(importer)["surveyed"] = surveyed
    return lambda path: importer.read(path, Options()).report.imported


READERS: dict[str, Callable[[], Callable[[Path], Any]]] = {
    "checkpoint": read_directory,
    "forked hdf5": read_hdf5_by_forks,
    "hdf5": lambda: read_foreign("hdf5_arrays"),
    "pickle": lambda: read_foreign("pickle_arrays"),
    "restricted": read_pickle,
    "sb3": lambda: read_foreign("stable_baselines3"),
    "torch": read_torch_file,
}


def _limit(size: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size + MEMORY, used + size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*")) if path.is_dir() else path.stat().st_size


def _attempt(read: Callable[[Path], Any], path: Path) -> tuple[str, str]:
    from rlpipe.errors import RlpipeError

    _limit(_size(path))
    try:
        return "", str(read(path))[:2000]
    except RlpipeError as error:
        return type(error).__name__, str(error)[:2000]
    except BaseException as error:  # noqa: BLE001
        return "UNTYPED", f"{type(error).__name__}: {error}"[:2000]


def _run(read: Callable[[Path], Any], path: Path) -> tuple[str, str, float]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.write(theirs, json.dumps(_attempt(read, path)).encode())
        os._exit(0)
    os.close(theirs)
    data, start = b"", time.monotonic()
    while select.select([ours], [], [], max(0.0, start + PATIENCE - time.monotonic()))[0]:
        data += (piece := os.read(ours, 2**16))
        if not piece:
            break
    else:
        os.killpg(child, signal.SIGKILL)
    os.close(ours)
    _, status, usage = os.wait4(child, 0)
    answer = json.loads(data) if data else ["HANG" if os.WTERMSIG(status) == signal.SIGKILL else "CRASH", str(status)]
    return answer[0], answer[1], usage.ru_utime + usage.ru_stime


def main() -> None:
    import h5py
    import numpy as np

    assert h5py.version.hdf5_version  # what is loaded already is not counted
    assert np.zeros(1).nbytes
    reader, paths = json.load(sys.stdin)
    read = READERS[reader]()
    json.dump([_run(read, Path(path)) for path in paths], sys.stdout)


if __name__ == "__main__":
    main()
