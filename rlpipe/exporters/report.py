"""What an export says: one row per target, as a value, as JSON, as what is recorded beside the artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rlpipe.exporters.levels import Level

if TYPE_CHECKING:
    from rlpipe.exporters.verify import Verification

Status: TypeAlias = Literal["ok", "degraded", "mismatch", "failed", "unsupported", "unavailable", "skipped"]
KEPT: tuple[Status, ...] = ("ok", "degraded")
"""Where a file is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file of an artifact: its path below the policy's folder, its bytes and its hash in hex."""

    path: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """What became of one policy in one target.

    Attributes:
        target: The target's id.
        status: `ok`: written and proven. `degraded`: it computes the same numbers, but a further level of proof failed.
            `mismatch`: acts otherwise. `failed`: broke on the way. `unsupported`: the policy or an option cannot be
            expressed. `unavailable`: a package or compiler is missing. `skipped`: not tried, since preparing the policy
            for another target ended the process. Only the first two leave files.
        message: What went wrong, where, and what to do; "" if nothing did.
        folder: Name of the policy's folder.
        files: All files, the one that runs first; empty if none were left.
        options: The target's options.
        verification: What comparing numbers found, or None if it did not come to that.
        levels: The levels of proof, in order.
        seconds: Time for export and verification.
        notes: What the exporter printed, warned and logged.
    """

    target: str
    status: Status
    message: str = ""
    folder: str = ""
    files: tuple[FileFacts, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    verification: Verification | None = None
    levels: tuple[Level, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether it left files."""
        return self.status in KEPT

    @property
    def file(self) -> str:
        """Path of the file that runs below the output folder, such as `p1/onnx/policy.onnx`; "" without one."""
        return "/".join(filter(None, (self.folder, self.files[0].path))) if self.files else ""

    @property
    def size(self) -> int:
        """Bytes of the file that runs, as the record and task=info have it; 0 without one."""
        return self.files[0].size if self.files else 0

    @property
    def sha256(self) -> str:
        """Hash of the file that runs, or ""."""
        return self.files[0].sha256 if self.files else ""

    @property
    def max_error(self) -> float | None:
        """Largest difference from the policy's actions, or None if nothing was compared."""
        compared = self.verification is not None and self.status in (*KEPT, "mismatch")
        return self.verification.max_error if compared and self.verification else None

    @property
    def tolerance(self) -> float | None:
        """The absolute tolerance."""
        return self.options.get("atol")

    def level(self, name: str) -> Level | None:
        """What one level of proof found, or None if it did not come to that."""
        return next((level for level in self.levels if level.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with everything, for the run's own report."""
        return {
            **self.record(),
            "target": self.target,
            "file": self.file,
            "size": self.size,
            "message": self.message,
            "max_error": self.max_error,
            "tolerance": self.tolerance,
            "notes": list(self.notes),
        }

    def record(self) -> dict[str, Any]:
        """Plain JSON for `artifact.json`; what notes say is left to the caller, since they may name places."""
        made = {
            "file": self.files[0].path if self.files else "",
            "size": self.size,
            "sha256": self.sha256,
            "files": [file.to_json() for file in self.files],
        }
        checked = {"verification": self.verification.to_json()} if self.verification else {}
        proven = {"levels": {level.name: level.to_json() for level in self.levels}} if self.levels else {}
        seconds = {"seconds": round(self.seconds, 3)}
        return {
            "status": self.status,
            "options": dict(self.options),
            **(made if self.files else {}),
            **checked,
            **proven,
            **seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What became of one policy.

    Attributes:
        policy_id: Its id.
        fingerprint: First digits of its inference hash.
        trained: What the source says, or None if it says nothing.
        folder: The artifact folder, or None if nothing was written.
        rows: One per target, in the order asked for.
    """

    policy_id: str
    fingerprint: str
    trained: bool | None
    folder: Path | None
    rows: tuple[TargetReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every target was written and proven."""
        return self.fulfils(None)

    def fulfils(self, required: Sequence[str] | None) -> bool:
        """Whether the required targets, or all for None, were written and proven."""
        return all(row.status == "ok" for row in self.rows if required is None or row.target in required)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for the run's own report."""
        return {
            "policy_id": self.policy_id,
            "fingerprint": self.fingerprint,
            "trained": self.trained,
            "ok": self.ok,
            "folder": str(self.folder) if self.folder else None,
            "targets": [row.to_json() for row in self.rows],
        }
