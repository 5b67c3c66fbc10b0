"""The settings of a run: files beside a checkpoint, found and read as plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlpipe.errors import ConfigError, ForeignFormatError, listed
from rlpipe.importers.restricted.inert_yaml import MAX_BYTES, read_yaml

AUTO, NONE = "auto", "none"
AGENT, ENV = "agent.yaml", "env.yaml"
DESCRIPTORS = "IO_descriptors.yaml"
_FOLDERS = ("params", ".", "io_descriptors", "exported")
"""Where Isaac Lab and mjlab put them, seen from the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was found beside a checkpoint; {} for a file that is not there.

    Attributes:
        agent: The settings of the runner.
        env: Those of the environment.
        descriptors: What the environment said of its observations and actions.
        files: (path from the folder of the checkpoint, SHA-256) of what was read.
        looked_in: Where they were looked for, in words.
    """

    agent: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    descriptors: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    looked_in: str = ""


def find_settings(checkpoint: Path, params: str) -> Settings:
    """The settings that lie beside a checkpoint, or in a folder that is named.

    Args:
        checkpoint: The file of the policy.
        params: "auto": beside it; "none": nowhere; else the path of a folder.

    Raises:
        ConfigError: The folder is not there, or holds no settings.
        ForeignFormatError: Several files could be meant, or one is not what it should be.
        UnsafePayloadError: A file cannot be read as YAML.
    """
    if params == NONE:
        return Settings(looked_in="source.params=none")
    folder = checkpoint.parent if params == AUTO else Path(params).expanduser()
    if params != AUTO and not folder.is_dir():
        raise ConfigError(
            "source.params names no folder", expected=f"the folder of {AGENT}, or of the run", found=params
        )
    found = {name: _only(_candidates(folder, name), name) for name in (AGENT, ENV, DESCRIPTORS)}
    present = {name: path for name, path in found.items() if path is not None}
    if params != AUTO and not present:
        raise ConfigError(
            f"there are no settings in {params}", expected=listed(found), found="none", fix="name another folder"
        )
    read = {name: _read(path) for name, path in present.items()}
    return Settings(
        agent=read[AGENT][0] if AGENT in read else {},
        env=read[ENV][0] if ENV in read else {},
        descriptors=read[DESCRIPTORS][0] if DESCRIPTORS in read else {},
        files=tuple((present[name].relative_to(folder).as_posix(), read[name][1]) for name in sorted(read)),
        looked_in=f"{' and '.join(_FOLDERS[:2])} beside {checkpoint.name}" if params == AUTO else params,
    )


def _candidates(folder: Path, name: str) -> list[Path]:
    places = [place for part in _FOLDERS if (place := folder / part).is_dir()]
    if name != DESCRIPTORS:
        return [place / name for place in places[:2] if (place / name).is_file()][:1]
    return [path for place in places for path in sorted(place.glob(f"*{DESCRIPTORS}")) if path.is_file()]


def _only(paths: Iterable[Path], name: str) -> Path | None:
    found = list(paths)
    distinct = {_bytes_of(path) for path in found}
    if len(distinct) > 1:
        raise ForeignFormatError(
            f"there are several {name}",
            expected="one of this run",
            found=listed(f"{path.parent.name}/{path.name}" for path in found),
            fix="put the right one alone into a folder and name it: source.params=<folder>",
        )
    return found[0] if found else None


def _bytes_of(path: Path) -> bytes:
    """The bytes of a file, or, of one that is too long to be settings, enough of them to see that."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ForeignFormatError(
            f"{path.name} beside the checkpoint cannot be read",
            expected="a readable file",
            found=error.strerror or str(error),
            fix="check the file and its disk, or do without: source.params=none",
        ) from None


def _read(path: Path) -> tuple[Mapping[str, Any], str]:
    data = _bytes_of(path)
    content = read_yaml(data, subject=path.name)
    if not isinstance(content, dict):
        raise ForeignFormatError(f"{path.name} holds no settings", expected="a mapping", found=type(content).__name__)
    return content, hashlib.sha256(data).hexdigest()


def inside(value: Any, *keys: str) -> Any:
    """What lies below some keys; None if that is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; () for anything else."""
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if is_list else ()


def real(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 else None


def reals(value: Any) -> tuple[float, ...] | None:
    """A list of finite numbers; None for anything else."""
    if not isinstance(value, list):
        return None
    numbers = [real(item) for item in value]
    return None if None in numbers else tuple(number for number in numbers if number is not None)
