"""Artifact folders as a source: which policies and targets they hold, what is recorded, and how to act with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from rlpipe.errors import ArtifactError
from rlpipe.exporters.artifact import artifact_folders, is_artifact
from rlpipe.exporters.record import RECORD_NAME, read_record, targets_of
from rlpipe.exporters.signature import Signature
from rlpipe.pipeline import tables
from rlpipe.pipeline.choose import chosen_ids
from rlpipe.pipeline.inspect import stage_text, untrained
from rlpipe.pipeline.locate import Located
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import SelectSettings
from rlpipe.snapshot.spaces import describe, from_json

_REACHES = {"raw": "raw, before they are squashed, unscaled, clipped and rounded", "target": "targets of actuators"}
_EXPORTED: Mapping[str, Callable[[Any], tuple[str, str]]] = {
    "mode": lambda mode: ("mode", str(mode)),
    "action": lambda reach: ("actions are", _REACHES.get(str(reach), str(reach))),
    "outputs": lambda names: ("beside them", ", ".join(map(str, names))),
    "component": lambda name: ("features of", str(name)),
}
"""Field of a record -> name and text of what was asked for; fields at their default are not recorded."""
_COLUMNS = ("policy", "target", "file", "size", "difference", "tolerance", "fingerprint")


@dataclass(frozen=True, kw_only=True)
class ArtifactFolder:
    """The artifacts of one policy.

    Attributes:
        folder: Where ``artifact.json`` lies.
        policy_id: The id it was exported under.
        targets: Ids of the targets that were proven, or the one that was named.
        record: What ``artifact.json`` says.
    """

    folder: Path
    policy_id: str
    targets: tuple[str, ...]
    record: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """The policy's."""
        return str(self.record["fingerprint"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the policy's checkpoint said about it."""
        found = self.record.get("provenance", {}).get("policy", {})
        return found if isinstance(found, Mapping) else {}

    def target(self, target_id: str) -> Mapping[str, Any]:
        """What is recorded of one target."""
        entry: Mapping[str, Any] = self.record["targets"][target_id]
        return entry

    def file(self, target_id: str) -> Path:
        """The file of one target."""
        return self.folder / str(self.target(target_id)["file"])


def artifacts_at(path: Path, chosen: SelectSettings) -> tuple[ArtifactFolder, ...]:
    """The chosen artifact folders at a path, by policy id.

    Args:
        path: An artifact folder, a tree of some, or a file or target's folder in one.
        chosen: ``policy_ids`` counts.

    Raises:
        ArtifactError: A record is damaged, or two folders are of one policy.
        SelectionError: A pattern names none of the policies.
    """
    found = folders_below(path)
    folders = {folder.policy_id: folder for folder in found}
    if len(folders) < len(found):
        raise ArtifactError(
            f"two artifact folders in {path} are of one policy",
            expected="one for each policy id",
            found=", ".join(folder.folder.relative_to(path).as_posix() for folder in found),
            fix="name one of them",
        )
    return tuple(folders[policy_id] for policy_id in chosen_ids(chosen.policy_ids, folders))


def folders_below(path: Path) -> tuple[ArtifactFolder, ...]:
    """Every artifact folder in a tree, sorted by path; of a file or target's folder in one, that one.

    Raises:
        ArtifactError: A record is damaged.
    """
    places = [path] if is_artifact(path) else sorted(artifact_folders(path))
    return tuple(map(_folder_at, places))


def _folder_at(path: Path) -> ArtifactFolder:
    folder = next(place for place in (path, *path.parents) if (place / RECORD_NAME).is_file())
    record = read_record(folder)
    proven = sorted(targets_of(record))
    named = path.relative_to(folder).parts[:1]
    targets = [name for name in proven if not named or named == (RECORD_NAME,) or name == named[0]]
    return ArtifactFolder(
        folder=folder, policy_id=str(record.get("policy_id", folder.name)), targets=tuple(targets), record=record
    )


@dataclass(frozen=True, kw_only=True)
class ArtifactInfoReport(Report):
    """What is in artifact folders."""

    task = "info"
    folders: tuple[ArtifactFolder, ...]

    def body(self) -> dict[str, Any]:
        """The records as they are."""
        return {
            "policy_ids": [folder.policy_id for folder in self.folders],
            "artifacts": {folder.policy_id: dict(folder.record) for folder in self.folders},
        }

    def tables(self) -> Sequence[RenderableType]:
        """A row for each file, then what each policy takes and gives."""
        rows = [
            (
                folder.policy_id,
                target_id,
                folder.file(target_id).as_posix(),
                tables.size(int(folder.target(target_id)["size"])),
                *_proof(folder.target(target_id)),
                folder.fingerprint,
            )
            for folder in self.folders
            for target_id in folder.targets
        ]
        parts: list[RenderableType] = [tables.table(*_COLUMNS, rows=rows, right=("size", "difference", "tolerance"))]
        for folder in self.folders:
            parts += ["", tables.line(folder.policy_id, style="bold"), tables.facts(_facts(folder.record))]
        return parts


def describe_artifacts(located: Located, chosen: SelectSettings) -> ArtifactInfoReport:
    """The report of ``task=info`` for artifacts."""
    folders = artifacts_at(located.local, chosen)
    warnings = untrained(folder.policy_id for folder in folders if folder.record.get("trained") is False)
    return ArtifactInfoReport(source=located.facts, folders=folders, warnings=(*located.notes, *warnings))


def _proof(target: Mapping[str, Any]) -> tuple[str, str]:
    """The largest difference from the policy that was measured, and the one that was allowed."""
    return _number(target.get("verification", {}).get("max_error")), _number(target.get("options", {}).get("atol"))


def _number(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, (int, float)) else "-"


def _facts(record: Mapping[str, Any]) -> list[tuple[str, object]]:
    stages: Mapping[str, Any] = record.get("stages", {})
    texts = {side: " > ".join(map(stage_text, stages.get(side, ()))) or "none" for side in ("observation", "action")}
    signature = Signature.from_json(record["signature"])
    return [
        ("trained", {"True": "yes", "False": "no"}.get(str(record.get("trained")), "not recorded")),
        ("inputs", "; ".join(spec.describe() for spec in signature.inputs)),
        ("outputs", "; ".join(spec.describe() for spec in signature.outputs)),
        *(_EXPORTED[name](record[name]) for name in _EXPORTED if record.get(name)),
        ("module", record.get("module", "-")),
        ("observations", describe(from_json(record["observation_space"]))),
        ("actions", describe(from_json(record["action_space"]))),
        ("obs stages", texts["observation"]),
        ("action stages", texts["action"]),
        ("made by", ", ".join(f"{name} {number}" for name, number in record.get("versions", {}).items())),
    ]
