"""Where policies come from: a checkpoint, a foreign file, or the config; each gives a snapshot of what is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

from rlpipe.checkpoint.place import Place, own_name
from rlpipe.checkpoint.reader import read_checkpoint, read_manifest
from rlpipe.errors import ConfigError
from rlpipe.importers import importer as importers
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.pipeline.choose import chosen_ids, entry_selection, policy_selection
from rlpipe.pipeline.foreign_folder import FolderSource
from rlpipe.pipeline.importing import options_of
from rlpipe.pipeline.lift import POLICIES, Kind, kind_of, lift
from rlpipe.pipeline.locate import ARTIFACT, CHECKPOINT, Located, locate
from rlpipe.pipeline.reports import SourceFacts
from rlpipe.pipeline.settings import RunSettings, SelectSettings, SourceSettings
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot

Arrays: TypeAlias = Literal["verify", "none"]
DEFAULT_POLICY_ID = "p0"
NOTHING_LEFT = ImportReport(imported=())
_UNDER: Mapping[str, str] = MappingProxyType({"algorithm": POLICIES, "container": ""})
"""Kind -> path of the component whose children are the policies."""


class Source(Protocol):
    """A place that policies are read from."""

    @property
    def facts(self) -> SourceFacts:
        """What it is, for reports."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know about how it was found and read."""
        ...

    @property
    def kind(self) -> Kind:
        """What it holds; for a policy or module, that one alone."""
        ...

    @property
    def report(self) -> ImportReport:
        """What an importer took and left."""
        ...

    def ids(self) -> tuple[str, ...]:
        """The ids of its policies, sorted; no array is read."""
        ...

    def read(self, chosen: SelectSettings, *, arrays: Arrays = "verify") -> Snapshot:
        """What is chosen, as it is kept; nothing else is read.

        Args:
            chosen: Policies, roles and keys.
            arrays: "none" gives stand-ins with dtype and shape where the source can do without reading.

        Raises:
            SelectionError: A pattern matches nothing.
        """
        ...


def read_tree(
    source: Source, chosen: SelectSettings, *, arrays: Arrays = "verify", trust: tuple[str, ...] = ()
) -> Snapshot:
    """What is chosen of a source as the tree of an algorithm, whatever the source is."""
    lone_id = next(iter(source.ids()), DEFAULT_POLICY_ID)
    return lift(source.read(chosen, arrays=arrays), policy_id=lone_id, trust=trust)


@dataclass(frozen=True, kw_only=True)
class CheckpointSource:
    """A checkpoint, or any component directory of one.

    Attributes:
        path: The directory.
        facts: For reports.
        notes: What was passed over on the way.
        policy_id: The id for a policy that comes alone; None: the directory's name.
    """

    path: Place
    facts: SourceFacts
    notes: tuple[str, ...] = ()
    policy_id: str | None = None
    report = NOTHING_LEFT

    @cached_property
    def kind(self) -> Kind:
        """What the directory holds."""
        manifest = read_manifest(self.path)
        return kind_of(manifest.spec, manifest.children)

    def ids(self) -> tuple[str, ...]:
        """The ids of its policies, from the manifests on the path to them."""
        if self.kind not in _UNDER:
            return (self.policy_id or validate_policy_id(own_name(self.path)),)
        ids = tuple(sorted(read_manifest(self.path / _UNDER[self.kind]).children))
        if self.policy_id is not None:
            raise ConfigError(
                "source.policy_id names a policy that comes alone",
                expected=f"nothing: {self.path} holds {', '.join(ids)}",
                found=self.policy_id,
                fix="choose policies with policy_ids, and give them other ids with rename",
            )
        return ids

    def directory(self, policy_id: str) -> Place:
        """Where a policy lies; it is a whole checkpoint."""
        return self.path / _UNDER[self.kind] / policy_id if self.kind in _UNDER else self.path

    def read(self, chosen: SelectSettings, *, arrays: Arrays = "verify") -> Snapshot:
        """The chosen part, from the files of the chosen policies alone."""
        if self.kind in _UNDER:
            selection = policy_selection(chosen, self.ids(), under=_UNDER[self.kind])
        else:
            chosen_ids(chosen.policy_ids, self.ids())
            selection = entry_selection(chosen)
        return read_checkpoint(self.path, selection, arrays=arrays)


@dataclass(frozen=True, kw_only=True)
class ForeignSource:
    """A file of another library, read by its importer.

    Attributes:
        importer_id: Who reads it.
        path: The file.
        facts: For reports.
        settings: With the importer's options and the policy's id.
        found: What the reader should know about how it was found.
    """

    importer_id: str
    path: Path
    facts: SourceFacts
    settings: SourceSettings
    found: tuple[str, ...] = ()

    @cached_property
    def kind(self) -> Kind:
        """A policy, or bare arrays."""
        found = self._imported.snapshot
        return kind_of(found.spec, found.children)

    @cached_property
    def _imported(self) -> ImportedFile:
        importer = importers.resolve(self.importer_id)
        return importer.read(self.path, options_of(importer, self.settings))

    @property
    def report(self) -> ImportReport:
        """What was imported and what was left."""
        return self._imported.report

    @property
    def notes(self) -> tuple[str, ...]:
        """What the importer chose, but for what is only good news."""
        return (*self.found, *self.report.warnings)

    def ids(self) -> tuple[str, ...]:
        """The one id that its policy gets."""
        return (validate_policy_id(self.settings.policy_id or DEFAULT_POLICY_ID),)

    def read(self, chosen: SelectSettings, *, arrays: Arrays = "verify") -> Snapshot:
        """The chosen part of the imported policy; the file is always read whole."""
        del arrays
        chosen_ids(chosen.policy_ids, self.ids())
        selection = entry_selection(chosen)
        return self._imported.snapshot if selection == Selection() else select(self._imported.snapshot, selection)


def open_source(settings: RunSettings, *, given: str | None) -> Source:
    """The source at a path (None: the newest checkpoint, else the sample).

    Raises:
        CheckpointNotFoundError: There is nothing there.
        ForeignFormatError: A file that no importer takes.
        ConfigError: An artifact, which holds no policy that could be taken out of it.
    """
    return source_at(locate(settings, given=given), settings.source)


def open_base(settings: RunSettings, path: str) -> Source:
    """The second input; what it is is told by its content, and the source's own settings do not concern it."""
    return source_at(locate(replace(settings, source=SourceSettings()), given=path), SourceSettings())


def source_at(located: Located, settings: SourceSettings) -> Source:
    """The source of something that was located."""
    if located.kind == CHECKPOINT:
        return CheckpointSource(
            path=located.path, facts=located.facts, notes=located.notes, policy_id=settings.policy_id
        )
    if located.kind == ARTIFACT:
        raise ConfigError(
            f"{located.path} holds artifacts, which cannot be turned back into policies",
            expected="a checkpoint or a model file",
            found="a folder with artifact.json",
            fix="name the checkpoint that it was made from; artifacts can be given to info, verify and evaluate",
        )
    return foreign_source(located, settings)


def foreign_source(located: Located, settings: SourceSettings) -> ForeignSource | FolderSource:
    """The source of a file or directory that an importer takes."""
    path = located.local
    if isinstance(importers.resolve(located.kind), importers.FolderImporter):
        return FolderSource(importer_id=located.kind, path=path, facts=located.facts, settings=settings)
    return ForeignSource(
        importer_id=located.kind, path=path, facts=located.facts, settings=settings, found=located.notes
    )
