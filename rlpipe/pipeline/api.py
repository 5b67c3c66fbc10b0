"""The tasks as plain functions: the same reports, as values, without a command line or a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from rlpipe.errors import ConfigError, closest, listed
from rlpipe.exporters.labels import Labels, plain
from rlpipe.pipeline.progress import NoProgress
from rlpipe.pipeline.settings import (
    CheckpointSettings,
    ExportSettings,
    RestoreSettings,
    RunSettings,
    SelectSettings,
    SourceSettings,
)
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.snapshot import ROLES, Role
from rlpipe.snapshot.texts import require_texts

if TYPE_CHECKING:
    from rlpipe.pipeline.reports import Report
    from rlpipe.pipeline.tasks.export import ExportTaskReport
    from rlpipe.pipeline.tasks.restore import RestoreReport
    from rlpipe.pipeline.tasks.save import SaveReport
    from rlpipe.pipeline.tasks.verify import VerifyTaskReport

Path: TypeAlias = str | os.PathLike[str]
Roles: TypeAlias = Sequence[Literal["inference", "training"]]
Name = TypeVar("Name", bound=str)
DEFAULT_TARGETS = ("onnx", "torch_export")


def save(  # noqa: PLR0913 - each setting of the task by its name
    source: Path,
    path: Path,
    *,
    backend: str = "hdf5",
    if_exists: Literal["error", "replace"] = "error",
    native_models: Sequence[str] = (),
    policy_ids: Sequence[str] | None = None,
    roles: Roles | None = None,
    rename: Mapping[str, str] | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    filter_agent: Mapping[str, str] | None = None,
    trust: Sequence[str] = (),
) -> SaveReport:
    """Write what is chosen of a source as a checkpoint: import, convert, slim.

    A live object saves itself with ``save_to_path``.

    Args:
        source: A checkpoint, a component directory or a model file.
        path: The directory to write.
        backend: "hdf5" or "pickle".
        if_exists: "replace" lets it take the place of an older checkpoint.
        native_models: Targets; artifacts of each policy go to ``policies/<id>/model/``. A policy that cannot be
            exported is saved without, and the report warns.
        policy_ids: Ids or globs; None: all.
        roles: ``["inference"]`` leaves out what only training needs.
        rename: Policy id in the source -> id in the checkpoint.
        normalizer: "auto", "none" or the path of a statistics file, for model files.
        policy_id: Id for a policy that comes alone.
        filter_agent: Policy id -> agent whose statistics of observations it sees through, for checkpoints of several.
        trust: Patterns of class paths that may be imported beside rlpipe's.

    Raises:
        ConfigError: An argument is wrong; nothing was done.
        RlpipeError: The source cannot be read, or nothing can be written there.
    """
    from rlpipe.pipeline.tasks import save as task

    if_exists = _choice("if_exists", if_exists, among=("error", "replace"))
    settings = RunSettings(
        task="save",
        source=_source(source, normalizer, policy_id, filter_agent),
        checkpoint=CheckpointSettings(
            backend=backend, path=os.fspath(path), if_exists=if_exists, native_models=_native_models(native_models)
        ),
        select=_select(policy_ids, roles),
        rename=_rename(rename),
        trust=_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def restore(
    source: Path,
    *,
    device: str = "cpu",
    policy_ids: Sequence[str] | None = None,
    roles: Roles | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    filter_agent: Mapping[str, str] | None = None,
    trust: Sequence[str] = (),
) -> RestoreReport:
    """Build the policies of a source on a device and try them; they are in the report's ``policies``, by id.

    Args:
        source: A checkpoint, a component directory or a model file.
        device: "cpu", "cuda:0", or "meta" for keys and shapes without numbers.
        policy_ids: Ids or globs; None: all.
        roles: ``["inference"]`` reads and builds only what acts.
        normalizer: See `save`.
        policy_id: See `save`.
        filter_agent: See `save`.
        trust: See `save`.

    Raises:
        DeviceError: This machine lacks the device.
        RlpipeError: The source cannot be read, or a policy cannot be built.
    """
    from rlpipe.pipeline.tasks import restore as task

    settings = RunSettings(
        task="restore",
        source=_source(source, normalizer, policy_id, filter_agent),
        select=_select(policy_ids, roles),
        restore=RestoreSettings(device=device),
        trust=_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def export(  # noqa: PLR0913 - each setting of the task by its name
    source: Path,
    path: Path,
    *,
    targets: Sequence[str] | Mapping[str, Any] = DEFAULT_TARGETS,
    policy_ids: Sequence[str] | None = None,
    env: str | None = None,
    jobs: int = 1,
    require: Sequence[str] | None = None,
    labels: Labels | None = None,
    graph: GraphOptions | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    filter_agent: Mapping[str, str] | None = None,
    trust: Sequence[str] = (),
) -> ExportTaskReport:
    """Export the policies of a source to verified artifacts; a target that fails is a row of the report, not an error.

    Args:
        source: A checkpoint, a component directory or a model file.
        path: Where the folders of the policies go.
        targets: Ids, or id -> the target's ``Options``.
        policy_ids: Ids or globs; None: all.
        env: A gymnasium id, to check the artifacts on observations met there; None: the recorded one.
        jobs: How many exports run at a time.
        require: The targets that decide whether the report is ``ok``; None: all of them.
        labels: Names of elements and free metadata, for whoever deploys the artifacts.
        graph: What of each policy is exported; None: its deterministic actions.
        normalizer: See `save`.
        policy_id: See `save`.
        filter_agent: See `save`.
        trust: See `save`.

    Raises:
        RlpipeError: The source cannot be read, or a policy cannot be built.
    """
    from rlpipe.pipeline.tasks import export as task

    settings = RunSettings(
        task="export",
        source=_source(source, normalizer, policy_id, filter_agent),
        select=_select(policy_ids, None),
        export=replace(_export(_targets(targets), jobs, require), graph=graph or GraphOptions()),
        labels=_labels(labels),
        artifact_path=os.fspath(path),
        env=env,
        trust=_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def verify(source: Path, *, policy_ids: Sequence[str] | None = None, trust: Sequence[str] = ()) -> VerifyTaskReport:
    """Check every byte of a checkpoint, artifacts against their record, or whether a model file can be imported.

    Args:
        source: A checkpoint, an artifact folder or a model file.
        policy_ids: Ids or globs, of artifacts; None: all.
        trust: Ids of targets whose files may be run though loading them could run code.

    Returns:
        The report; damage is in it, not raised.

    Raises:
        RlpipeError: There is nothing to verify.
    """
    from rlpipe.pipeline.tasks import verify as task

    settings = RunSettings(
        task="verify",
        source=SourceSettings(path=os.fspath(source)),
        select=_select(policy_ids, None),
        trust=_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def get_checkpoint_info(
    source: Path,
    *,
    policy_ids: Sequence[str] | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    filter_agent: Mapping[str, str] | None = None,
) -> Report:
    """What is in a checkpoint, component directory, model file or artifact folder, rlpipe's or a trainer's; no torch.

    RLlib's function of this name returns a dict; here ``.to_json()`` does.

    Args:
        source: The path.
        policy_ids: Ids or globs; None: all.
        normalizer: See `save`.
        policy_id: See `save`.
        filter_agent: See `save`.

    Raises:
        RlpipeError: There is nothing there, or it cannot be read.
    """
    from rlpipe.pipeline.tasks import info as task

    settings = RunSettings(
        task="info", source=_source(source, normalizer, policy_id, filter_agent), select=_select(policy_ids, None)
    )
    return task.run(settings, progress=NoProgress())


def _source(
    source: Path, normalizer: str, policy_id: str | None, filter_agent: Mapping[str, str] | None
) -> SourceSettings:
    if policy_id is not None:
        validate_policy_id(policy_id)
    return SourceSettings(
        path=os.fspath(source),
        normalizer=os.fspath(normalizer),
        policy_id=policy_id,
        filter_agent=dict(filter_agent or {}),
    )


def _select(policy_ids: Sequence[str] | None, roles: Roles | None) -> SelectSettings:
    return SelectSettings(
        policy_ids=None if policy_ids is None else require_texts("policy_ids", policy_ids, of="policy ids"),
        roles=None if roles is None else _roles(roles),
    )


def _roles(roles: Roles) -> tuple[Role, ...]:
    texts = require_texts("roles", roles, of="roles")
    return tuple(_choice("roles", text, among=ROLES) for text in texts)


def _choice(name: str, value: object, *, among: Sequence[Name]) -> Name:
    for known in among:
        if value == known:
            return known
    near = closest(str(value), among)
    fix = f"did you mean {near[0]!r}?" if near else f"choose one, such as {among[0]!r}"
    raise ConfigError(name, expected=f"one of {listed(among)}", found=repr(value), fix=fix)


def _rename(rename: Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(rename, Mapping | None):
        fix = "write rename={'p1': 'p7'}"
        raise ConfigError("rename", expected="a mapping of ids", found=repr(rename), fix=fix)
    for name in (rename or {}).values():
        validate_policy_id(name)
    return dict(rename or {})


def _trust(trust: Sequence[str]) -> tuple[str, ...]:
    return () if trust in ((), []) else require_texts("trust", trust, of="class path patterns")


def _native_models(targets: Sequence[str]) -> tuple[str, ...]:
    from rlpipe.exporters.target import target_ids

    wanted = () if targets in ((), []) else require_texts("native_models", targets, of="targets")
    return tuple(_choice("native_models", target_id, among=target_ids()) for target_id in wanted)


def _targets(targets: Sequence[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    from rlpipe.exporters.target import resolve

    ids = require_texts("targets", tuple(targets) if isinstance(targets, Mapping) else targets, of="targets")
    found = {target_id: resolve(target_id) for target_id in ids}
    if not isinstance(targets, Mapping):
        return {target_id: target.Options() for target_id, target in found.items()}
    for target_id, target in found.items():
        _require_options(target_id, targets[target_id], target.Options)
    return dict(targets)


def _export(targets: Mapping[str, Any], jobs: int, require: Sequence[str] | None) -> ExportSettings:
    if type(jobs) is not int or jobs < 1:
        raise ConfigError("jobs", expected="a whole number, 1 or more", found=repr(jobs), fix="jobs=2")
    wanted = None if require is None else require_texts("require", require, of="targets")
    for target_id in wanted or ():
        _choice("require", target_id, among=tuple(targets))
    return ExportSettings(targets=targets, jobs=jobs, require=wanted)


def _labels(labels: Labels | None) -> Labels:
    if labels is None:
        return Labels()
    if not isinstance(labels, Labels):
        fix = "from rlpipe.exporters.labels import Labels"
        raise ConfigError("labels", expected="rlpipe.exporters.labels.Labels", found=repr(labels)[:80], fix=fix)
    if not plain(labels.metadata):
        fix = "write texts, numbers, lists and dicts; None for what is not known"
        raise ConfigError("labels.metadata", expected="plain JSON", found=repr(labels.metadata)[:80], fix=fix)
    return labels


def _require_options(target_id: str, options: Any, expected: type[Any]) -> None:
    if not isinstance(options, expected):
        module = f"{expected.__module__}.{expected.__qualname__}"
        fix = f"from {expected.__module__} import {expected.__qualname__}"
        raise ConfigError(f"targets[{target_id!r}]", expected=f"{module}", found=repr(options), fix=fix)
