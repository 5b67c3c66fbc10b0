"""What a task answers: a frozen value with a verdict, JSON for programs and tables for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Group, RenderableType

from rlpipe.pipeline import tables
from rlpipe.pipeline.sampled import SAMPLE_LINE, SAMPLE_MARK

_DONE_BEFORE = "done_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Where the policies of a run came from.

    Attributes:
        kind: ``checkpoint`` (or a component of one), ``artifact``, ``built``, or the id of an importer.
        name: The path as given, or what it was in words.
        sample: Whether it is the packaged sample, taken because nothing was given and nothing found.
    """

    kind: str
    name: str
    sample: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"kind": self.kind, "name": self.name, "sample": self.sample}

    def headline(self) -> str:
        """The first line of every report."""
        if self.sample:
            return SAMPLE_LINE
        return f"source: {self.name} ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeArtifacts:
    """Artifacts that a task made: one folder for each policy, in one folder."""

    folder: str
    policy_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """The answer of one task.

    Attributes:
        task: The task that answered.
        source: Where the policies came from.
        warnings: What the reader should know though nothing failed.
        notes: What is as it should be and worth a word.
    """

    task: ClassVar[str]
    source: SourceFacts
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the task did all that it was asked to do."""
        return True

    @property
    def exit_code(self) -> int:
        """0 if ok, else 1."""
        return 0 if self.ok else 1

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The task's own findings as plain JSON."""

    @abstractmethod
    def tables(self) -> Sequence[RenderableType]:
        """The task's own findings for people."""

    def written(self) -> str | None:
        """Path of the checkpoint that the task wrote, for the next step; None if it wrote none."""
        return None

    def artifacts(self) -> MadeArtifacts | None:
        """The artifacts that the task made, for the next step; None if it made none."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: what ``result.json`` holds."""
        head: dict[str, Any] = {"task": self.task, "ok": self.ok, "exit_code": self.exit_code}
        return {
            **head,
            "sample": self.source.sample,
            "source": self.source.to_json(),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            **self.body(),
        }

    def render(self) -> RenderableType:
        """For people: the source first, then the findings, then the notes and warnings."""
        style = "bold yellow" if self.source.sample else ""
        notes = [tables.line(f"note: {text}") for text in self.notes]
        warnings = [tables.line(f"warning: {text}", style="yellow") for text in self.warnings]
        findings = [tables.marked(part, SAMPLE_MARK) for part in self.tables()] if self.source.sample else self.tables()
        return Group(tables.line(self.source.headline(), style=style), *findings, *notes, *warnings)


def attach(report: Report, error: BaseException) -> None:
    """Let an error carry the report of what was done before it."""
    setattr(error, _DONE_BEFORE, report)


def attached(error: BaseException) -> Report | None:
    """What was done before an error, if it carries that."""
    report: Report | None = getattr(error, _DONE_BEFORE, None)
    return report
