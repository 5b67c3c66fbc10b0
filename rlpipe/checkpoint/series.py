"""The checkpoints of one training run in one folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlpipe.backends.remote import Url
from rlpipe.checkpoint.choose import made_at
from rlpipe.checkpoint.directory import Durability, IfExists
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.retention import Retention, apply_retention
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ConfigError
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Json


@dataclass(frozen=True, kw_only=True)
class Series:
    """How a run writes its checkpoints: `<folder>/step-<step>`, each with its step and this run's id in it.

    Attributes:
        folder: Where they go: a directory, or a URL in a store.
        backend: "hdf5" or "pickle".
        if_exists: "replace", as a run that is resumed comes by the same steps again; or "error". None is the first in a
            directory, the second in a store.
        durability: "fsync" or "none" (see `staged`).
        retention: What is removed after each commit; nothing by default.
        run: Id of the run, kept in each checkpoint: the later run's are the later ones, even at lower steps.
        provenance: More plain JSON about the run.
    """

    folder: str | os.PathLike[str]
    backend: str = "hdf5"
    if_exists: IfExists | None = None
    durability: Durability = "fsync"
    retention: Retention = field(default_factory=Retention)
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    provenance: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what it is given.

        Raises:
            ConfigError: The folder is no path, or the retention no `Retention`.
        """
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ConfigError(
                "folder", expected="a path or a URL", found=repr(self.folder)[:80], fix="Series(folder='runs/a')"
            )
        if not isinstance(self.retention, Retention):
            raise ConfigError(
                "retention",
                expected="rlpipe.Retention",
                found=repr(self.retention)[:80],
                fix="retention=rlpipe.Retention(keep_last=3)",
            )

    def path_of(self, step: int) -> Place:
        """The directory of a step's checkpoint."""
        return place_of(self.folder) / f"step-{step}"

    def write(
        self,
        snapshot: Snapshot | Restorable,
        *,
        step: int,
        score: float | None = None,
        attachments: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> Place:
        """Write the checkpoint of a step, then remove what the retention lets go.

        Args:
            snapshot: What is written: a live object, or a snapshot.
            step: The step of training, from 0.
            score: How good it is, for `best`; None if nobody knows.
            attachments: Component path -> a folder whose files travel with it (see `write_checkpoint`).

        Returns:
            Its directory.

        Raises:
            CheckpointError: It was not written; nothing was removed.
            ConfigError: What is to be written is neither a live object nor a snapshot.
            UnsupportedStateError: A step, a score, a state or attachments that no checkpoint can hold.
            SelectionError: Attachments for a component that is not there.
            IdError: The name of an attachment that no file can have everywhere.
        """
        path = self.path_of(step)
        write_checkpoint(
            given("snapshot", snapshot),
            path,
            backend=self.backend,
            if_exists=self.if_exists or ("error" if isinstance(path, Url) else "replace"),
            durability=self.durability,
            provenance={**self.provenance, **made_at(step=step, score=score, run=self.run)},
            attachments=attachments,
        )
        apply_retention(path, self.retention)
        return path


def given(name: str, source: object) -> Snapshot:
    """The snapshot that is to be saved: a snapshot itself, or that of a live object.

    Args:
        name: Of the argument, for errors.
        source: What was given.

    Raises:
        ConfigError: It is neither.
        UnsupportedStateError: See `snapshot_of`.
    """
    if isinstance(source, Snapshot):
        return source
    if isinstance(source, Restorable):
        return snapshot_of(source)
    raise ConfigError(
        name,
        expected="a live object, such as a Policy or an Algorithm, or a snapshot of one",
        found=f"{type(source).__name__} {repr(source)[:80]}",
        fix="give the object itself: saver.save(policy, step=1)"
        if name == "source"
        else "series.write(policy, step=1)",
    )
