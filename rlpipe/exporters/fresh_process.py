"""Start `replay.py` on an artifact and collect what it says."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters import replay
from rlpipe.exporters.target import Arrays, Target

SECONDS = 900.0
"""After so long a process counts as hung."""

_OWN_NAME = "rlpipe"


@dataclass(frozen=True, eq=False)
class Replayed:
    """What an artifact answered in a fresh process.

    Attributes:
        outputs: For each call, name -> array. Empty if it failed.
        error: What went wrong, on one line, or "".
        trace: The traceback, or what the process wrote before it died.
        load_seconds: How long loading took, imports included.
    """

    outputs: tuple[Arrays, ...]
    error: str
    trace: str
    load_seconds: float


def replay_artifact(target: Target, path: Path, feeds: Arrays, calls: Sequence[tuple[int, int]]) -> Replayed:
    """Run an artifact in a new isolated Python process that has neither rlpipe nor what the target must do without.

    Args:
        target: The artifact's target.
        path: The artifact's file.
        feeds: Input name -> (n, *shape).
        calls: (first row, batch size) of each call; rows after the last begin again at the first.
    """
    with tempfile.TemporaryDirectory(prefix="replay-") as made:
        folder = Path(made)
        job = {
            "source": textwrap.dedent(inspect.getsource(target.load)),
            "artifact": str(path.resolve()),
            "blocked": [_OWN_NAME, *target.BLOCKED],
            "inputs": list(feeds),
            "calls": [list(call) for call in calls],
            # An isolated process does not see packages of the user's own or of PYTHONPATH.
            "search": [entry for entry in sys.path if entry and Path(entry).is_dir()],
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        np.savez(folder / "feeds.npz", allow_pickle=False, **{str(i): array for i, array in enumerate(feeds.values())})
        said = _start(folder)
        return _collected(folder, said)


def _start(folder: Path) -> str:
    command = [sys.executable, "-I", str(Path(replay.__file__)), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS:g} s"
    return f"exit code {done.returncode}\n{done.stderr}" if done.returncode else ""


def _collected(folder: Path, said: str) -> Replayed:
    file = folder / "results.json"
    if not file.is_file():
        return Replayed((), f"the process died: {said.splitlines()[0] if said else 'no result'}", said, 0.0)
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if report["error"]:
        first = report["error"].splitlines()[0]
        where = "it cannot be loaded" if report["stage"] == "load" else f"it fails for a batch of {report['batch']}"
        return Replayed((), f"{where}: {first}", report["trace"], report["load_seconds"])
    with np.load(folder / "results.npz", allow_pickle=False) as archive:
        outputs = tuple(
            {name: archive[f"{call}/{index}"] for index, name in enumerate(names)}
            for call, names in enumerate(report["names"])
        )
    return Replayed(outputs, "", "", report["load_seconds"])
