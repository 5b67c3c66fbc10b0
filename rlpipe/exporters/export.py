"""From policies to verified artifacts: one folder per policy, one sub-folder per target, each made in a worker."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import RlpipeError, UnsupportedModuleError
from rlpipe.exporters.agreement import agreement
from rlpipe.exporters.companions import observation_statistics
from rlpipe.exporters.folder import complete, require_replaceable, staging
from rlpipe.exporters.golden import JSON_NAME, NPZ_NAME, read_golden
from rlpipe.exporters.job import Job, ended_preparing
from rlpipe.exporters.labels import Labels
from rlpipe.exporters.levels import LOOP, Level
from rlpipe.exporters.record import describe_policy, essentials, versions
from rlpipe.exporters.report import ExportReport, TargetReport
from rlpipe.exporters.signature import Signature, TensorSpec, observation_arrays, policy_signature
from rlpipe.exporters.target import Arrays, Target, acts, resolve
from rlpipe.exporters.worker_pool import WorkerPool
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.snapshot.identity import fingerprint
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import from_json
from rlpipe.snapshot.spec import Json

TIMEOUT = 600.0
"""Seconds for one export, where the options of a target name none."""

_NOT_TRIED = (
    "not tried, since preparing this policy for {0} ended the process\n"
    "  fix: see what {0} says, or give this target more time (timeout)"
)


class Loop(Protocol):
    """Acts in the policy's environment."""

    @property
    def observations(self) -> Arrays | None:
        """Input name -> observations that the policy met there, or None if it was not tried yet."""

    def __call__(self, target_id: str, file: Path, description: Mapping[str, Json]) -> Level:
        """What acting with the file of a target showed; the description is the record's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A policy to export.

    Attributes:
        policy_id: Name of its folder.
        snapshot: The policy's, full or slim.
        recorded: A batch of observations met in the environment, as its observation space has them, or None.
        provenance: Plain JSON about this run, without absolute paths; it is recorded as it is.
        loop: Rolls an artifact out in the policy's environment, or None.
    """

    policy_id: str
    snapshot: Snapshot
    recorded: Any = None
    provenance: Mapping[str, Json] = field(default_factory=dict)
    loop: Loop | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """How policies are exported.

    Attributes:
        targets: Target id -> its `Options`, in order.
        out_dir: Where the folders go.
        labels: What the user says about the artifacts.
        graph: What of each policy is exported.
        trust: Patterns of class paths that may be imported beside rlpipe's.
        jobs: How many exports run at a time.
        on_target: Called with the id of each policy and target before the work on it begins.
    """

    targets: Mapping[str, Any]
    out_dir: Path
    labels: Labels = field(default_factory=Labels)
    graph: GraphOptions = field(default_factory=GraphOptions)
    trust: tuple[str, ...] = ()
    jobs: int = 1
    on_target: Callable[[str, str], None] | None = None


def export_policies(
    candidates: Sequence[Candidate], order: Order, *, pool: WorkerPool | None = None
) -> tuple[ExportReport, ...]:
    """Export policies to targets, load each file back where rlpipe is not, and keep those that act the same.

    A target that fails, hangs or brings its process down leaves nothing but its row and stops no other; so does a
    policy that cannot be built. `<out_dir>/<policy_id>` is made or replaced in one step, and only if at least one
    target was proven; then it holds `artifact.json`, scripts and golden vectors, and `<target>/<file>` for each proven
    target. What it held of other targets stays if that is of the same policy.

    Args:
        candidates: The policies.
        order: Targets and the rest.
        pool: Workers to use and to leave running; None: own ones, which end with the call.

    Raises:
        ConfigError: An unknown target, or names that do not fit a policy.
        IdError: A policy's id can name no folder.
        ArtifactError: There is something else at the place of a folder, or the system refuses to write.
        ObservationError: Recorded observations that do not fit their policy.
    """
    targets = {target_id: resolve(target_id) for target_id in order.targets}
    for candidate in candidates:
        require_replaceable(order.out_dir / validate_policy_id(candidate.policy_id))
    with ExitStack() as stack:
        workers = stack.enter_context(WorkerPool()) if pool is None else pool
        # Two levels, so that one policy with many targets and many policies with one both keep all jobs busy.
        outer, inner = (stack.enter_context(ThreadPoolExecutor(order.jobs)) for _ in range(2))
        work = partial(_export, order=order, targets=targets, workers=workers, threads=inner)
        futures = [outer.submit(work, candidate) for candidate in candidates]
        try:
            return tuple(future.result() for future in futures)
        except BaseException as error:
            for future in futures:
                future.cancel()
            if pool is None or not isinstance(error, Exception):
                workers.close()
            raise


def export_policy(
    policy_snapshot: Snapshot,
    policy_id: str,
    *,
    targets: Mapping[str, Any],
    out_dir: Path,
    extra_observations: Any = None,
    provenance: Mapping[str, Json] | None = None,
    trust: tuple[str, ...] = (),
    pool: WorkerPool | None = None,
) -> ExportReport:
    """Export one policy; see `export_policies`."""
    candidate = Candidate(
        policy_id=policy_id, snapshot=policy_snapshot, recorded=extra_observations, provenance=provenance or {}
    )
    (report,) = export_policies([candidate], Order(targets=targets, out_dir=out_dir, trust=trust), pool=pool)
    return report


