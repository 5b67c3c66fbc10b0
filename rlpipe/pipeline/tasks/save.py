"""task=save: write a checkpoint, of freshly built policies or of any source: import, convert, slim, rename."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from rlpipe.pipeline import tables
from rlpipe.pipeline.assembled import assembled_source
from rlpipe.pipeline.attached import left_behind
from rlpipe.pipeline.built import BUILT, built_source
from rlpipe.pipeline.choose import completed, renamed
from rlpipe.pipeline.environment import with_env
from rlpipe.pipeline.inspect import warnings_of
from rlpipe.pipeline.learners import training_left
from rlpipe.pipeline.lift import policies_of
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import ASSEMBLE, RunSettings
from rlpipe.pipeline.sinks import WrittenCheckpoint, write
from rlpipe.pipeline.sources import Source, open_source, read_tree

USES = frozenset({"source", "checkpoint", "select", "rename", "algorithm", "env", "trust"})


@dataclass(frozen=True, kw_only=True)
class SaveReport(Report):
    """What was written.

    Attributes:
        checkpoint: The checkpoint.
        skipped: (name, why) of what an importer left in a foreign file.
    """

    task = "save"
    checkpoint: WrittenCheckpoint
    skipped: tuple[tuple[str, str], ...] = ()

    def body(self) -> dict[str, Any]:
        """The checkpoint."""
        return {"checkpoint": self.checkpoint.to_json(), "skipped": [list(pair) for pair in self.skipped]}

    def tables(self) -> Sequence[RenderableType]:
        """The checkpoint, and in short what was left in a foreign file: task=info tells all of it."""
        return (*self.checkpoint.tables(), *tables.left_in_file_in_short(self.skipped))

    def written(self) -> str:
        """Path of the checkpoint."""
        return self.checkpoint.path


def run(settings: RunSettings, *, progress: Progress) -> SaveReport:
    """Write ``checkpoint.path``.

    Raises:
        RlpipeError: The source cannot be read, the policies cannot be built, or nothing can be written there.
    """
    del progress
    (source,) = opened(settings)
    chosen = completed(read_tree(source, settings.select, trust=settings.trust), settings.select)
    # Built policies got theirs when they were built.
    tree, notes = with_env(chosen, None if source.facts is BUILT else settings.env)
    checkpoint = write(renamed(tree, settings.rename), settings)
    return SaveReport(
        source=source.facts,
        notes=(*source.report.confirmed, *checkpoint.notes),
        warnings=(
            *(*source.notes, *notes, *left_behind(source, policies_of(chosen), settings.checkpoint)),
            *training_left(source, chosen),
            *(*warnings_of(checkpoint.components), *checkpoint.warnings),
        ),
        checkpoint=checkpoint,
        skipped=source.report.skipped,
    )


def opened(settings: RunSettings) -> tuple[Source, ...]:
    """What the checkpoint is made of: the configured policies where no path is given."""
    given = settings.source.path
    if settings.source.kind == ASSEMBLE:
        return (assembled_source(settings),)
    is_built = given is None and settings.source.which is None
    return (built_source(settings) if is_built else open_source(settings, given=given),)
