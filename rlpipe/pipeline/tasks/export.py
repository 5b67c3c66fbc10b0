"""task=export: verified artifacts of the chosen policies, one folder per policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from rlpipe.errors import ConfigError
from rlpipe.exporters.export import Candidate, Order, export_policies
from rlpipe.exporters.folder import require_same_policies
from rlpipe.exporters.labels import recorded_labels
from rlpipe.pipeline import tables
from rlpipe.pipeline.choose import completed, renamed
from rlpipe.pipeline.closed_loop import ClosedLoop
from rlpipe.pipeline.environment import with_env
from rlpipe.pipeline.inspect import untrained
from rlpipe.pipeline.lift import policies_of
from rlpipe.pipeline.locate import reading_path
from rlpipe.pipeline.progress import Progress, Step
from rlpipe.pipeline.provenance import provenance
from rlpipe.pipeline.recorded import Recording, record, recorded_env
from rlpipe.pipeline.reports import MadeArtifacts, Report
from rlpipe.pipeline.settings import RunSettings
from rlpipe.pipeline.sources import open_source, read_tree
from rlpipe.snapshot.identity import inference_hash
from rlpipe.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from rlpipe.exporters.report import ExportReport, TargetReport

USES = frozenset(
    {
        "source",
        "checkpoint.path",
        "select",
        "rename",
        "export",
        "artifact_path",
        "artifact_if_exists",
        "labels",
        "env",
        "trust",
    }
)
DEFAULT_OUT_DIR = "outputs/artifacts"


@dataclass(frozen=True, kw_only=True)
class ExportTaskReport(Report):
    """What was exported; ok if every artifact that is required was written and proven.

    Attributes:
        out_dir: Where the folders of the policies are.
        required: The targets that count; None: all.
        exports: One for each policy.
        recordings: Policy id -> what became of observations from its environment.
    """

    task = "export"
    out_dir: str
    exports: tuple[ExportReport, ...]
    required: tuple[str, ...] | None = None
    recordings: Mapping[str, Recording]

    @property
    def ok(self) -> bool:
        """Whether every target that is required is ok for every policy."""
        return all(export.fulfils(self.required) for export in self.exports)

    def body(self) -> dict[str, Any]:
        """Rows by policy."""
        recordings = {policy_id: recording.text for policy_id, recording in self.recordings.items()}
        return {
            "out_dir": self.out_dir,
            "policies": [export.to_json() for export in self.exports],
            "recorded_observations": recordings,
        }

    def tables(self) -> Sequence[RenderableType]:
        """A row for each policy and target, and why those failed that did."""
        rows = [
            (
                export.policy_id,
                row.target,
                Path(row.file).name or "-",
                tables.size(row.size) if row.file else "-",
                _difference(row),
                row.status,
                export.fingerprint,
            )
            for export in self.exports
            for row in export.rows
        ]
        columns = ("policy", "target", "file", "size", "difference", "verdict", "fingerprint")
        failed = [
            tables.line(f"{export.policy_id}, {row.target}: {row.message}", style="red")
            for export in self.exports
            for row in export.rows
            if row.status != "ok"
        ]
        where = tables.line(f"artifacts: {self.out_dir}/<policy>/<target>/<file>")
        return (where, "", tables.table(*columns, rows=rows, right=("size", "difference")), *failed)

    def artifacts(self) -> MadeArtifacts | None:
        """What was written."""
        made = tuple(export.policy_id for export in self.exports if export.folder)
        return MadeArtifacts(folder=self.out_dir, policy_ids=made) if made else None


def run(settings: RunSettings, *, progress: Progress) -> ExportTaskReport:
    """Export the chosen policies of ``source.path`` to the targets of ``export``.

    Raises:
        ConfigError: No target is chosen.
        ArtifactError: There is something else at the place of an artifact, or one of another policy.
        RlpipeError: The source cannot be read, or a policy cannot be built.
    """
    targets = settings.export.targets
    if not targets:
        raise ConfigError("there is nothing to export to", expected="targets", found="none", fix="export=[onnx]")
    source = open_source(settings, given=reading_path(settings))
    tree = completed(read_tree(source, settings.select, trust=settings.trust), settings.select)
    tree, notes = with_env(tree, settings.env)
    policies = policies_of(renamed(tree, settings.rename))
    out_dir = Path(settings.artifact_path or settings.out_dir or DEFAULT_OUT_DIR)
    if settings.artifact_if_exists == "error":
        require_same_policies({out_dir / policy_id: inference_hash(policy) for policy_id, policy in policies.items()})
    recordings = {policy_id: record(policy, settings.env) for policy_id, policy in policies.items()}
    candidates = [_candidate(policy, policy_id, settings, recordings) for policy_id, policy in policies.items()]
    with progress.bar(len(policies) * len(targets)) as step:
        exports = _exported(candidates, settings, out_dir, step)
    fresh = untrained(policy_id for policy_id, policy in policies.items() if policy.metadata.get("trained") is False)
    return ExportTaskReport(
        source=source.facts,
        notes=source.report.confirmed,
        warnings=(*source.notes, *notes, *fresh),
        out_dir=out_dir.as_posix(),
        exports=exports,
        required=settings.export.require,
        recordings=recordings,
    )


def _candidate(
    policy: Snapshot, policy_id: str, settings: RunSettings, recordings: Mapping[str, Recording]
) -> Candidate:
    # Where nothing could be recorded, nothing can act.
    env_id = (settings.env or recorded_env(policy.metadata)) if recordings[policy_id].observations is not None else None
    return Candidate(
        policy_id=policy_id,
        snapshot=policy,
        recorded=recordings[policy_id].observations,
        provenance={**provenance(settings), "policy": dict(policy.metadata)},
        loop=ClosedLoop(policy, policy_id, env_id, settings.trust) if env_id else None,
        labels=recorded_labels(policy.metadata),
    )


def _exported(
    candidates: Sequence[Candidate], settings: RunSettings, out_dir: Path, step: Step
) -> tuple[ExportReport, ...]:
    order = Order(
        targets=settings.export.targets,
        out_dir=out_dir,
        labels=settings.labels,
        graph=settings.export.graph,
        trust=settings.trust,
        jobs=settings.export.jobs,
        on_target=lambda policy_id, target_id: step(f"{policy_id} {target_id}"),
    )
    return export_policies(candidates, order)


def _difference(row: TargetReport) -> str:
    return "-" if row.max_error is None else f"{row.max_error:.1e}"