def _export(
    candidate: Candidate,
    *,
    order: Order,
    targets: Mapping[str, Target],
    workers: WorkerPool,
    threads: ThreadPoolExecutor,
) -> ExportReport:
    place = order.out_dir / candidate.policy_id
    with staging(place) as stage, tempfile.TemporaryDirectory(prefix="export-") as made:
        desk = _Desk(candidate, order, workers, stage, Path(made))
        rows = desk.rows(targets, threads)
        if proven := any(row.kept for row in rows.values()):
            desk.complete(place, rows)
    return ExportReport(
        policy_id=candidate.policy_id,
        fingerprint=fingerprint(candidate.snapshot),
        trained=candidate.snapshot.metadata.get("trained"),
        folder=place if proven else None,
        rows=tuple(replace(row, folder=candidate.policy_id) for row in rows.values()),
    )


def _signature(snapshot: Snapshot, order: Order) -> Signature:
    """What the artifacts of a policy take and give."""
    if order.graph.component is None:
        return policy_signature(PolicySpec.from_spec(snapshot.spec), order.graph)
    # Only the module knows how long the features of its parts are.
    from rlpipe.exporters.preparation import component_signature

    return component_signature(snapshot, order.graph, trust=order.trust)


class _Desk:
    """The work on one policy: what its jobs are given, and what they brought back."""

    def __init__(self, candidate: Candidate, order: Order, workers: WorkerPool, stage: Path, folder: Path) -> None:
        self._candidate, self._order, self._workers = candidate, order, workers
        self._stage, self._folder = stage, folder
        self._answers: dict[str, Arrays] = {}
        self._observations: Arrays = {}
        self._description: Mapping[str, Json] = {}
        self._outputs: tuple[TensorSpec, ...] = ()
        self._ended: tuple[str, float] | None = None
        """For which target preparing the policy ended its process, and after how many seconds at most."""

    def rows(self, targets: Mapping[str, Target], threads: ThreadPoolExecutor) -> dict[str, TargetReport]:
        """A row for each target."""
        try:
            self._lay_out()
        except UnsupportedModuleError as error:
            return {target_id: self._row(target_id, "unsupported", str(error)) for target_id in targets}
        try:
            write_checkpoint(self._candidate.snapshot, self._folder / "policy")
        except RlpipeError as error:
            return {target_id: self._row(target_id, "failed", str(error)) for target_id in targets}
        found = threads.map(self._one, targets, targets.values())
        return dict(zip(targets, found, strict=True))

    def _lay_out(self) -> None:
        """Write down what every job reads."""
        snapshot, config = self._candidate.snapshot, self._candidate.snapshot.spec.config
        space = from_json(config["observation_space"], where="observation_space")
        signature = _signature(snapshot, self._order)
        self._outputs = signature.outputs
        self._order.labels.require_fit(signature, self._candidate.policy_id)
        self._description = {**describe_policy(snapshot, signature, self._order.graph), **self._order.labels.to_json()}
        if self._candidate.recorded is not None:
            self._observations = observation_arrays(signature, space, self._candidate.recorded)
            np.savez(self._folder / "recorded.npz", allow_pickle=False, **self._observations)

    def _one(self, target_id: str, target: Target) -> TargetReport:
        if self._order.on_target is not None:
            self._order.on_target(self._candidate.policy_id, target_id)
        if missing := target.missing_dependency():
            return self._row(target_id, "unavailable", missing)
        options = self._order.targets[target_id]
        seconds = getattr(options, "timeout", TIMEOUT)
        if self._ended is not None and seconds <= self._ended[1]:
            return self._row(target_id, "skipped", _NOT_TRIED.format(self._ended[0]))
        results = self._folder / target_id
        results.mkdir()
        job = Job(
            policy=str(self._folder / "policy"),
            target=target_id,
            options=asdict(options),
            folder=str(self._stage / target_id),
            results=str(results),
            essentials=essentials(self._description),
            recorded=str(self._folder / "recorded.npz") if self._observations else "",
            trust=self._order.trust,
            graph=self._order.graph,
        )
        row, self._answers[target_id] = self._workers.run(job, seconds=seconds)
        if ended_preparing(job):
            self._ended = (target_id, seconds)
        if not row.kept:
            shutil.rmtree(self._stage / target_id, ignore_errors=True)
            return row
        return self._looped(row)

    def _looped(self, row: TargetReport) -> TargetReport:
        if not acts(row.target):
            return row
        loop = self._candidate.loop
        if not self._order.graph.acts:
            level = Level(name=LOOP, status="skipped", detail="it does not give the actions that an environment takes")
        elif loop is None:
            level = Level(name=LOOP, status="skipped", detail="no environment is known")
        else:
            level = loop(row.target, self._stage / row.files[0].path, self._description)
        levels = tuple(sorted((*row.levels, level), key=lambda one: one.name))
        if level.status != "failed":
            return replace(row, levels=levels)
        return replace(row, levels=levels, status="degraded", message=level.detail)

    def _row(self, target_id: str, status: Any, message: str) -> TargetReport:
        options = asdict(self._order.targets[target_id])
        return TargetReport(target=target_id, status=status, message=message, options=options)

    def complete(self, place: Path, rows: Mapping[str, TargetReport]) -> None:
        """Everything beside the targets' folders."""
        kept = [target_id for target_id, row in rows.items() if row.kept]
        for name in (NPZ_NAME, JSON_NAME):
            shutil.copyfile(self._folder / kept[0] / name, self._stage / name)
        truth = read_golden(self._stage).outputs
        answers = {target_id: self._answers[target_id] for target_id in kept if self._answers[target_id]}
        extra: dict[str, Json] = {
            "policy_id": self._candidate.policy_id,
            "versions": versions(),
            "provenance": dict(self._candidate.provenance),
            "agreement": agreement(self._outputs, truth, answers),
        }
        loop = self._candidate.loop
        if met := (loop.observations if loop is not None else None) or self._observations:
            extra["observation_statistics"] = observation_statistics.describe(met)
        complete(self._stage, place, {**self._description, **extra}, rows)
