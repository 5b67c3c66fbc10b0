"""The command: mends the words, lets Hydra compose them, runs the jobs, and answers with an exit code.

0: it did what it was asked to do. 1: it failed. 2: the command or its config is wrong. 130: interrupted.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import rlpipe
from rlpipe.config import conf, directories, schema
from rlpipe.config.command import Command, read
from rlpipe.config.findings import LOOK
from rlpipe.config.hydra_errors import config_error, is_of_the_config
from rlpipe.config.terminal import (
    INTERRUPTED,
    TRACEBACKS,
    delivered,
    never_fail_to_print,
    refused,
    tell,
    wants_tracebacks,
)
from rlpipe.errors import ConfigError, RlpipeError
from rlpipe.pipeline.sampled import is_of_sample

if TYPE_CHECKING:
    from rlpipe.pipeline.reports import Report

PROGRAM = "rlpipe"
WRONG_COMMAND = 2
_LOG = logging.getLogger(PROGRAM)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The words after the program's name; None: those of this process.

    Returns:
        The exit code.
    """
    never_fail_to_print()
    _find_packages_here()
    try:
        command = read(sys.argv[1:] if argv is None else argv)
    except RlpipeError as error:
        return tell(error, tracebacks=wants_tracebacks())
    if command.has("--version"):
        print(f"{PROGRAM} {rlpipe.__version__}")  # noqa: T201
        return 0
    return _run_hydra(command)


def _run_hydra(command: Command) -> int:
    schema.register()
    directories.DirectoryGuard.sweep = None
    jobs = Jobs(tracebacks=wants_tracebacks())
    main_of = hydra.main(config_path=str(conf.shipped_directory()), config_name=conf.CONFIG_NAME, version_base="1.3")
    with _words([PROGRAM, *command.flags, *_own_options(command), *command.overrides]), _errors_of_hydra():
        if command.only_shows:
            return _show(main_of(jobs.run), jobs)
        stopped = _code_of(main_of(jobs.run), jobs)
    if command.is_sweep:
        return _end_of_sweep(stopped, jobs)
    if stopped == INTERRUPTED or (stopped == 0 and not jobs.codes):
        return stopped
    return jobs.codes[0] if jobs.codes else WRONG_COMMAND


def _own_options(command: Command) -> Sequence[str]:
    """The user's folder where Hydra lists options: for that it reads no config, which would name the folder."""
    own = conf.own_directory()
    is_help = command.has("--help", "-h") and command.value_of("--config-dir", "-cd") is None
    return ("--config-dir", str(own.absolute())) if own and is_help else ()


def _show(run: Callable[[], Any], jobs: Jobs) -> int:
    """Let Hydra print what it was asked for, at once."""
    text = io.StringIO()
    with redirect_stdout(text):
        code = _code_of(run, jobs)
    if not delivered(lambda: sys.stdout.write(text.getvalue())):
        return 1
    return WRONG_COMMAND if code else 0


def _code_of(run: Callable[[], Any], jobs: Jobs) -> int:
    """What Hydra's own end amounts to."""
    try:
        run()
    except SystemExit as stop:
        if stop.code == WRONG_COMMAND:  # argparse, at flags that it does not know
            print("options of rlpipe are key=value, such as restore.device=cuda", file=sys.stderr)  # noqa: T201
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever Hydra meets
        if is_of_the_config(error):
            return tell(config_error(error), tracebacks=jobs.tracebacks)
        traceback.print_exc()
        return 1
    return 0


def _end_of_sweep(stopped: int, jobs: Jobs) -> int:
    """One table of all jobs; the exit code is that of the first that failed."""
    sweep = directories.DirectoryGuard.sweep
    results = directories.read_jobs(sweep) if sweep else ()
    if results:
        from rich.console import Group

        from rlpipe.pipeline import tables

        columns = ("job", "overrides", "verdict", "seconds", "error")
        table = tables.table(*columns, rows=directories.job_rows(results), right=("seconds",))
        delivered(lambda: tables.show(Group("", table), sys.stdout))
    elif not jobs.codes:
        if not stopped:
            print("error: the sweep holds no job", file=sys.stderr)  # noqa: T201
        return stopped if stopped == INTERRUPTED else WRONG_COMMAND
    codes = [stopped if stopped == INTERRUPTED else 0, *(job.exit_code for job in results), *jobs.codes, stopped]
    return next((code for code in codes if code), 0)


