"""One policy into one target, in a worker process: exported, run where rlpipe is not, compared, looked into."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.errors import RlpipeError, UnsupportedModuleError
from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.file_checks import check_files, facts_of, opened
from rlpipe.exporters.freeze import first_line
from rlpipe.exporters.golden import Golden, golden, write_golden
from rlpipe.exporters.job import Job, mark_prepared
from rlpipe.exporters.levels import CONTRACT, NUMBERS, Level, LevelStatus
from rlpipe.exporters.preparation import Preparation, prepare, spaces_of
from rlpipe.exporters.report import TargetReport
from rlpipe.exporters.signature import OBSERVATION
from rlpipe.exporters.target import Arrays, Target, acts, resolve
from rlpipe.exporters.verify import BATCHES, Verification, verify
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import nested_batch

_FLOAT32 = 1e-6
"""What float32 leaves of a decision, with room; enlarging decisions enlarges it too."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A policy that a worker has read and prepared."""

    snapshot: Snapshot
    preparation: Preparation
    vectors: Golden


class Producer:
    """Keeps the last policy prepared: its next target often comes to the same worker."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[str, GraphOptions], Subject] | None = None

    def produce(self, job: Job) -> tuple[TargetReport, Arrays]:
        """The row of a job and the artifact's answers to the golden vectors; whatever happens is in the row.

        Args:
            job: What to do. Files are left in its folder only if the row says so.
        """
        row = TargetReport(target=job.target, status="failed", options=job.options)
        started = time.perf_counter()
        answers: Arrays = {}
        with captured() as said:
            try:
                row, answers = _produce(row, job, self._subject(job))
            except UnsupportedModuleError as error:
                row = replace(row, status="unsupported", message=str(error))
            except RlpipeError as error:
                row = replace(row, message=str(error))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - torch's exporters and the user's forward fail with anything
                row = replace(row, message=f"the export failed\n  found: {first_line(error)}")
                said.add(traceback.format_exc())
            if row.verification is not None:
                said.add(row.verification.trace)
        if not row.kept:
            shutil.rmtree(job.folder, ignore_errors=True)
            row = replace(row, files=())
        return replace(row, seconds=time.perf_counter() - started, notes=tuple(said.lines)), answers

    def _subject(self, job: Job) -> Subject:
        if self._kept is None or self._kept[0] != (job.policy, job.graph):
            self._kept = None
            snapshot = read_checkpoint(job.policy)
            recorded = _recorded(snapshot, job.recorded)
            preparation = prepare(snapshot, recorded=recorded, trust=job.trust, options=job.graph)
            mark_prepared(job)
            vectors = golden(preparation.truth, preparation.golden_rows)
            self._kept = (job.policy, job.graph), Subject(snapshot, preparation, vectors)
        return self._kept[1]


def _recorded(snapshot: Snapshot, file: str) -> Any:
    if not file:
        return None
    with np.load(file, allow_pickle=False) as archive:
        return nested_batch(spaces_of(snapshot)[0], {name: archive[name] for name in archive.files}, OBSERVATION)


def _expected(snapshot: Snapshot, options: GraphOptions) -> Snapshot:
    """The policy with the roles that an artifact of it has: whoever asks for values wants the value function."""
    if "value" not in options.outputs:
        return snapshot
    return replace(snapshot, roles=dict.fromkeys(snapshot.roles, "inference"))


def _produce(row: TargetReport, job: Job, subject: Subject) -> tuple[TargetReport, Arrays]:
    target = resolve(job.target)
    options = target.Options(**{name: tuple(v) if isinstance(v, list) else v for name, v in job.options.items()})
    preparation, folder = subject.preparation, Path(job.folder)
    file = folder / target.FILE_NAME
    folder.mkdir(exist_ok=True)
    target.export(preparation.graph, file, options, job.essentials)
    write_golden(Path(job.results), subject.vectors)
    inside = check_files(folder, file, _expected(subject.snapshot, job.graph), target)
    if inside.status == "failed":
        return replace(row, message=inside.detail, levels=(inside,)), {}
    row = replace(row, levels=(inside,), files=facts_of(folder, file))
    if not acts(job.target):
        return _weights(row, target.compare, file, preparation), {}  # type: ignore[attr-defined]
    return _acting(row, target, file, options, preparation)


def _weights(row: TargetReport, compare: Callable[..., str], file: Path, preparation: Preparation) -> TargetReport:
    """A file of arrays, which nobody runs."""
    problem = compare(str(file), preparation.graph)
    numbers = Level(name=NUMBERS, status="failed" if problem else "ok", detail=problem or "every array bit for bit")
    levels = (*row.levels, numbers)
    return replace(row, status="mismatch" if problem else "ok", message=problem, levels=levels)


def _acting(
    row: TargetReport, target: Target, file: Path, options: Any, preparation: Preparation
) -> tuple[TargetReport, Arrays]:
    tolerance = Tolerance(atol=options.atol, rtol=options.rtol)
    rows = preparation.golden_rows.tolist()
    found = verify(target, file, preparation.graph.signature, preparation.truth, tolerance, rows)
    row = replace(row, status=found.status, message=found.message, verification=found)
    row = replace(row, levels=(*_opened(row.levels, found, target, preparation), *found.levels))
    if found.status != "ok":
        return row, {}
    probed = _probed(target, options, preparation, tolerance)
    if probed is not None and probed.status != "ok":
        message = f"with its decisions spread beyond the bounds of its actions: {probed.message}"
        return replace(row, status="mismatch", message=message, levels=_amended(row, "failed", message)), {}
    if probed is not None:
        row = replace(
            row, levels=_amended(row, "ok", "the bounds of actions hold in a copy that is driven beyond them")
        )
    return _judged(row), found.golden


def _opened(
    levels: tuple[Level, ...], found: Verification, target: Target, preparation: Preparation
) -> tuple[Level, ...]:
    """What running the file says about it."""
    (inside,) = levels
    if found.status == "failed":
        return (replace(inside, status="failed", detail=found.message),)
    return (opened(inside, preparation.graph.signature, BATCHES, target.BLOCKED),)


def _probed(target: Target, options: Any, preparation: Preparation, tolerance: Tolerance) -> Verification | None:
    """What the same target makes of the copy that reaches the bounds."""
    probe = preparation.probe
    if probe is None:
        return None
    enlarged = replace(tolerance, atol=max(tolerance.atol, _FLOAT32 * probe.gain))
    with tempfile.TemporaryDirectory(prefix="probe-") as made:
        file = Path(made) / target.FILE_NAME
        target.export(probe.graph, file, options, {})
        return verify(target, file, probe.graph.signature, probe.truth, enlarged)


def _amended(row: TargetReport, status: LevelStatus, detail: str) -> tuple[Level, ...]:
    """The levels, with something added to the one about numbers."""
    return tuple(
        replace(level, status=status, detail=f"{level.detail}; {detail}", facts={**level.facts, "bounds": detail})
        if level.name == NUMBERS
        else level
        for level in row.levels
    )


def _judged(row: TargetReport) -> TargetReport:
    contract = row.level(CONTRACT)
    if contract is None or contract.status == "ok":
        return row
    return replace(row, status="degraded", message=contract.detail)
