"""What goes to a worker process and what comes back, as JSON: one policy, one target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.exporters.levels import Level
from rlpipe.exporters.report import FileFacts, TargetReport
from rlpipe.exporters.signature import Array
from rlpipe.exporters.target import Arrays
from rlpipe.exporters.verify import Verification
from rlpipe.policies.graph_options import GraphOptions

_RESULT, _ANSWERS = "result.json", "answers.npz"
_PREPARED = "prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One export.

    Attributes:
        policy: Directory of a checkpoint that holds the policy's snapshot.
        target: The target's id.
        options: Its options by name.
        folder: Where the target's files go.
        results: A directory for what comes back.
        essentials: What goes into the artifact's own file.
        recorded: An .npz of observations met in the environment by input name, or "".
        trust: Patterns of class paths that may be imported beside rlpipe's.
        graph: What of the policy is exported.
    """

    policy: str
    target: str
    options: Mapping[str, Any]
    folder: str
    results: str
    essentials: Mapping[str, str] = field(default_factory=dict)
    recorded: str = ""
    trust: tuple[str, ...] = ()
    graph: GraphOptions = field(default_factory=GraphOptions)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Job:
        """The inverse of `to_line`."""
        value = json.loads(line)
        return cls(**{**value, "trust": tuple(value["trust"]), "graph": GraphOptions.from_json(value["graph"])})


def mark_prepared(job: Job) -> None:
    """Note that the policy of a job can be prepared: what goes wrong from now on is its target's."""
    (Path(job.policy).parent / _PREPARED).touch()


def ended_preparing(job: Job) -> bool:
    """Whether a job brought its process down, or took too long, before its policy was prepared."""
    return not (Path(job.results) / _RESULT).exists() and not (Path(job.policy).parent / _PREPARED).exists()


def write_result(folder: Path, row: TargetReport, answers: Arrays) -> None:
    """Leave a row and the artifact's answers to the golden vectors."""
    np.savez(folder / _ANSWERS, allow_pickle=False, **answers)
    value = {
        "row": {**row.to_json(), "files": [file.to_json() for file in row.files]},
        "levels": [{"name": level.name, **level.to_json()} for level in row.levels],
    }
    (folder / _RESULT).write_text(json.dumps(value), encoding="utf-8")


def read_result(folder: Path) -> tuple[TargetReport, dict[str, Array]]:
    """The row and the answers that a worker left.

    Raises:
        OSError, ValueError, KeyError: It left none.
    """
    value = json.loads((folder / _RESULT).read_text(encoding="utf-8"))
    row = value["row"]
    with np.load(folder / _ANSWERS, allow_pickle=False) as archive:
        answers = {name: archive[name] for name in archive.files}
    checked = Verification.from_json(row["verification"]) if row.get("verification") else None
    made = TargetReport(
        target=row["target"],
        status=row["status"],
        message=row["message"],
        files=tuple(FileFacts(**file) for file in row["files"]),
        options=row["options"],
        verification=checked,
        levels=tuple(Level.from_json(level["name"], level) for level in value["levels"]),
        seconds=row["seconds"],
        notes=tuple(row["notes"]),
    )
    return made, answers
