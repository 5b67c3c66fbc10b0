"""Runs an artifact where rlpipe is not: this file is the whole program of a fresh process.

It imports nothing of rlpipe and makes rlpipe, and what else the target must do without, impossible to import. It gets
the source text of the target's `load`, runs every batch through what it returns, and writes down what came out.

    python -I replay.py FOLDER      reads job.json and feeds.npz there, writes results.npz and results.json

What it has found is written down after each stage, so that a file that brings the process down says where.
"""

from __future__ import annotations
import __future__

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

SECONDS, CALLS = 0.15, 400
"""Where measuring the latency ends, whichever is first."""
LARGE_BATCH, LARGE_BYTES = 1024, 1 << 26


def main(folder: Path) -> None:
    """Run the job of a folder; what goes wrong is written down too."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    sys.path.extend(path for path in job["search"] if path not in sys.path)
    for name in job["blocked"]:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it now fails
    report: dict[str, Any] = {"stage": "load", "at": "", "error": "", "trace": "", "load_seconds": 0.0}
    try:
        run(job, folder, report)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to know
        report.update(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        write(folder, report)


def run(job: dict[str, Any], folder: Path, report: dict[str, Any]) -> None:
    """Load the artifact, run all batches, measure, and feed it what it must refuse."""
    import numpy as np

    started = time.perf_counter()
    step = defined(job["source"], "load")(job["artifact"])
    report.update(stage="run", load_seconds=time.perf_counter() - started)
    with np.load(folder / "feeds.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    feeds = {name: arrays[str(index)] for index, name in enumerate(job["inputs"])}
    report.update(at="for a batch of 1")
    started = time.perf_counter()
    step(rows_of(feeds, [0]))
    first_seconds = time.perf_counter() - started
    results = replay(job, report, step, feeds)
    if job["episodes"]:
        results.update(play(job["episodes"], report, step, arrays))
    np.savez(folder / "results.npz", allow_pickle=False, **results)
    if job["measures"]:
        report.update(stage="speed", speed={"first_call_seconds": first_seconds, **speed(step, feeds)})
    report.update(stage="contract", contract={})
    write(folder, report)
    guarded = defined(job["checks"], "checked")(step, job["signature"])
    for case in job["cases"]:
        fed = {name: arrays[key] for name, key in case["arrays"]}
        report["contract"][case["name"]] = {"file": outcome(step, fed), "checked": outcome(guarded, fed)}
    for case in job["declared"]:
        pair = [{name: arrays[key] for name, key in case[side]} for side in ("arrays", "like")]
        found = {name: likeness(one, pair, case["outcome"]) for name, one in (("file", step), ("checked", guarded))}
        report["contract"][case["name"]] = found
    report.update(stage="done")
    write(folder, report)


def replay(job: dict[str, Any], report: dict[str, Any], step: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    """All calls: the rows of the feeds that each takes."""
    import numpy as np

    length = len(next(iter(feeds.values())))
    results: dict[str, Any] = {}
    names: list[list[str]] = []
    spans = [(start + np.arange(size)) % length for start, size in job["calls"]]
    for call, rows in enumerate([*spans, *([np.array(job["golden"])] if job["golden"] else [])]):
        report.update(at=f"for a batch of {len(rows)}")
        outputs = step(rows_of(feeds, rows))
        names.append(list(outputs))
        results.update({f"{call}/{index}": np.array(value) for index, value in enumerate(outputs.values())})
    report.update(names=names)
    return results


def play(job: dict[str, Any], report: dict[str, Any], step: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Steps in a row, of which each gets the memory that the one before gave."""
    import numpy as np

    inputs = {name: arrays[key] for name, key in job["inputs"]}
    state = {name: arrays[key] for name, key in job["states"]}
    taken: dict[str, list[Any]] = {}
    for at in range(len(next(iter(inputs.values())))):
        report.update(at=f"at step {at + 1} of a sequence")
        feeds = {**{name: array[at] for name, array in inputs.items()}, **state}
        outputs = {
            name: np.array(value)
            for name, value in step({name: np.ascontiguousarray(feeds[name]) for name in job["order"]}).items()
        }
        for name, value in outputs.items():
            taken.setdefault(name, []).append(value)
        state = {name: outputs[after] for name, after in job["memory"].items()}
    report.update(episode_names=list(taken))
    return {f"episode/{index}": np.stack(values) for index, values in enumerate(taken.values())}


def speed(step: Any, feeds: dict[str, Any]) -> dict[str, float]:
    """Latency of single observations, rate of large batches, memory: what this machine gives at this moment."""
    import numpy as np

    one = rows_of(feeds, [0])
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(times) < CALLS and (time.perf_counter() < until or len(times) < 3):
        started = time.perf_counter()
        step(one)
        times.append(time.perf_counter() - started)
    found = {"p50_us": 1e6 * float(np.percentile(times, 50)), "p99_us": 1e6 * float(np.percentile(times, 99))}
    length = len(next(iter(feeds.values())))
    if sum(array[:1].nbytes for array in feeds.values()) * LARGE_BATCH <= LARGE_BYTES:
        many = rows_of(feeds, np.arange(LARGE_BATCH) % length)
        step(many)
        started = time.perf_counter()
        step(many)
        found["batch_1024_per_second"] = LARGE_BATCH / (time.perf_counter() - started)
    return {**found, **memory(), "cpus": float(os.cpu_count() or 1)}


def memory() -> dict[str, float]:
    """The largest memory of this process, where the system tells it; what rusage says counts the parent's too."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    peaks = [float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM:")]
    return {"peak_mb": peaks[0]} if peaks else {}


def outcome(step: Any, feeds: dict[str, Any]) -> str:
    """What a wrong feed leads to."""
    import numpy as np

    try:
        outputs = [np.asarray(value) for value in step(feeds).values()]
    except Exception as error:  # noqa: BLE001 - any error is a refusal
        said = str(error).splitlines()
        return f"refuses: {type(error).__name__}: {said[0] if said else ''}"[:200]
    real = [value for value in outputs if value.dtype.kind == "f"]
    return "answers NaN" if real and all(np.isnan(value).any() for value in real) else "answers"


def likeness(step: Any, pair: Any, text: str) -> str:
    """Whether two feeds lead to the same: the text if they do."""
    import numpy as np

    try:
        one, other = (list(step(feeds).values()) for feeds in pair)
    except Exception as error:  # noqa: BLE001 - any error is a refusal
        return f"refuses: {type(error).__name__}: {error}"[:200]
    return text if all(map(np.array_equal, one, other)) else "answers otherwise"


def rows_of(feeds: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Chosen observations."""
    import numpy as np

    return {name: np.ascontiguousarray(array[rows]) for name, array in feeds.items()}


def defined(source: str, name: str) -> Any:
    """The function of that name in a source text."""
    space: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    exec(compile(source, f"<{name}>", "exec", flags), space)  # noqa: S102 - rlpipe's own source, given by rlpipe
    return space[name]


def write(folder: Path, report: dict[str, Any]) -> None:
    """Leave what is known so far."""
    (folder / "results.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
