"""From settings to a report: finds the task by its name, runs it and leaves ``result.json`` in the run directory."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, cast

from rlpipe.errors import ConfigError, closest
from rlpipe.pipeline.progress import NoProgress, Progress
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.sampled import sample_in_errors
from rlpipe.pipeline.settings import RunSettings

RESULT_FILE = "result.json"


class Task(Protocol):
    """What a file of ``rlpipe.pipeline.tasks`` holds.

    Some have more. ``READS_ARTIFACTS = True``: artifacts are a source too. ``check_ahead(settings, outlook)``: raises
    what it will miss, as far as that can be told before its source is there. ``opened(settings)``: the sources of the
    checkpoint that it writes.

    Attributes:
        USES: The dotted config keys that the task reads; a name without a dot stands for its whole node.
    """

    USES: frozenset[str]

    def run(self, settings: RunSettings, *, progress: Progress) -> Report:
        """Do the task."""
        ...


def task_names() -> tuple[str, ...]:
    """The tasks there are, by file name; none is imported."""
    folder = Path(__file__).parent / "tasks"
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))


def resolve(name: str) -> Task:
    """The task of that name.

    Raises:
        ConfigError: There is none.
    """
    names = task_names()
    if name not in names:
        near = closest(name, names)
        fix = f"did you mean {' or '.join(near)}?" if near else "choose one of the tasks that exist"
        expected = f"one of {', '.join(names)}"
        raise ConfigError(f"there is no task {name!r}", expected=expected, found=repr(name), fix=fix)
    return cast("Task", import_module(f"rlpipe.pipeline.tasks.{name}"))


def run(settings: RunSettings, *, progress: Progress | None = None) -> Report:
    """Run ``settings.task``.

    Args:
        settings: What to do.
        progress: Where progress is shown; None: nowhere.

    Returns:
        The task's report, also written to ``<out_dir>/result.json`` if ``out_dir`` is set.

    Raises:
        RlpipeError: The task could not be done; nothing was left half-changed, and no result was written. If its source
            was the packaged sample because nothing was given, a note says so.
    """
    started = time.perf_counter()
    with sample_in_errors():
        report = resolve(settings.task).run(settings, progress=progress or NoProgress())
    if settings.out_dir is not None:
        write_result(report, Path(settings.out_dir), seconds=time.perf_counter() - started)
    return report


def write_result(report: Report, out_dir: Path, *, seconds: float) -> Path:
    """Write a report as ``result.json`` and return its path."""
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / RESULT_FILE
    result = plain({**report.to_json(), "seconds": round(seconds, 3)})
    path.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def plain(value: Any) -> Any:
    """The value with numbers that JSON lacks as text: "nan", "inf", "-inf"."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
