"""The tasks as plain functions: the same reports, as values, without a command line or a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rlpipe.exporters.labels import Labels
from rlpipe.pipeline.arguments import (
    Path,
    Roles,
    read_choice,
    read_export,
    read_labels,
    read_native_models,
    read_rename,
    read_select,
    read_sha256,
    read_source,
    read_targets,
    read_trust,
)
from rlpipe.pipeline.progress import NoProgress
from rlpipe.pipeline.settings import (
    CheckpointSettings,
    RestoreSettings,
    RunSettings,
    SourceSettings,
    VerifySettings,
)
from rlpipe.policies.graph_options import GraphOptions

if TYPE_CHECKING:
    from rlpipe.pipeline.reports import Report
    from rlpipe.pipeline.tasks.export import ExportTaskReport
    from rlpipe.pipeline.tasks.restore import RestoreReport
    from rlpipe.pipeline.tasks.save import SaveReport
    from rlpipe.pipeline.tasks.verify import VerifyTaskReport

DEFAULT_TARGETS = ("onnx", "torch_export")


def save(  # noqa: PLR0913 - each setting of the task by its name
    source: Path,
    path: Path,
    *,
    backend: str = "hdf5",
    if_exists: Literal["error", "replace"] = "error",
    durability: Literal["fsync", "none"] = "fsync",
    native_models: Sequence[str] = (),
    policy_ids: Sequence[str] | None = None,
    roles: Roles | None = None,
    rename: Mapping[str, str] | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    hints: Mapping[str, Any] | None = None,
    trust: Sequence[str] = (),
) -> SaveReport:
    """Write what is chosen of a source as a checkpoint: import, convert, slim.

    A live object saves itself with ``save_to_path``.

    Args:
        source: A checkpoint, a component directory or a model file: a path, or a URL such as s3://bucket/run.
        path: The directory to write, or a new URL.
        backend: "hdf5" or "pickle".
        if_exists: "replace" lets it take the place of an older checkpoint.
        durability: "none" is faster, and safe against killed processes only.
        native_models: Targets; artifacts of each policy go to ``policies/<id>/model/``. A policy that cannot be
            exported is saved without, and the report warns.
        policy_ids: Ids or globs; None: all.
        roles: ``["inference"]`` leaves out what only training needs.
        rename: Policy id in the source -> id in the checkpoint.
        normalizer: "auto", "none" or the path of a statistics file, for model files.
        policy_id: Id for a policy that comes alone.
        hints: What a model file cannot tell, such as ``{"activation": "elu"}``: further options of its importer.
        trust: Patterns of class paths that may be imported beside rlpipe's.

    Raises:
        ConfigError: An argument is wrong; nothing was done.
        RlpipeError: The source cannot be read, or nothing can be written there.
    """
    from rlpipe.pipeline.tasks import save as task

    if_exists = read_choice("if_exists", if_exists, among=("error", "replace"))
    durability = read_choice("durability", durability, among=("fsync", "none"))
    settings = RunSettings(
        task="save",
        source=read_source(source, normalizer, policy_id, hints),
        checkpoint=CheckpointSettings(
            backend=backend,
            path=os.fspath(path),
            if_exists=if_exists,
            durability=durability,
            native_models=read_native_models(native_models),
        ),
        select=read_select(policy_ids, roles),
        rename=read_rename(rename),
        trust=read_trust(trust),
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
    hints: Mapping[str, Any] | None = None,
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
        hints: See `save`.
        trust: See `save`.

    Raises:
        DeviceError: This machine lacks the device.
        RlpipeError: The source cannot be read, or a policy cannot be built.
    """
    from rlpipe.pipeline.tasks import restore as task

    settings = RunSettings(
        task="restore",
        source=read_source(source, normalizer, policy_id, hints),
        select=read_select(policy_ids, roles),
        restore=RestoreSettings(device=device),
        trust=read_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def export(  # noqa: PLR0913 - each setting of the task by its name
    source: Path,
    path: Path,
    *,
    targets: Sequence[str] | Mapping[str, Any] = DEFAULT_TARGETS,
    if_exists: Literal["error", "replace"] = "error",
    policy_ids: Sequence[str] | None = None,
    env: str | None = None,
    jobs: int = 1,
    require: Sequence[str] | None = None,
    labels: Labels | None = None,
    graph: GraphOptions | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    hints: Mapping[str, Any] | None = None,
    trust: Sequence[str] = (),
) -> ExportTaskReport:
    """Export the policies of a source to verified artifacts; a target that fails is a row of the report, not an error.

    Args:
        source: A checkpoint, a component directory or a model file.
        path: Where the folders of the policies go.
        targets: Ids, or id -> the target's ``Options``.
        if_exists: "replace" lets a folder take the place of another policy's; of the same policy it is always renewed.
        policy_ids: Ids or globs; None: all.
        env: A gymnasium id, to check the artifacts on observations met there; None: the recorded one.
        jobs: How many exports run at a time.
        require: The targets that decide whether the report is ``ok``; None: all of them.
        labels: Names of elements and free metadata, for whoever deploys the artifacts.
        graph: What of each policy is exported; None: its deterministic actions.
        normalizer: See `save`.
        policy_id: See `save`.
        hints: See `save`.
        trust: See `save`.

    Raises:
        RlpipeError: The source cannot be read, or a policy cannot be built.
    """
    from rlpipe.pipeline.tasks import export as task

    settings = RunSettings(
        task="export",
        source=read_source(source, normalizer, policy_id, hints),
        select=read_select(policy_ids, None),
        export=replace(read_export(read_targets(targets), jobs, require), graph=graph or GraphOptions()),
        labels=read_labels(labels),
        artifact_path=os.fspath(path),
        artifact_if_exists=read_choice("if_exists", if_exists, among=("error", "replace")),
        env=env,
        trust=read_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def verify(
    source: Path,
    *,
    policy_ids: Sequence[str] | None = None,
    trust: Sequence[str] = (),
    sha256: str | None = None,
) -> VerifyTaskReport:
    """Check every byte of a checkpoint, artifacts against their record, or whether a model file can be imported.

    Args:
        source: A checkpoint, an artifact folder or a model file.
        policy_ids: Ids or globs, of artifacts; None: all.
        trust: Ids of targets whose files may be run though loading them could run code.
        sha256: A value from elsewhere that the checkpoint or model file has to have; "show": the report's ``sha256``
            tells the one it has.

    Returns:
        The report; damage is in it, not raised.

    Raises:
        RlpipeError: There is nothing to verify.
    """
    from rlpipe.pipeline.tasks import verify as task

    settings = RunSettings(
        task="verify",
        source=SourceSettings(path=os.fspath(source)),
        select=read_select(policy_ids, None),
        verify=VerifySettings(sha256=read_sha256(sha256)),
        trust=read_trust(trust),
    )
    return task.run(settings, progress=NoProgress())


def get_checkpoint_info(
    source: Path,
    *,
    policy_ids: Sequence[str] | None = None,
    normalizer: str = "auto",
    policy_id: str | None = None,
    hints: Mapping[str, Any] | None = None,
) -> Report:
    """What is in a checkpoint, component directory, model file or artifact folder, rlpipe's or a trainer's; no torch.

    RLlib's function of this name returns a dict; here ``.to_json()`` does.

    Args:
        source: The path.
        policy_ids: Ids or globs; None: all.
        normalizer: See `save`.
        policy_id: See `save`.
        hints: See `save`.

    Raises:
        RlpipeError: There is nothing there, or it cannot be read.
    """
    from rlpipe.pipeline.tasks import info as task

    found = read_source(source, normalizer, policy_id, hints)
    settings = RunSettings(task="info", source=found, select=read_select(policy_ids, None))
    return task.run(settings, progress=NoProgress())
