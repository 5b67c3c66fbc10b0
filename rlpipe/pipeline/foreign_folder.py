"""A directory of another library as a source: its policies, read one by one, and only those that are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

from rlpipe.errors import ConfigError, ForeignFormatError, IdError, NormalizerError, RlpipeError, UnsafePayloadError
from rlpipe.importers import importer as importers
from rlpipe.importers.importer import FolderImporter, ImportReport, Survey
from rlpipe.pipeline.choose import chosen_ids, entry_selection, rename_line
from rlpipe.pipeline.importing import options_of
from rlpipe.pipeline.lift import Kind, container_of
from rlpipe.pipeline.reports import SourceFacts
from rlpipe.pipeline.settings import SelectSettings, SourceSettings
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot

NOT_IMPORTABLE = (ForeignFormatError, NormalizerError, UnsafePayloadError)
"""What says that one policy cannot be imported, and nothing of the others."""


@dataclass(frozen=True, kw_only=True)
class FolderSource:
    """A directory of another library.

    Attributes:
        importer_id: Who reads it.
        path: The directory.
        facts: For reports.
        settings: With the importer's options and the id of a policy that comes alone.
    """

    importer_id: str
    path: Path
    facts: SourceFacts
    settings: SourceSettings
    _policies: dict[str, Snapshot] = field(default_factory=dict, init=False, repr=False, compare=False)
    _reports: list[ImportReport] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def kind(self) -> Kind:
        """Policies, or one alone."""
        return "policy" if self._ids is None else "container"

    def ids(self) -> tuple[str, ...]:
        """The ids of its policies as they are named there, but for one that comes alone."""
        if self._ids is None:
            return (self.settings.policy_id or self.path.resolve().name,)
        if self.settings.policy_id is not None:
            raise ConfigError(
                "source.policy_id names a policy that comes alone",
                expected=f"nothing: {self.path} holds {', '.join(self._ids)}",
                found=self.settings.policy_id,
                fix="choose policies with policy_ids, and give them other ids with rename",
            )
        return self._ids

    def survey(self, chosen: SelectSettings) -> Survey:
        """What the directory is, also where policies cannot be imported; no file of others than the chosen is read."""
        ids = None if self._ids is None else chosen_ids(chosen.policy_ids, self._ids)
        return self._importer.survey(self.path, ids)

    def read(self, chosen: SelectSettings, *, arrays: str = "verify") -> Snapshot:
        """The chosen policies, from their files alone.

        Raises:
            ForeignFormatError: There are none, or one cannot be imported.
        """
        del arrays
        ids = chosen_ids(chosen.policy_ids, self.ids())
        if not ids:
            return self._importer.read_policies(self.path, self._options, ()).snapshot
        found = self._taken(ids)
        tree = next(iter(found.values())) if self._ids is None else container_of(found)
        selection = entry_selection(chosen)
        return tree if selection == Selection() else select(tree, selection)

    def refusals(self, chosen: SelectSettings) -> dict[str, RlpipeError]:
        """Chosen id -> why that policy cannot be imported; the others are read."""
        ids = chosen_ids(chosen.policy_ids, self.ids())
        if self._refusal(ids) is None:
            return {}
        each = {policy_id: self._refusal((policy_id,)) for policy_id in ids}
        return {policy_id: error for policy_id, error in each.items() if error is not None}

    @property
    def report(self) -> ImportReport:
        """What was taken and left of the policies that were read so far."""
        return ImportReport(
            imported=tuple(name for report in self._reports for name in report.imported),
            skipped=tuple(dict.fromkeys(pair for report in self._reports for pair in report.skipped)),
            notes=tuple(dict.fromkeys(note for report in self._reports for note in report.notes)),
            confirmed=tuple(dict.fromkeys(note for report in self._reports for note in report.confirmed)),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the importer chose, but for what is only good news."""
        return self.report.warnings

    def id_notes(self) -> Iterator[str]:
        """A note on ids that cannot stand in a checkpoint, with the line that renames them."""
        try:
            validate_ids(self.ids())
        except IdError as error:
            yield f"ids that no checkpoint can have: {error.found}; to save or export add {rename_line(self.ids())}"

    @cached_property
    def _importer(self) -> FolderImporter:
        return cast("FolderImporter", importers.resolve(self.importer_id))

    @cached_property
    def _options(self) -> object:
        return options_of(self._importer, self.settings)

    @cached_property
    def _ids(self) -> tuple[str, ...] | None:
        return self._importer.policy_ids(self.path)

    def _taken(self, ids: Sequence[str]) -> dict[str, Snapshot]:
        """Some policies, each read at most once."""
        if new := tuple(policy_id for policy_id in ids if policy_id not in self._policies):
            found = self._importer.read_policies(self.path, self._options, None if self._ids is None else new)
            self._policies.update({new[0]: found.snapshot} if self._ids is None else found.snapshot.children)
            self._reports.append(found.report)
        return {policy_id: self._policies[policy_id] for policy_id in ids}

    def _refusal(self, ids: Sequence[str]) -> RlpipeError | None:
        try:
            self._taken(ids)
        except NOT_IMPORTABLE as error:
            return cast("RlpipeError", error)
        return None
