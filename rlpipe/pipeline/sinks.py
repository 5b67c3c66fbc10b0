"""Where policies go: a checkpoint directory, at the given path or at a new one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.pipeline import tables
from rlpipe.pipeline.inspect import ComponentFacts, facts_of_checkpoint
from rlpipe.pipeline.native_models import NativeModels, native_models
from rlpipe.pipeline.provenance import provenance
from rlpipe.pipeline.settings import RunSettings
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that a task wrote.

    Attributes:
        path: Its directory, as given.
        backend: Id of its backend.
        nbytes: Bytes of all files in it.
        content_hash: Identity of all that it is.
        components: What is in it, parents first.
        native: The artifacts in it.
    """

    path: str
    backend: str
    nbytes: int
    content_hash: str
    components: tuple[ComponentFacts, ...]
    native: NativeModels = field(default_factory=NativeModels)

    def policies(self) -> tuple[ComponentFacts, ...]:
        """The policies in it."""
        return tuple(facts for facts in self.components if facts.kind == "policy")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "path": self.path,
            "backend": self.backend,
            "bytes": self.nbytes,
            "content_hash": self.content_hash,
            "policies": {facts.name: _policy_json(facts) for facts in self.policies()},
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
            *(["", tables.line("native models", style="bold"), *models] if models else []),
        )


def write(tree: Snapshot, settings: RunSettings) -> WrittenCheckpoint:
    """Write a tree as the settings say.

    Raises:
        CheckpointExistsError: There is something at ``checkpoint.path``.
        CheckpointError: The system cannot write there.
    """
    path = Path(settings.checkpoint.path).expanduser() if settings.checkpoint.path else new_path(settings)
    # What is there is not written over, so nothing needs to be exported for it.
    refused = settings.checkpoint.if_exists == "error" and path.exists()
    with native_models(tree, settings) if not refused else nullcontext(NativeModels()) as native:
        write_checkpoint(
            tree,
            path,
            backend=settings.checkpoint.backend,
            if_exists=settings.checkpoint.if_exists,
            provenance=provenance(settings),
            attachments=native.attachments,
        )
    root = inspect_checkpoint(path)
    return WrittenCheckpoint(
        path=path.as_posix(),
        backend=settings.checkpoint.backend,
        nbytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        content_hash=root.content_hash,
        components=facts_of_checkpoint(root, Selection()),
        native=native,
    )


def new_path(settings: RunSettings) -> Path:
    """``<checkpoints_dir>/<utc>-<task>``; to the microsecond, so that runs of one second do not meet."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ")
    return Path(settings.checkpoints_dir) / f"{now}-{settings.task}"


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
