"""Artifacts of the policies inside the checkpoint that holds them: `policies/<id>/model/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rlpipe.errors import RlpipeError
from rlpipe.pipeline.lift import POLICIES, kind_of, policies_of
from rlpipe.pipeline.settings import RunSettings
from rlpipe.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from rlpipe.exporters.report import ExportReport


@dataclass(frozen=True, kw_only=True)
class NativeModels:
    """What goes beside the state of each policy.

    Attributes:
        attachments: Component path -> the folder of its artifacts; a policy of which none was proven has none.
        statuses: Policy id -> target id -> what became of it.
        warnings: What could not be exported, and why.
    """

    attachments: Mapping[str, Path] = field(default_factory=dict)
    statuses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {policy_id: dict(found) for policy_id, found in self.statuses.items()}


@contextmanager
def native_models(tree: Snapshot, settings: RunSettings) -> Iterator[NativeModels]:
    """Export the policies of a tree to ``checkpoint.native_models``; the folders are there inside the block.

    A policy that cannot be exported is saved without: training must not lose its result because an export failed.

    Args:
        tree: An algorithm tree.
        settings: The run's.
    """
    if not settings.checkpoint.native_models:
        yield NativeModels()
        return
    with TemporaryDirectory(prefix="native-") as made:
        yield _attempted(tree, settings, Path(made))


def _attempted(tree: Snapshot, settings: RunSettings, folder: Path) -> NativeModels:
    try:
        return _exported(tree, settings, folder)
    except RlpipeError as error:
        said = "; ".join(line.strip() for line in str(error).splitlines())
        return NativeModels(warnings=(f"saved without native models: {said}",))


def _exported(tree: Snapshot, settings: RunSettings, folder: Path) -> NativeModels:
    from rlpipe.exporters.export import Candidate, Order, export_policies
    from rlpipe.exporters.target import resolve

    targets = {target_id: resolve(target_id).Options() for target_id in settings.checkpoint.native_models}
    candidates = [
        Candidate(policy_id=policy_id, snapshot=policy, provenance={"policy": dict(policy.metadata)})
        for policy_id, policy in policies_of(tree).items()
        if kind_of(policy.spec, policy.children) == "policy"
    ]
    reports = export_policies(candidates, Order(targets=targets, out_dir=folder, trust=settings.trust))
    return NativeModels(
        attachments={f"{POLICIES}/{report.policy_id}": report.folder for report in reports if report.folder},
        statuses={report.policy_id: {row.target: row.status for row in report.rows} for report in reports},
        warnings=tuple(text for report in reports for text in _failures(report)),
    )


def _failures(report: ExportReport) -> Iterator[str]:
    for row in report.rows:
        if not row.kept:
            said = "; ".join(line.strip() for line in row.message.splitlines())
            yield f"{report.policy_id} is saved without its {row.target} model: {row.status}: {said}"
