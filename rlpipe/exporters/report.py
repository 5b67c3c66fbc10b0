"""What an export says: one row per target, as a value, as JSON, as what is recorded beside the artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from rlpipe.exporters.verify import Verification

Status: TypeAlias = Literal["ok", "mismatch", "failed", "unsupported", "unavailable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """What became of one policy in one target.

    Attributes:
        target: The target's id.
        status: `ok`: written and proven. `mismatch`: acts otherwise. `failed`: broke on the way. `unsupported`: the
            policy or an option cannot be expressed. `unavailable`: a package is missing. Only `ok` leaves a file.
        message: What went wrong, where, and what to do; "" if nothing did.
        file: Path below the output folder, such as `p1/onnx/policy.onnx`; "" without a file.
        size: Its bytes.
        sha256: Its hash in hex.
        options: The target's options.
        verification: What the check found, or None if it did not come to one.
        seconds: Time for export and verification.
        notes: What the exporter printed, warned and logged.
    """

    target: str
    status: Status
    message: str = ""
    file: str = ""
    size: int = 0
    sha256: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    verification: Verification | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def max_error(self) -> float | None:
        """Largest difference from the policy's actions, or None if nothing was compared."""
        return self.verification.max_error if self.verification and self.status in ("ok", "mismatch") else None

    @property
    def tolerance(self) -> float | None:
        """The absolute tolerance."""
        return self.options.get("atol")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with everything, for the run's own report."""
        return {
            **self.record(),
            "target": self.target,
            "file": self.file,
            "message": self.message,
            "seconds": self.seconds,
            "max_error": self.max_error,
            "tolerance": self.tolerance,
            "notes": list(self.notes),
        }

    def record(self) -> dict[str, Any]:
        """Plain JSON for `artifact.json`: the same in every run, with nothing of the machine in it."""
        made = {"file": "/".join(Path(self.file).parts[-2:]), "size": self.size, "sha256": self.sha256}
        checked = {"verification": self.verification.to_json()} if self.verification else {}
        return {"status": self.status, "options": dict(self.options), **(made if self.file else {}), **checked}


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
        return all(row.status == "ok" for row in self.rows)

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
