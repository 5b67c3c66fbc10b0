"""What an importer is, what it gives, and how the one for a file is found."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from rlpipe.errors import ConfigError, ForeignFormatError, closest
from rlpipe.importers.sniff import sniff
from rlpipe.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What was taken from a foreign file, and what was not.

    Attributes:
        imported: Names in the file that went into the snapshot.
        skipped: (name in the file, why it was left out).
        notes: Sentences for people about choices that the importer made.
        confirmed: Those of the notes that only say that all is as it should be.
    """

    imported: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes that the reader should act on or at least know."""
        return tuple(note for note in self.notes if note not in self.confirmed)


@dataclass(frozen=True, slots=True, eq=False)
class ImportedFile:
    """A foreign file as a snapshot, with the report of how it came about.

    The snapshot is of a `Policy`, or of bare `Arrays` where the file does not say what computes with them.
    """

    snapshot: Snapshot
    report: ImportReport


class Importer(Protocol):
    """An importer: a module or package of `rlpipe.importers.libraries`.

    Attributes:
        Options: Frozen dataclass with a default for each field. Config checks the source's node against it.
    """

    Options: type[Any]

    def recognise(self, path: Path) -> bool:
        """Whether the content of a file is this library's; never raises for a file of something else."""

    def read(self, path: Path, options: Any) -> ImportedFile:
        """What is in the file.

        Raises:
            ForeignFormatError: It is damaged, incomplete, or of a kind that is not supported; says which.
            UnsafePayloadError: It asks for more than numbers.
            NormalizerError: Normalisation statistics are missing, unproven or not finite.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPart:
    """A component that lies in a foreign directory.

    Attributes:
        path: From the directory; "" for itself.
        class_name: What builds it, in its library.
        nbytes: Bytes of its own files.
    """

    path: str
    class_name: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a foreign directory is, whether or not its policies can be imported.

    Attributes:
        kind: What it holds, in its library's words: "Algorithm", "Policy", or the class of a component.
        version: Of its layout.
        encoding: Of its state files, such as "pickle"; "" where it has none.
        policy_ids: Of its policies, as they are named there.
        components: All components, parents first.
        facts: What else its small files say, such as the version of the library.
    """

    kind: str
    version: str
    encoding: str
    policy_ids: tuple[str, ...]
    components: tuple[SurveyedPart, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "type": self.kind,
            "checkpoint_version": self.version,
            "format": self.encoding,
            "policy_ids": list(self.policy_ids),
            "components": [
                {"path": part.path, "class": part.class_name, "bytes": part.nbytes} for part in self.components
            ],
            **self.facts,
        }


@runtime_checkable
class FolderImporter(Importer, Protocol):
    """An importer of directories, which may hold several policies; `recognise` and `read` take a directory."""

    def policy_ids(self, path: Path) -> tuple[str, ...] | None:
        """Ids of the policies as they are named there, sorted; None where the directory is one policy itself.

        No file of a policy is opened.
        """

    def read_policies(self, path: Path, options: Any, ids: Collection[str] | None) -> ImportedFile:
        """Some policies as a container, or for None the policy that the directory is; no file of others is opened.

        Raises:
            ForeignFormatError: As for `read`, and where there are no policies.
            UnsafePayloadError: As for `read`.
            NormalizerError: As for `read`.
        """

    def survey(self, path: Path, ids: Collection[str] | None = None) -> Survey:
        """What the directory is; with ids, no file of other policies is opened.

        Raises:
            ForeignFormatError: Its small files are broken.
            UnsafePayloadError: As for `read`.
        """


@cache
def ids() -> tuple[str, ...]:
    """The ids of all importers, sorted; none is imported."""
    folder = Path(__file__).parent / "libraries"
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(folder)])))


def resolve(importer_id: str) -> Importer:
    """The importer of an id, imported only now.

    Raises:
        ConfigError: There is no such importer.
    """
    if importer_id not in ids():
        near = closest(importer_id, ids())
        raise ConfigError(
            f"there is no importer {importer_id!r}",
            expected=f"one of {', '.join(ids())}",
            found=repr(importer_id),
            fix=f"did you mean {near[0]}?" if near else "leave it to the content of the file: source=auto",
        )
    return cast(Importer, import_module(f"rlpipe.importers.libraries.{importer_id}"))


def recognise(path: str | Path) -> str:
    """The id of the importer that the content of a file or directory belongs to; its name does not matter.

    Raises:
        ForeignFormatError: No importer takes it; says what the file seems to be and what to do with it.
    """
    path = Path(path)
    # Importers of bare arrays come last: files of trainers hold arrays too.
    for importer_id in sorted(ids(), key=lambda name: name.endswith("_arrays")):
        importer = resolve(importer_id)
        takes = path.is_file() or (path.is_dir() and isinstance(importer, FolderImporter))
        if takes and importer.recognise(path):
            return importer_id
    what, fix = sniff(path)
    raise ForeignFormatError(
        f"no importer can read {path}", expected=f"a file of one of {', '.join(ids())}", found=what, fix=fix
    )


def recognise_folder(path: Path) -> str | None:
    """The id of the importer that a directory belongs to, or None."""
    importers = {name: resolve(name) for name in ids()}
    takers = (name for name, one in importers.items() if isinstance(one, FolderImporter) and one.recognise(path))
    return next(takers, None)
