"""Which code and which config made a checkpoint or an artifact: versions, overrides, config, git.

Nothing here says who or where: absolute paths become relative to the working directory or, outside of it, a base name
with the first digits of the content's SHA-256. So do URLs, which may name hosts, users and buckets.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from rlpipe import __version__
from rlpipe.backends.remote import Url, is_url
from rlpipe.checkpoint.format import MANIFEST_NAME, MAX_MANIFEST_SIZE
from rlpipe.checkpoint.place import place_of
from rlpipe.errors import RlpipeError

if TYPE_CHECKING:
    from rlpipe.pipeline.settings import RunSettings

PACKAGES = ("numpy", "torch", "h5py", "onnx", "onnxruntime", "onnxscript", "gymnasium", "hydra-core")
GIT_SECONDS = 5.0
HASH_DIGITS = 12
_PATH_KEYS = frozenset({"path", "normalizer", "params", "checkpoints_dir"})
# An absolute path (POSIX, Windows, home) inside a longer text: behind a character that begins a value in an override,
# up to one that ends it. A slash behind any other character is inside a name, as in `100%/a`.
_EMBEDDED_PATH = re.compile(r"(?:^|(?<=[\s,;:=|&<>'\"`\[{(]))(?:~[\\/]|/|[A-Za-z]:[\\/]|\\\\)[^\s,;'\"\[\]{}()=]+")

_EMBEDDED_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s,;'\"\[\]{}()]+")


def provenance(settings: RunSettings) -> dict[str, Any]:
    """The block that is stored in the root of a checkpoint and in every artifact; plain JSON.

    Returns:
        ``task``, ``versions``, ``platform``, ``overrides``, ``config``, ``config_sha256`` and ``git``.
    """
    config = relative_paths(settings.provenance.config)
    return {
        "task": settings.task,
        "versions": versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "overrides": [_relative_override(override) for override in settings.provenance.overrides],
        "config": config,
        "config_sha256": hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        "git": git_facts(_code_directory()),
    }


def versions() -> dict[str, str]:
    """Versions of rlpipe, Python and what is installed of the packages that matter, without importing one of them."""
    found = {"rlpipe": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def relative_paths(value: Any) -> Any:
    """A copy of a JSON value in which no string holds an absolute path."""
    if isinstance(value, str):
        return _relative_text(value)
    if isinstance(value, Mapping):
        return {str(key): _relative_value(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [relative_paths(item) for item in value]
    return value


def git_facts(directory: Path) -> dict[str, Any]:
    """``{"commit": 40 hex digits, "dirty": bool}`` of the repository around ``directory``, or why there are none."""
    try:
        commit = _git(directory, "rev-parse", "HEAD")
        status = _git(directory, "--no-optional-locks", "status", "--porcelain")
    except FileNotFoundError:
        return {"available": False, "reason": "git is not installed"}
    except subprocess.TimeoutExpired:
        return {"available": False, "reason": f"git took longer than {GIT_SECONDS:g} s"}
    except (subprocess.CalledProcessError, OSError):
        # git's own message names directories, so it is not recorded
        return {"available": False, "reason": "not a readable git repository with a commit"}
    return {"available": True, "commit": commit, "dirty": status != ""}


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=GIT_SECONDS)
    return done.stdout.strip()


def _code_directory() -> Path:
    """The checkout this code runs from, or, when it is installed, the directory of the run and its configs."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "conf" / "config.yaml").is_file() else Path.cwd()


def _relative_value(key: str, value: Any) -> Any:
    """The value of a key; where that holds one path, a relative one is kept, whatever characters are in it."""
    is_path = key.rpartition(".")[2] in _PATH_KEYS and isinstance(value, str)
    if is_path and is_url(value):
        return _relative_url(value)
    return value if is_path and not _leaves_directory(value) else relative_paths(value)


def _relative_override(override: str) -> str:
    key, sign, value = override.partition("=")
    if is_url(value):
        return f"{key}{sign}{_relative_value(key, value)}"
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return f"{key}{sign}{value[0]}{_relative_value(key, value[1:-1])}{value[-1]}"
    return f"{key}{sign}{_relative_text(value)}"


def _relative_text(text: str) -> str:
    if _leaves_directory(text):
        return _relative_path(text)
    text = _EMBEDDED_URL.sub(lambda match: _base_name(match[0]), text)
    return _EMBEDDED_PATH.sub(lambda match: _relative_path(match[0]), text)


def _leaves_directory(text: str) -> bool:
    """Whether the whole text is a path that is absolute, of a home, or climbs out by ``..``."""
    if "\n" in text or text in {"", "/"}:
        return False
    path = PurePosixPath(text)
    absolute = path.is_absolute() or PureWindowsPath(text).is_absolute() or text.startswith("~")
    return absolute or path.parts[:1] == ("..",)


def _relative_path(text: str) -> str:
    path = Path(text).expanduser()
    if PureWindowsPath(text).is_absolute() and not path.is_absolute():
        return PureWindowsPath(text).name
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        digest = _content_digest(path)
        return f"{path.name}@sha256:{digest}" if digest else path.name


def _relative_url(text: str) -> str:
    try:
        place = place_of(text)
        if not isinstance(place, Url):
            return _relative_path(str(place))
        manifest = (place / MANIFEST_NAME).read(0, MAX_MANIFEST_SIZE)
    except (RlpipeError, OSError):  # no checkpoint there, not yet, or none that this run can reach
        return _base_name(text)
    return f"{place.name}@sha256:{hashlib.sha256(manifest).hexdigest()[:HASH_DIGITS]}"


def _base_name(url: str) -> str:
    """The last part of a URL's path; of a host or bucket alone only the scheme."""
    scheme, _, rest = url.partition("://")
    return rest.rstrip("/").rpartition("/")[2] if "/" in rest.rstrip("/") else scheme


def _content_digest(path: Path) -> str | None:
    """First digits of the SHA-256 of a file, or of a checkpoint's manifest; None for anything else."""
    candidate = path / MANIFEST_NAME if path.is_dir() else path
    if not candidate.is_file():
        return None
    with candidate.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:HASH_DIGITS]
