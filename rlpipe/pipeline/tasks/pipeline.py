"""task=pipeline: the tasks of task.steps one after the other, each on what the last one made; one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import RenderableType

from rlpipe.errors import ConfigError, RlpipeError
from rlpipe.pipeline import runner, tables
from rlpipe.pipeline.locate import reading_path
from rlpipe.pipeline.outlook import Outlook
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import MadeArtifacts, Report, attach
from rlpipe.pipeline.settings import CheckpointSettings, RunSettings, SelectSettings, SourceSettings
from rlpipe.pipeline.sources import Source, open_source

USES = frozenset({"steps"})


@dataclass(frozen=True, kw_only=True)
class PipelineReport(Report):
    """The reports of all steps; ok if every step is. A step that is not ends the pipeline.

    Attributes:
        steps: In order; fewer than asked for if one was not ok.
        skipped: Steps that were not begun.
    """

    task = "pipeline"
    steps: tuple[Report, ...]
    skipped: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every step was done and ok."""
        return not self.skipped and all(step.ok for step in self.steps)

    def body(self) -> dict[str, Any]:
        """The steps' own JSON."""
        return {"steps": [step.to_json() for step in self.steps], "skipped": list(self.skipped)}

    def tables(self) -> Sequence[RenderableType]:
        """The steps one below the other."""
        parts: list[RenderableType] = []
        for number, step in enumerate(self.steps, start=1):
            title = f"{number}. {step.task}: {'ok' if step.ok else 'not ok'}"
            parts += ["", tables.line(title, style="bold"), step.render()]
        if self.skipped:
            parts += ["", tables.line(f"not begun: {', '.join(self.skipped)}", style="red")]
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What the steps so far made.

    Attributes:
        settings: For the next step that reads a checkpoint.
        artifacts: The last thing made, if that are artifacts.
    """

    settings: RunSettings
    artifacts: MadeArtifacts | None = None


def run(settings: RunSettings, *, progress: Progress) -> PipelineReport:
    """Run ``task.steps``.

    Raises:
        ConfigError: There are no steps, one is no task, or several will miss something.
        RlpipeError: A step could not be done; it says which, and carries the report of those before.
    """
    if not settings.steps or "pipeline" in settings.steps:
        raise ConfigError(
            "a pipeline needs steps",
            expected="a list of tasks in task.steps, without pipeline itself",
            found=f"{list(settings.steps)}",
            fix="'task.steps=[save,verify,export,evaluate]'",
        )
    _check_ahead(settings)
    made = _Made(settings=settings)
    reports: list[Report] = []
    for number, name in enumerate(settings.steps, start=1):
        try:
            reports.append(_run_step(name, number, made, settings.steps, progress))
        except RlpipeError as error:
            if reports:
                attach(_report(reports, settings.steps[number:]), error)
            raise
        if not reports[-1].ok:
            break
        made = _next(made, reports[-1])
    return _report(reports, settings.steps[len(reports) :])


def _check_ahead(settings: RunSettings) -> None:
    """Let every step say what it will miss before the first is run, all in one error."""
    tasks = [runner.resolve(name) for name in settings.steps]
    if not (checks := [getattr(task, "check_ahead", None) for task in tasks[1:]]):
        return
    # Of policies that a later step puts somewhere else, too little is known.
    has_one = not any(hasattr(task, "opened") for task in tasks[1:])
    outlook = Outlook(sources=_sources(tasks[0], settings) if has_one else (), settings=settings)
    missed: list[RlpipeError] = []
    for number, check in enumerate(checks, start=2):
        try:
            if check is not None:
                check(replace(settings, task=settings.steps[number - 1]), outlook)
        except RlpipeError as error:
            missed.append(_of_step(error, number, settings.steps[number - 1]))
    if len(missed) == 1:
        raise missed[0]
    if missed:
        lines = [f"  - {error.subject}; found: {error.found}; fix: {error.fix}" for error in missed]
        raise ConfigError("\n".join([f"{len(missed)} steps miss something, so that none was begun:", *lines]))


def _sources(first: Any, settings: RunSettings) -> tuple[Source, ...]:
    """Those of the first step, which is the one that tells what is wrong with them."""
    try:
        if hasattr(first, "opened"):
            return tuple(first.opened(settings))
        return (open_source(settings, given=reading_path(settings)),)
    except RlpipeError:
        return ()


def _of_step(error: RlpipeError, number: int, name: str) -> RlpipeError:
    error.subject = f"step {number}, {name}: {error.subject}"
    return error


def _report(done: Sequence[Report], skipped: tuple[str, ...]) -> PipelineReport:
    return PipelineReport(source=done[0].source, steps=tuple(done), skipped=skipped)


def _run_step(name: str, number: int, made: _Made, steps: tuple[str, ...], progress: Progress) -> Report:
    settings = replace(made.settings, task=name, steps=())
    if made.artifacts is not None and getattr(runner.resolve(name), "READS_ARTIFACTS", False):
        settings = replace(
            settings,
            source=SourceSettings(path=made.artifacts.folder),
            select=SelectSettings(policy_ids=made.artifacts.policy_ids),
            # They were made in this run.
            trust=(*settings.trust, *settings.export.targets),
        )
    if not _writes(name) and any(map(_writes, steps)):
        settings = replace(settings, checkpoint=CheckpointSettings())
    try:
        # Not the runner: one run leaves one result.json.
        return runner.resolve(name).run(settings, progress=progress)
    except RlpipeError as error:
        _of_step(error, number, name)
        raise


def _writes(name: str) -> bool:
    """Whether ``checkpoint.path`` is what the task writes."""
    return "checkpoint" in runner.resolve(name).USES


def _next(made: _Made, report: Report) -> _Made:
    """What the next step starts from; choosing and renaming policies is done by the first step that writes."""
    if (path := report.written()) is not None:
        settings = replace(
            made.settings,
            source=SourceSettings(path=path),
            checkpoint=CheckpointSettings(
                backend=made.settings.checkpoint.backend, durability=made.settings.checkpoint.durability
            ),
            select=SelectSettings(),
            rename={},
        )
        return _Made(settings=settings)
    if (artifacts := report.artifacts()) is not None:
        return _Made(settings=made.settings, artifacts=artifacts)
    return made
