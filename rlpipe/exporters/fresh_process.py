"""Start `replay.py` on an artifact and collect what it says."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters import replay
from rlpipe.exporters.checked import checked
from rlpipe.exporters.contract import Declared
from rlpipe.exporters.sequences import Episodes, initial
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays, Target

SECONDS = 900.0
"""After so long a process counts as hung."""

_OWN_NAME = "rlpipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What else the process does once the numbers are there.

    Attributes:
        signature: The inputs of the signature as JSON, for the check that goes before the artifact.
        cases: Name -> feeds that have to be refused.
        declared: Name -> feeds whose outcome is declared.
        golden: Rows of the feeds for one more call, or none.
        episodes: What it is given in a run of many steps, or None.
        measures: Whether latency and rates are measured.
    """

    signature: Sequence[Any] = ()
    cases: Mapping[str, Arrays] = field(default_factory=dict)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    golden: Sequence[int] = ()
    episodes: Episodes | None = None
    measures: bool = False


@dataclass(frozen=True, eq=False)
class Replayed:
    """What an artifact answered in a fresh process.

    Attributes:
        outputs: For each call, name -> array. Empty if it failed.
        error: What went wrong, on one line, or "".
        trace: The traceback, or what the process wrote before it died.
        load_seconds: How long loading took, imports included.
        golden: What it answered to the golden rows, or {}.
        episodes: Output name -> (steps, rows, *shape) of the run of many steps, or {}.
        contract: Name of a case -> what the file itself and what the checked file did with it.
        died: What ended the process after the numbers, or "".
        speed: Figures by name.
    """

    outputs: tuple[Arrays, ...]
    error: str
    trace: str
    load_seconds: float
    golden: Arrays = field(default_factory=dict)
    episodes: Arrays = field(default_factory=dict)
    contract: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    died: str = ""
    speed: Mapping[str, float] = field(default_factory=dict)


def replay_artifact(
    target: Target, path: Path, feeds: Arrays, calls: Sequence[tuple[int, int]], extras: Extras | None = None
) -> Replayed:
    """Run an artifact in a new isolated Python process that has neither rlpipe nor what the target must do without.

    Args:
        target: The artifact's target.
        path: The artifact's file.
        feeds: Input name -> (n, *shape).
        calls: (first row, batch size) of each call; rows after the last begin again at the first.
        extras: What else to do.
    """
    extras = extras or Extras()
    with tempfile.TemporaryDirectory(prefix="replay-") as made:
        folder = Path(made)
        arrays = {str(index): array for index, array in enumerate(feeds.values())}
        cases = [{"name": name, "arrays": _put(arrays, fed)} for name, fed in extras.cases.items()]
        declared = [
            {"name": name, "outcome": case.outcome, "arrays": _put(arrays, case.feeds), "like": _put(arrays, case.like)}
            for name, case in extras.declared.items()
        ]
        run = _run(extras.episodes, arrays)
        job = {
            "source": textwrap.dedent(inspect.getsource(target.load)),
            "checks": inspect.getsource(checked),
            "artifact": str(path.resolve()),
            "blocked": [_OWN_NAME, *target.BLOCKED],
            "inputs": list(feeds),
            "calls": [list(call) for call in calls],
            "golden": list(extras.golden),
            "cases": cases,
            "declared": declared,
            "episodes": run,
            "signature": list(extras.signature),
            "measures": extras.measures,
            # An isolated process does not see packages of the user's own or of PYTHONPATH.
            "search": [entry for entry in sys.path if entry and Path(entry).is_dir()],
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        np.savez(folder / "feeds.npz", allow_pickle=False, **arrays)
        said = _start(folder)
        return _collected(folder, said, has_golden=bool(extras.golden))


def _put(arrays: dict[str, Array], fed: Arrays) -> list[tuple[str, str]]:
    """(name, key) of arrays that are put to the others."""
    keys = {name: f"{len(arrays)}-{index}" for index, name in enumerate(fed)}
    arrays.update({keys[name]: array for name, array in fed.items()})
    return list(keys.items())


def _run(episodes: Episodes | None, arrays: dict[str, Array]) -> dict[str, Any] | None:
    """The job of a run of many steps; its arrays are put to the others."""
    if episodes is None:
        return None
    signature = episodes.signature
    states = initial(signature.of_kind("state"), episodes.starts.shape[1])
    return {
        "inputs": _put(arrays, episodes.inputs),
        "states": _put(arrays, states),
        "order": [spec.name for spec in signature.inputs],
        "memory": signature.memory,
    }


def _start(folder: Path) -> str:
    command = [sys.executable, "-I", str(Path(replay.__file__)), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS:g} s"
    return f"exit code {done.returncode}\n{done.stderr}" if done.returncode else ""


def _collected(folder: Path, said: str, *, has_golden: bool) -> Replayed:
    file = folder / "results.json"
    if not file.is_file():
        return Replayed((), f"the process died: {said.splitlines()[0] if said else 'no result'}", said, 0.0)
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if report["error"]:
        first = report["error"].splitlines()[0]
        where = "it cannot be loaded" if report["stage"] == "load" else f"it fails {report['at']}"
        return Replayed((), f"{where}: {first}", report["trace"], report["load_seconds"])
    with np.load(folder / "results.npz", allow_pickle=False) as archive:
        outputs = [
            {name: archive[f"{call}/{index}"] for index, name in enumerate(names)}
            for call, names in enumerate(report["names"])
        ]
        episodes = {name: archive[f"episode/{index}"] for index, name in enumerate(report.get("episode_names", ()))}
    golden = outputs.pop() if has_golden else {}
    died = "" if report["stage"] == "done" else (said.splitlines() or ["no result"])[0]
    return Replayed(
        tuple(outputs),
        "",
        "",
        report["load_seconds"],
        golden=golden,
        episodes=episodes,
        contract=report["contract"],
        died=died,
        speed=report.get("speed", {}),
    )
