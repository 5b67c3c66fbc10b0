"""Which path a run reads, and what lies there, told by content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rlpipe.backends.remote import Url, is_url
from rlpipe.checkpoint.choose import newest_of
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.refusals import reason
from rlpipe.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    ConfigError,
    ForeignFormatError,
    RlpipeError,
)
from rlpipe.exporters.artifact import artifact_folders, is_artifact
from rlpipe.importers import importer as importers
from rlpipe.pipeline.fetched import fetched, is_checkpoint
from rlpipe.pipeline.not_there import no_checkpoint, nothing_there, refuse_damaged_records
from rlpipe.pipeline.reports import SourceFacts
from rlpipe.pipeline.sampled import sample_is_taken
from rlpipe.pipeline.settings import ASSEMBLE, AUTO, BEST, LATEST, RunSettings, SourceSettings
from rlpipe.pipeline.which import chosen_of
from rlpipe.sample import sample_path

SAMPLE_NAME = "rlpipe/sample/checkpoint"
CHECKPOINT = "checkpoint"
ARTIFACT = "artifact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A path that exists, and what it is.

    Attributes:
        kind: ``checkpoint`` (any component directory), ``artifact``, or the id of an importer.
        path: Where it is; for artifacts a folder of them, one of them, or a file in one. Only checkpoints are read in a
            store; what else lies there was fetched.
        facts: The same for reports.
        notes: What was passed over on the way.
    """

    kind: str
    path: Place
    facts: SourceFacts
    notes: tuple[str, ...] = ()

    @property
    def local(self) -> Path:
        """The path of what is read on this machine: artifacts and foreign files."""
        return Path(self.path)


def locate(settings: RunSettings, *, given: str | None) -> Located:
    """What a reading task reads.

    Args:
        settings: For the kind of source and the folder of checkpoints.
        given: The path as given, ``"latest"``, or None: the newest checkpoint, else the packaged sample.

    Raises:
        CheckpointNotFoundError: There is nothing there, or no complete checkpoint.
        ForeignFormatError: A file that no importer takes.
    """
    located = _locate(settings, given)
    return replace(located, notes=(*located.notes, *_also_there(located), *_not_used(settings, located)))


def _also_there(located: Located) -> Iterator[str]:
    """A note where the files of a foreign checkpoint lie beside a manifest, so that both could be meant."""
    is_here = located.kind == CHECKPOINT and isinstance(located.path, Path)
    foreign = importers.recognise_folder(located.local) if is_here else None
    if foreign is not None:
        yield f"{located.facts.name} is a checkpoint of {foreign} too, which source={foreign} reads"


def _not_used(settings: RunSettings, located: Located) -> Iterator[str]:
    """A note for each setting that makes no difference to what was found."""
    source, select = settings.source, settings.select
    if source.goal != SourceSettings().goal and source.which != BEST:
        yield f"source.goal={source.goal} was given, but only source.which=best asks for scores"
    if located.kind not in (CHECKPOINT, ARTIFACT):
        if is_url(located.facts.name) and source.normalizer == AUTO:
            yield f"{located.facts.name} was fetched alone: no statistics were looked for beside it (source.normalizer)"
        return
    if source.normalizer != AUTO:
        holds = "a checkpoint, which holds" if located.kind == CHECKPOINT else "a folder of artifacts, which hold"
        yield f"source.normalizer was given, but {located.facts.name} is {holds} statistics of its own"
    for name in source.hints:
        yield f"source.{name} was given, but {located.facts.name} is rlpipe's own and needs no such hint"
    if source.policy_id is not None and located.kind == ARTIFACT:
        yield f"source.policy_id was given, but the policies of the artifacts in {located.facts.name} have their ids"
    for name, value in (("roles", select.roles), ("keys", select.keys)):
        if value is not None and located.kind == ARTIFACT:
            yield f"select.{name} was given, but artifacts are whole: choose among them with policy_ids"


def _locate(settings: RunSettings, given: str | None) -> Located:
    if settings.source.which is not None:
        return _chosen(settings, given)
    if given is not None and given != LATEST:
        return locate_path(given, kind=settings.source.kind)
    if settings.source.kind == ASSEMBLE:
        raise ConfigError(
            "source=assemble is for task=save",
            expected="a checkpoint that was assembled",
            found=f"task={settings.task}",
            fix="assemble it first: task=save source=assemble checkpoint.path=...",
        )
    if settings.source.kind != AUTO:
        raise ConfigError(
            f"source={settings.source.kind} reads a file",
            expected="source.path",
            found="no path" if given is None else given,
            fix="name the file: source.path=...",
        )
    folder = place_of(settings.checkpoints_dir)
    newest, notes = latest_checkpoint(folder)
    if newest is not None:
        facts = SourceFacts(kind=CHECKPOINT, name=newest.as_posix())
        return Located(kind=CHECKPOINT, path=newest, facts=facts, notes=notes)
    if given == LATEST:
        raise CheckpointNotFoundError(
            f"there is no complete checkpoint in {folder}",
            expected="a directory with manifest.json in it",
            found="; ".join(notes) or ("an empty directory" if folder.is_dir() else "no such directory"),
            fix="write one with task=save, or name one with source.path",
        )
    sample_is_taken()
    facts = SourceFacts(kind=CHECKPOINT, name=SAMPLE_NAME, sample=True)
    return Located(kind=CHECKPOINT, path=sample_path(), facts=facts, notes=notes)


