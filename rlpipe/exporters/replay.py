"""Runs an artifact where rlpipe is not: this file is the whole program of a fresh process.

It imports nothing of rlpipe and makes rlpipe, and what else the target must do without, impossible to import. It gets
the source text of the target's `load`, runs every batch through what it returns, and writes down what came out.

    python -I replay.py FOLDER      reads job.json and feeds.npz there, writes results.npz and results.json
"""

from __future__ import annotations
import __future__

import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    """Run the job of a folder; what goes wrong is written down too."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    sys.path.extend(path for path in job["search"] if path not in sys.path)
    for name in job["blocked"]:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it now fails
    report: dict[str, Any] = {"stage": "load", "batch": 0, "error": "", "trace": "", "load_seconds": 0.0}
    try:
        run(job, folder, report)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to know
        report.update(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    (folder / "results.json").write_text(json.dumps(report), encoding="utf-8")


def run(job: dict[str, Any], folder: Path, report: dict[str, Any]) -> None:
    """Load the artifact and run all batches: (start, size) of the feeds, beginning again at their end."""
    import numpy as np

    started = time.perf_counter()
    space: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(job["source"], "<load>", "exec", flags), space)  # noqa: S102 - the target's own source, by rlpipe
    step = space["load"](job["artifact"])
    report.update(stage="run", load_seconds=time.perf_counter() - started)
    with np.load(folder / "feeds.npz", allow_pickle=False) as archive:
        feeds = {name: archive[str(index)] for index, name in enumerate(job["inputs"])}
    length = len(next(iter(feeds.values())))
    results: dict[str, Any] = {}
    names: list[list[str]] = []
    for call, (start, size) in enumerate(job["calls"]):
        report.update(batch=size)
        rows = (start + np.arange(size)) % length
        outputs = step({name: np.ascontiguousarray(array[rows]) for name, array in feeds.items()})
        names.append(list(outputs))
        results.update({f"{call}/{index}": np.array(value) for index, value in enumerate(outputs.values())})
    np.savez(folder / "results.npz", allow_pickle=False, **results)
    report.update(stage="done", names=names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
