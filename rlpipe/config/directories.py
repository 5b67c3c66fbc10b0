"""The directory of a run: one run each, a ``result.json`` at every end, one table for the jobs of a sweep."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, cast

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from rlpipe.errors import ConfigError, RlpipeError

RESULT_FILE = "result.json"
_RUNNING = {"ok": False, "exit_code": 1, "error": {"subject": "the run has not ended, or was killed"}}


class DirectoryGuard(Callback):
    """Keeps Hydra from writing over an earlier run, and remembers where a sweep went.

    Attributes:
        sweep: Directory of the sweep that this process started, or None.
    """

    sweep: ClassVar[Path | None] = None

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Before Hydra makes the directory of a single run."""
        directory = Path(config.hydra.run.dir).absolute()
        _open(directory, [directory / RESULT_FILE], key="hydra.run.dir")

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Before Hydra makes the directory of a sweep."""
        directory = Path(config.hydra.sweep.dir).absolute()
        _open(directory, directory.glob(f"*/{RESULT_FILE}"), key="hydra.sweep.dir")
        DirectoryGuard.sweep = directory


def _open(directory: Path, results: Iterable[Path], *, key: str) -> None:
    """Make the directory, or stop the program: Hydra turns any other exception of a callback into a warning."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        found = f"{directory}: {cause.strerror}"
        _stop(ConfigError(key, expected="a directory that can be made", found=found, fix=f"name another: {key}=..."))
    if any(result.exists() for result in results):
        _stop(_used(directory, key))


def _stop(error: RlpipeError) -> NoReturn:
    print(f"error: {error}", file=sys.stderr)  # noqa: T201
    raise SystemExit(error.exit_code)


def _used(directory: Path, key: str) -> ConfigError:
    return ConfigError(
        f"the directory {directory} holds the result of an earlier run",
        expected="a directory of its own for every run",
        found=RESULT_FILE,
        fix=f"leave {key} at its default, or name a new directory",
    )


def claim(directory: Path) -> None:
    """Make the directory this run's own, by a result that says that the run has not ended.

    Raises:
        ConfigError: Another run owns it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with (directory / RESULT_FILE).open("x", encoding="utf-8") as stream:
            json.dump(_RUNNING, stream)
    except FileExistsError:
        raise _used(directory, "hydra.run.dir") from None


def write_failure(
    directory: Path,
    *,
    task: str,
    exit_code: int,
    error: Mapping[str, Any],
    sample: bool,
    seconds: float,
    done: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write the ``result.json`` of a run that did not come to a report.

    Args:
        directory: The run's.
        task: Its task.
        exit_code: Its exit code.
        error: What ended it.
        sample: Whether its source was the packaged sample.
        seconds: How long it took.
        done: What was done before, such as the steps of a pipeline.
    """
    head = {"task": task, "ok": False, "exit_code": exit_code, "sample": sample}
    result = {**head, "error": error, **done, "seconds": round(seconds, 3)}
    (directory / RESULT_FILE).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def error_json(error: BaseException) -> dict[str, Any]:
    """An error as plain JSON; one of rlpipe's with its parts."""
    if isinstance(error, RlpipeError):
        parts = {name: getattr(error, name) for name in ("subject", "expected", "found", "fix")}
        return {"type": type(error).__name__, **parts}
    return {"type": type(error).__name__, "subject": str(error) or type(error).__name__}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job of a sweep.

    Attributes:
        name: Name of its directory.
        overrides: The overrides that made it.
        result: Its ``result.json``.
    """

    name: str
    overrides: tuple[str, ...]
    result: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """0 if it did all that it was asked to do."""
        return int(self.result.get("exit_code", 1))


def read_jobs(sweep: Path) -> tuple[JobResult, ...]:
    """The jobs of a sweep that left a result, in their order."""
    directories = sorted((path.parent for path in sweep.glob(f"*/{RESULT_FILE}")), key=_job_order)
    return tuple(
        JobResult(
            name=directory.name,
            overrides=_recorded_overrides(directory),
            result=json.loads((directory / RESULT_FILE).read_text(encoding="utf-8")),
        )
        for directory in directories
    )


def job_rows(jobs: Sequence[JobResult]) -> list[tuple[str, ...]]:
    """Job, what sets it apart from the others, verdict, seconds and error."""
    shared = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    return [
        (
            job.name,
            " ".join(_as_typed(override) for override in job.overrides if override not in shared),
            "ok" if job.exit_code == 0 else f"failed ({job.exit_code})",
            f"{job.result['seconds']:.1f}" if "seconds" in job.result else "",
            str(job.result.get("error", {}).get("subject", "")).partition("\n")[0],
        )
        for job in jobs
    ]


def _as_typed(override: str) -> str:
    """Without the backslashes that Hydra's sweeper puts before characters of its grammar."""
    return re.sub(r"\\([\\()\[\]{}:=, \t])", r"\1", override)


def _job_order(directory: Path) -> tuple[int, str]:
    return (int(directory.name) if directory.name.isdecimal() else sys.maxsize, directory.name)


def _recorded_overrides(directory: Path) -> tuple[str, ...]:
    path = directory / ".hydra" / "overrides.yaml"
    return texts(OmegaConf.load(path)) if path.is_file() else ()


def texts(overrides: Any) -> tuple[str, ...]:
    """Overrides without the sign that Hydra was given; an interpolation in one belongs to the config, not to them."""
    plain = cast("list[Any]", OmegaConf.to_container(overrides, resolve=False))
    return tuple(str(override).removeprefix("++") for override in plain)
