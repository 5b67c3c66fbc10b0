"""Where policies go: a checkpoint directory, at the given path or at a new one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType

from rlpipe.checkpoint.choose import made_at
from rlpipe.checkpoint.identical import identical_notes, identical_policies
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.place import Place, place_of, total_size
from rlpipe.checkpoint.retention import apply_retention
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.pipeline import tables
from rlpipe.pipeline.inspect import ComponentFacts, facts_of_checkpoint
from rlpipe.pipeline.native_models import NativeModels, native_models
from rlpipe.pipeline.provenance import provenance
from rlpipe.pipeline.settings import CheckpointSettings, RunSettings
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import Snapshot

MEMORY = "memory"
"""The scheme of places that are in this process alone."""


@dataclass(frozen=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that a task wrote.

    Attributes:
        path: Its directory, as given.
        backend: Id of its backend.
        nbytes: Bytes of all files in it.
        content_hash: Identity of all that it is.
        components: What is in it, parents first.
        identical: Policies whose weights are the same.
        removed: Older checkpoints that the retention let go.
        notes: What is worth a word about it.
        warnings: What the retention could not remove, which policies lack artifacts in it, and that it does not last.
        native: The artifacts in it.
    """

    path: str
    backend: str
    nbytes: int
    content_hash: str
    components: tuple[ComponentFacts, ...]
    identical: tuple[tuple[str, ...], ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    native: NativeModels = field(default_factory=NativeModels)

    def policies(self) -> tuple[ComponentFacts, ...]:
        """The policies in it."""
        return tuple(facts for facts in self.components if facts.kind == "policy" and not facts.is_copy)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "path": self.path,
            "backend": self.backend,
            "bytes": self.nbytes,
            "content_hash": self.content_hash,
            "policies": {facts.name: _policy_json(facts) for facts in self.policies()},
            "identical": [list(group) for group in self.identical],
            "removed": list(self.removed),
            **({"native_models": found} if (found := self.native.to_json()) else {}),
        }

    def tables(self) -> Sequence[RenderableType]:
        """Where it is, and a row for each policy."""
        rows = [
            (
                facts.name,
                _class_name(facts),
                f"{facts.role('inference').parameters:,}",
                f"{facts.role('training').parameters:,}",
                tables.size(facts.file_size),
                facts.fingerprint,
            )
            for facts in self.policies()
        ]
        columns = ("policy", "module", "inference", "training", "file", "fingerprint")
        models = [
            tables.line(f"{policy_id}: {', '.join(f'{target} {status}' for target, status in found.items())}")
            for policy_id, found in self.native.statuses.items()
        ]
        return (
            tables.line(f"written: {self.path} ({self.backend}, {tables.size(self.nbytes)})"),
            "",
            tables.table(*columns, rows=rows, right=("inference", "training", "file")),
            *(("", tables.line("native models", style="bold")) if models else ()),
            *models,
        )


def write(tree: Snapshot, settings: RunSettings) -> WrittenCheckpoint:
    """Write a tree as the settings say.

    Raises:
        CheckpointExistsError: There is something at ``checkpoint.path``.
        CheckpointError: The system cannot write there.
    """
    path = place_of(settings.checkpoint.path) if settings.checkpoint.path else new_path(settings)
    checkpoint = settings.checkpoint
    # What is there is not written over, so nothing needs to be exported for it.
    refused = checkpoint.if_exists == "error" and checkpoint.native_models and path.exists()
    with native_models(tree, settings) if not refused else nullcontext(NativeModels()) as native:
        write_checkpoint(
            tree,
            path,
            backend=checkpoint.backend,
            if_exists=checkpoint.if_exists,
            durability=checkpoint.durability,
            provenance={**provenance(settings), **_made_at(checkpoint)},
            attachments=native.attachments,
        )
    root = inspect_checkpoint(path)
    gone = apply_retention(path, checkpoint.retention)
    return WrittenCheckpoint(
        path=path.as_posix(),
        backend=checkpoint.backend,
        nbytes=total_size(path),
        content_hash=root.content_hash,
        components=facts_of_checkpoint(root, Selection()),
        identical=identical_policies(root),
        removed=tuple(each.as_posix() for each in gone.removed),
        notes=(*identical_notes(root), *(f"removed the older checkpoint {each}" for each in gone.removed)),
        warnings=(
            *_passing(path),
            *native.warnings,
            *(f"the older checkpoint {each} could not be removed: {why}" for each, why in gone.failed),
        ),
        native=native,
    )


def _passing(path: Place) -> tuple[str, ...]:
    """What is said where a checkpoint is gone as soon as whoever wrote it is."""
    is_memory = path.as_posix().startswith(f"{MEMORY}://")
    return (f"{MEMORY}:// lasts as long as this process",) if is_memory else ()


def _made_at(checkpoint: CheckpointSettings) -> dict[str, Any]:
    """Where in a training it was made, as far as that was said."""
    if checkpoint.step is not None:
        return made_at(step=checkpoint.step, score=checkpoint.score)
    return {} if checkpoint.score is None else {"score": checkpoint.score}


def new_path(settings: RunSettings) -> Place:
    """``<checkpoints_dir>/<utc>-<task>``; to the microsecond, so that runs of one second do not meet."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ")
    return place_of(settings.checkpoints_dir) / f"{now}-{settings.task}"


def _class_name(facts: ComponentFacts) -> str:
    policy = facts.policy()
    return policy.module_class.rpartition(".")[2] if policy else "-"


def _policy_json(facts: ComponentFacts) -> dict[str, Any]:
    return {
        "fingerprint": facts.fingerprint,
        "content_hash": facts.content_hash,
        "inference_hash": facts.inference_hash,
        "inference": facts.role("inference").to_json(),
        "training": facts.role("training").to_json(),
        "options": dict(facts.spec.options),
        "trained": facts.metadata.get("trained"),
    }
