"""`artifact.json`: what the files beside it are, for people, for `open_artifact` and for whoever audits them."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rlpipe import __version__
from rlpipe.errors import ArtifactError
from rlpipe.exporters.report import KEPT
from rlpipe.exporters.signature import Signature
from rlpipe.policies.graph_options import GraphOptions
from rlpipe.snapshot.identity import FINGERPRINT_DIGITS, content_hash, inference_hash
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Json, canonical_json

DETERMINISTIC = GraphOptions()

FORMAT = "rlpipe-artifact"
VERSION = 0
RECORD_NAME = "artifact.json"

_PACKAGES = ("numpy", "torch", "onnx", "onnxscript", "onnxruntime")
_FIELDS = ("targets", "signature", "observation_space", "action_space", "fingerprint")
_MOST_BYTES = 64 << 20


def describe_policy(snapshot: Snapshot, signature: Signature, options: GraphOptions = DETERMINISTIC) -> dict[str, Json]:
    """What an artifact says about its policy, whatever the target.

    Args:
        snapshot: The policy's.
        signature: Names, dtypes and shapes of its inputs and outputs.
        options: What of it is exported.
    """
    config = snapshot.spec.config
    identity = inference_hash(snapshot)
    return {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": identity[:FINGERPRINT_DIGITS],
        "inference_hash": identity,
        "content_hash": content_hash(snapshot),
        "trained": snapshot.metadata.get("trained"),
        **_options(options),
        "observation_space": config["observation_space"],
        "action_space": config["action_space"],
        "signature": signature.to_json(),
        "stages": {name: config[name] for name in ("observation", "action", "target") if name in config},
        "module": config["module"]["class"],
        "model_config": config["module"]["model_config"],
    }


def _options(options: GraphOptions) -> dict[str, Json]:
    """The mode, and of the rest what is not as usual."""
    usual = DETERMINISTIC.to_json()
    return {name: value for name, value in options.to_json().items() if name == "mode" or value != usual[name]}


def essentials(description: Mapping[str, Json]) -> dict[str, str]:
    """The description as flat texts that go into the artifact's own file; equal policies give equal ones."""
    kept = {name: value for name, value in description.items() if name != "content_hash"}
    return {
        f"rlpipe.{name}": value if isinstance(value, str) else canonical_json(value) for name, value in kept.items()
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that made the artifact."""
    found = {"python": platform.python_version(), "rlpipe": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write_record(folder: Path, record: Mapping[str, Json]) -> None:
    """Write the record of a folder."""
    text = json.dumps(record, indent=2, sort_keys=True, allow_nan=False) + "\n"
    (folder / RECORD_NAME).write_text(text, encoding="utf-8", newline="\n")


def read_record(folder: Path) -> dict[str, Json]:
    """The record of an artifact folder.

    Raises:
        ArtifactError: There is none, or it is damaged or of a newer version.
    """
    file = folder / RECORD_NAME
    record = peek(file)
    if record is None:
        raise ArtifactError(
            f"{folder} is no artifact",
            expected=f"a folder with {RECORD_NAME}, as rlpipe task=export writes it",
            found="no such folder" if not folder.is_dir() else f"no readable {RECORD_NAME}",
        )
    if record.get("version") != VERSION:
        raise ArtifactError(
            f"{file} has another version",
            expected=str(VERSION),
            found=repr(record.get("version")),
            fix="update rlpipe",
        )
    missing = [name for name in _FIELDS if name not in record]
    if missing or not targets_of(record):
        found = f"no {', '.join(missing)}" if missing else "no targets"
        raise ArtifactError(f"{file} is damaged", expected=", ".join(_FIELDS), found=found, fix="export again")
    return record


def targets_of(record: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """Target id -> what a record says of it, for the targets that left files; {} if the record is damaged."""
    entries = record.get("targets")
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict) and entry.get("status") in KEPT}


def peek(file: Path) -> dict[str, Json] | None:
    """The JSON of a file if it is the record of an artifact, else None; reads nothing large."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return None
        record = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None