def _chosen(settings: RunSettings, given: str | None) -> Located:
    """What ``source.which`` names, in the folder at the path, or where new checkpoints go."""
    folder = settings.checkpoints_dir if given is None or given == LATEST else given
    choice = chosen_of(place_of(folder), settings.source)
    path = choice.checkpoint.path
    facts = SourceFacts(kind=CHECKPOINT, name=path.as_posix())
    return Located(kind=CHECKPOINT, path=path, facts=facts, notes=choice.notes)


def locate_path(given: str, *, kind: str = AUTO) -> Located:
    """What lies at a path; ``kind`` is ``"auto"`` or the id of the importer that has to take it.

    Raises:
        CheckpointError: The system does not let it be read.
        RlpipeError: See `recognise`.
    """
    path = place_of(given)
    if isinstance(path, Url):
        if kind == AUTO and is_checkpoint(path):
            return Located(kind=CHECKPOINT, path=path, facts=SourceFacts(kind=CHECKPOINT, name=given))
        path = fetched(path)
    try:
        found = recognise(path) if kind == AUTO else _insisted(path, kind)
    except OSError as error:
        if isinstance(error, RlpipeError):
            raise
        fix = "see to the permissions of the path, and to its disk"
        raise CheckpointError(
            f"{given} cannot be read", expected="what may be read", found=reason(error), fix=fix
        ) from error
    return Located(kind=found, path=path, facts=SourceFacts(kind=found, name=given))


def recognise(path: Path) -> str:
    """``checkpoint``, ``artifact``, or the id of the importer that takes the file or directory, by content alone.

    Raises:
        CheckpointNotFoundError: There is nothing, or a directory without a checkpoint or an artifact in it.
        ArtifactError: A folder of artifacts whose record cannot be read.
        ForeignFormatError: A file that no importer takes.
    """
    if not path.exists():
        raise nothing_there(path)
    # Something else than a file under that name is damage, which whoever reads it tells.
    if path.is_dir() and os.path.lexists(path / MANIFEST_NAME):
        return CHECKPOINT
    if is_artifact(path) or next(artifact_folders(path), None) is not None:
        return ARTIFACT
    if path.is_dir():
        refuse_damaged_records(path)
        foreign = importers.recognise_folder(path)
        if foreign is None:
            raise no_checkpoint(path)
        return foreign
    if (path.parent / MANIFEST_NAME).is_file():
        raise CheckpointNotFoundError(
            f"{path} is a file of a checkpoint",
            expected="the directory of the checkpoint",
            found="a file in it",
            fix=f"name {path.parent}",
        )
    if not path.is_file():
        raise ForeignFormatError(
            f"{path} is no file that can be read",
            expected="a regular file or a directory",
            found="a device, pipe or socket",
            fix="name the file itself",
        )
    return importers.recognise(path)


def latest_checkpoint(folder: Place) -> tuple[Place | None, tuple[str, ...]]:
    """The latest whole checkpoint in a folder by what they record, and notes on what was passed over."""
    if not folder.is_dir():
        return None, ()
    found, notes = newest_of(folder)
    return None if found is None else found.path, notes


def reading_path(settings: RunSettings) -> str | None:
    """The path of a task that only reads: ``checkpoint.path`` is short for ``source.path`` there.

    Raises:
        ConfigError: Both are given.
    """
    given, short = settings.source.path, settings.checkpoint.path
    if given is not None and short is not None:
        raise ConfigError(
            "two paths to read",
            expected=f"one of source.path and checkpoint.path (task={settings.task} writes no checkpoint)",
            found=f"source.path={given} and checkpoint.path={short}",
            fix="leave checkpoint.path away",
        )
    return short if given is None else given


def _insisted(path: Path, kind: str) -> str:
    if not path.exists():
        raise nothing_there(path)
    if not isinstance(importers.resolve(kind), importers.FolderImporter) and path.is_dir():
        expected, found = f"a file of {kind}", "a directory"
        raise ForeignFormatError(f"{path} is no file", expected=expected, found=found, fix="source=auto")
    if path.is_file():
        # Importers take what they cannot open for damage.
        path.open("rb").close()
    return kind