class Jobs:
    """What Hydra calls for every job; in other processes, if the launcher starts some.

    Attributes:
        codes: Exit codes of the jobs that ran in this process.
        tracebacks: Whether errors are shown with theirs.
    """

    def __init__(self, *, tracebacks: bool) -> None:
        self.codes: list[int] = []
        self.tracebacks = tracebacks

    def run(self, config: DictConfig) -> int:
        """Run one job; it never raises, so that a sweep goes on and a launcher's own traceback stays away."""
        try:
            with _where_it_was_typed():
                code = _run_job(config, tracebacks=self.tracebacks)
        except KeyboardInterrupt:
            self.codes.append(INTERRUPTED)
            raise
        self.codes.append(code)
        return code


@contextmanager
def _where_it_was_typed() -> Iterator[None]:
    """Paths count from there, whatever hydra.job.chdir does to the working directory."""
    before = Path.cwd()
    os.chdir(HydraConfig.get().runtime.cwd)
    try:
        yield
    finally:
        os.chdir(before)


def _run_job(config: DictConfig, *, tracebacks: bool) -> int:
    out_dir = _relative(Path(HydraConfig.get().runtime.output_dir))
    started = time.monotonic()
    try:
        directories.claim(out_dir)
    except RlpipeError as error:
        return tell(error, tracebacks=tracebacks)
    try:
        report = _report(config, out_dir)
    except (Exception, KeyboardInterrupt, SystemExit) as raised:
        code = _end(refused(raised) if isinstance(raised, OSError) else raised, config, out_dir, started, tracebacks)
        if isinstance(raised, KeyboardInterrupt):
            raise
        return code
    return report.exit_code if _print(report) else 1


def _end(error: BaseException, config: DictConfig, out_dir: Path, started: float, tracebacks: bool) -> int:  # noqa: FBT001
    """Tell and record how a run ended that came to no report; its exit code."""
    _print_attached(error)
    code = tell(error, tracebacks=tracebacks)
    directories.write_failure(
        out_dir,
        task=str(OmegaConf.select(config, "task.name")),
        exit_code=code,
        error=directories.error_json(error),
        done=_done_before(error),
        sample=is_of_sample(error),
        seconds=time.monotonic() - started,
    )
    return code


def _report(config: DictConfig, out_dir: Path) -> Report:
    from rich.console import Console

    from rlpipe.config.usage import unused
    from rlpipe.config.validation import read_settings
    from rlpipe.pipeline import runner
    from rlpipe.pipeline.progress import progress_for

    overrides = directories.texts(HydraConfig.get().overrides.task)
    settings = read_settings(_plain(config), overrides=overrides, out_dir=str(out_dir))
    for warning in unused(settings, overrides):
        _LOG.warning(warning)
    # The stream of now: exporters redirect sys.stderr while they work, and the bar has to stay on the terminal.
    return runner.run(settings, progress=progress_for(Console(file=sys.stderr)))


def _relative(path: Path) -> Path:
    """The path as people would type it: from the working directory, if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _plain(config: DictConfig) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))
    except OmegaConfBaseException as error:
        found = str(error).partition("\n")[0]
        expected = "one that resolves"
        raise ConfigError("an interpolation in the config", expected=expected, found=found, fix=LOOK) from error


def _print(report: Report) -> bool:
    from rlpipe.pipeline import tables

    return delivered(lambda: tables.show(report.render(), sys.stdout))


def _print_attached(error: BaseException) -> None:
    """Show what was done before the error."""
    from rlpipe.pipeline.reports import attached

    if (report := attached(error)) is not None:
        _print(report)


def _done_before(error: BaseException) -> Mapping[str, Any]:
    """What was done before the error, as the report of that tells it."""
    from rlpipe.pipeline.reports import attached
    from rlpipe.pipeline.runner import plain

    report = attached(error)
    return {} if report is None else plain(report.body())


@contextmanager
def _errors_of_hydra() -> Iterator[None]:
    """Hydra raises what it would print otherwise."""
    before = os.environ.get(TRACEBACKS)
    os.environ[TRACEBACKS] = "1"
    try:
        yield
    finally:
        del os.environ[TRACEBACKS]
        if before is not None:
            os.environ[TRACEBACKS] = before


def _find_packages_here() -> None:
    """Let the installed script find packages in the working directory, as `python -m rlpipe` does, but last."""
    here = str(Path.cwd())
    if not sys.flags.safe_path and here not in sys.path and "" not in sys.path:
        sys.path.append(here)


@contextmanager
def _words(argv: list[str]) -> Iterator[None]:
    """Hydra reads the words of the process."""
    before, sys.argv = sys.argv, argv
    try:
        yield
    finally:
        sys.argv = before
