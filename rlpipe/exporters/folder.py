"""The artifact folder of one policy: filled beside its place, taken there in one step, or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from rlpipe.checkpoint.directory import real_path, staged, sync_directory
from rlpipe.errors import ArtifactError, CheckpointError, listed
from rlpipe.exporters.companions.example_cpp import EXAMPLE_CPP_NAME, TARGET, example_cpp
from rlpipe.exporters.companions.page import PAGE_NAME, page
from rlpipe.exporters.companions.scripts import EXAMPLE_NAME, VERIFY_NAME, example_script, verify_script
from rlpipe.exporters.golden import lengths, read_golden
from rlpipe.exporters.record import RECORD_NAME, peek, targets_of, write_record
from rlpipe.exporters.report import FileFacts, TargetReport
from rlpipe.exporters.target import resolve, target_ids
from rlpipe.snapshot.identity import FINGERPRINT_DIGITS
from rlpipe.snapshot.spec import Json

_PLACE = re.compile(r"(?<![\w.])(?:/[^\s/:'\",;()\[\]]+)+/([^\s/:'\",;()\[\]]+)")
_MOST_WARNINGS = 20
_NOISE = "torchvision is not installed"
"""torch says so four times with every ONNX file; it concerns no policy."""


class _NothingProvenError(Exception):
    """Ends the staging without a folder; never leaves this file."""


@contextmanager
def staging(place: Path) -> Iterator[Path]:
    """A folder to fill; it takes its place at the end of the block if there is a record in it by then.

    Args:
        place: The policy's folder. An older artifact there stays as it is unless it is replaced.

    Raises:
        ArtifactError: Something else than an artifact is at the place, or the system refuses to write.
    """
    require_replaceable(place)
    try:
        with staged(real_path(place), if_exists="replace", marker=RECORD_NAME) as stage:
            yield stage
            _finish(stage)
    except _NothingProvenError:
        return
    except CheckpointError as error:
        raise ArtifactError(
            f"the artifact {place} was not written",
            expected=error.expected,
            found=error.found or error.subject,
            fix="choose another artifact.path, or see to its permissions and the room on its disk",
        ) from error


def complete(stage: Path, place: Path, description: Mapping[str, Json], rows: Mapping[str, TargetReport]) -> None:
    """Write what lies beside the targets of a staged folder, and its record.

    What the place holds of other targets for the same policy comes along.

    Args:
        stage: The staged folder, with the files of all targets that were proven, and the golden vectors.
        place: Where it will go.
        description: What the record says beside its targets.
        rows: Target id -> what became of it.
    """
    kept = _kept(place, description, set(rows))
    for target_id in kept:
        shutil.copytree(place / target_id, stage / target_id)
    made = {target_id: _entry(row) for target_id, row in rows.items()}
    vectors = read_golden(stage)
    record: dict[str, Json] = {**description, "golden": lengths(vectors), "targets": {**kept, **made}}
    proven = sorted(targets_of(record))
    _write_text(stage / VERIFY_NAME, verify_script(proven))
    if (example := example_script(record, proven)) is not None:
        _write_text(stage / EXAMPLE_NAME, example)
    if TARGET in proven and (program := example_cpp(record, vectors)) is not None:
        _write_text(stage / EXAMPLE_CPP_NAME, program)
    _write_text(stage / PAGE_NAME, page(record))
    beside = sorted(path for path in stage.iterdir() if path.is_file())
    files = [FileFacts(path=path.name, size=path.stat().st_size, sha256=sha256(path)).to_json() for path in beside]
    write_record(stage, {**record, "files": files})


def sha256(file: Path) -> str:
    """SHA-256 of a file in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_replaceable(place: Path) -> None:
    """Check that nothing but an older artifact would be replaced.

    Raises:
        ArtifactError: There is something else.
    """
    if not place.exists() or (place.is_dir() and not any(place.iterdir())) or peek(place / RECORD_NAME) is not None:
        return
    raise ArtifactError(
        f"what is at {place} is no artifact, so it is not replaced",
        expected="nothing, or the folder of an older artifact",
        found="a folder with other things" if place.is_dir() else "a file",
        fix="choose another artifact.path",
    )


def require_same_policies(places: Mapping[Path, str]) -> None:
    """Check that no artifact of another policy would be replaced.

    Args:
        places: Folder of each policy -> its inference hash.

    Raises:
        ArtifactError: Some folders hold artifacts of other policies; all of them are named.
    """
    others = []
    for place, inference_hash in places.items():
        found = (peek(place / RECORD_NAME) or {}).get("inference_hash", inference_hash)
        if found != inference_hash:
            others.append(f"{place} (fingerprint {str(found)[:FINGERPRINT_DIGITS]})")
    if others:
        raise ArtifactError(
            "artifacts of other policies would be replaced",
            expected="nothing, or artifacts of the same policies",
            found=listed(others),
            fix="choose another artifact.path, or allow it: artifact.if_exists=replace",
        )


def _entry(row: TargetReport) -> dict[str, Any]:
    """What is recorded of a row; its texts name no place."""
    legacy = getattr(resolve(row.target), "LEGACY", "")
    warnings = [note for note in row.notes if _NOISE not in note][:_MOST_WARNINGS] if row.kept else []
    entry: dict[str, Any] = _without_places(
        {
            **row.record(),
            **({"legacy": legacy} if legacy else {}),
            **({"message": row.message} if row.message else {}),
            **({"warnings": warnings} if warnings else {}),
        }
    )
    return entry


def _without_places(value: Any) -> Any:
    """The value with every absolute path in its texts cut to the last part, as strict JSON has it."""
    if isinstance(value, str):
        return _PLACE.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {name: _without_places(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_places(item) for item in value]
    # JSON has no NaN; it stands where an artifact gives no number.
    return None if isinstance(value, float) and not isfinite(value) else value


def _kept(place: Path, description: Mapping[str, Json], replaced: set[str]) -> dict[str, Any]:
    record = peek(place / RECORD_NAME) or {}
    # Another way of exporting the same policy gives another artifact.
    same = ("inference_hash", "version", "signature", "mode", "action", "outputs", "component")
    if any(record.get(name) != description.get(name) for name in same):
        return {}
    return {
        target_id: entry
        for target_id, entry in targets_of(record).items()
        if target_id in target_ids() and target_id not in replaced and (place / target_id).is_dir()
    }


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


def _finish(stage: Path) -> None:
    """Bring everything below a folder to the disk, if there is a record in it."""
    if not (stage / RECORD_NAME).is_file():
        raise _NothingProvenError
    for path in (*stage.rglob("*"), stage):
        if path.is_dir():
            sync_directory(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
