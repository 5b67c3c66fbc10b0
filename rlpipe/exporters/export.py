"""From a policy to verified artifacts: one folder per policy, one sub-folder per target."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from rlpipe.errors import ExportError, RlpipeError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.folder import complete, sha256, staging
from rlpipe.exporters.freeze import first_line
from rlpipe.exporters.preparation import Preparation, prepare
from rlpipe.exporters.record import essentials, versions
from rlpipe.exporters.report import ExportReport, TargetReport
from rlpipe.exporters.target import Target, resolve
from rlpipe.exporters.verify import verify
from rlpipe.snapshot.identity import fingerprint
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Json


def export_policy(
    policy_snapshot: Snapshot,
    policy_id: str,
    *,
    targets: Mapping[str, Any],
    out_dir: Path,
    extra_observations: Any = None,
    provenance: Mapping[str, Json] | None = None,
    trust: tuple[str, ...] = (),
    on_target: Callable[[str], None] | None = None,
) -> ExportReport:
    """Export one policy to targets, load each file back where rlpipe is not, and keep those that act the same.

    A target that fails leaves nothing but its row and stops no other. `<out_dir>/<policy_id>` is made or replaced in
    one step, and only if at least one target was proven; then it holds `artifact.json` and `<target>/<file>` for each
    proven target. What it held of other targets stays if that is of the same policy.

    Args:
        policy_snapshot: The policy's snapshot, full or slim.
        policy_id: Name of the folder.
        targets: Target id -> its `Options`, in order.
        out_dir: Where the folder goes.
        extra_observations: A batch of observations met in the environment, as its observation space has them, or None.
        provenance: Plain JSON about this run, without absolute paths; it is recorded as it is.
        trust: Patterns of class paths that may be imported beside rlpipe's.
        on_target: Called with the id of each target before its work begins.

    Raises:
        ConfigError: An unknown target.
        IdError: The policy's id can name no folder.
        ArtifactError: There is something else at the place of the folder.
        ObservationError: The extra observations do not fit the policy.
        RlpipeError: The policy cannot be built.
    """
    found = {target_id: resolve(target_id) for target_id in targets}
    shared = cache(lambda: prepare(policy_snapshot, recorded=extra_observations, trust=trust))
    place = out_dir / validate_policy_id(policy_id)
    with staging(place) as stage:
        rows = {}
        for target_id, target in found.items():
            if on_target is not None:
                on_target(target_id)
            rows[target_id] = _export(target_id, target, targets[target_id], shared, stage)
        if proven := any(row.status == "ok" for row in rows.values()):
            extra = {"policy_id": policy_id, "versions": versions(), "provenance": dict(provenance or {})}
            complete(stage, place, {**shared().description, **extra}, rows)
    return ExportReport(
        policy_id=policy_id,
        fingerprint=fingerprint(policy_snapshot),
        trained=policy_snapshot.metadata.get("trained"),
        folder=place if proven else None,
        rows=tuple(replace(row, file=f"{policy_id}/{row.file}" if row.file else "") for row in rows.values()),
    )


def _export(
    target_id: str, target: Target, options: Any, shared: Callable[[], Preparation], stage: Path
) -> TargetReport:
    """One target, whatever happens to it; what is wrong with the policy or the caller's input is raised."""
    row = TargetReport(target=target_id, status="unavailable", options=asdict(options))
    if missing := target.missing_dependency():
        return replace(row, message=missing)
    started = time.perf_counter()
    with captured() as said:
        try:
            row = _written_and_verified(row, target, options, shared(), stage)
        except UnsupportedModuleError as error:
            row = replace(row, status="unsupported", message=str(error))
        except ExportError as error:
            row = replace(row, status="failed", message=str(error))
        except RlpipeError:
            raise
        except Exception as error:  # noqa: BLE001 - torch's exporters and the user's forward fail with anything
            row = replace(row, status="failed", message=f"the export failed\n  found: {first_line(error)}")
            said.add(traceback.format_exc())
        if row.verification is not None:
            said.add(row.verification.trace)
    if row.status != "ok":
        shutil.rmtree(stage / target_id, ignore_errors=True)
    return replace(row, seconds=time.perf_counter() - started, notes=tuple(said.lines))


def _written_and_verified(
    row: TargetReport, target: Target, options: Any, preparation: Preparation, stage: Path
) -> TargetReport:
    file = stage / row.target / target.FILE_NAME
    file.parent.mkdir()
    target.export(preparation.graph, file, options, essentials(preparation.description))
    tolerance = Tolerance(atol=options.atol, rtol=options.rtol)
    found = verify(target, file, preparation.graph.signature, preparation.truth, tolerance)
    row = replace(row, status=found.status, message=found.message, verification=found)
    if found.status != "ok":
        return row
    return replace(row, file=f"{row.target}/{file.name}", size=file.stat().st_size, sha256=sha256(file))
