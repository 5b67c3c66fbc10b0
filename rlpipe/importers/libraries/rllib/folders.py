"""Where things lie in RLlib's directories, told by the names of files alone: no file is opened but small JSON.

Layouts (ray/rllib/utils/checkpoints.py): 0.1, a file `checkpoint-<n>`; 1.0 to 1.2, `algorithm_state.pkl` and
`policies/<id>/policy_state.pkl`; 2.0 and 2.1, every component a directory of its own with `class_and_ctor_args.pkl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlpipe.importers.libraries.rllib.files import read_json, state_file

MARK, ARGS, METADATA = "rllib_checkpoint.json", "class_and_ctor_args.pkl", "metadata.json"
MODULE_STATE, POLICY_STATE, ALGORITHM_STATE = "module_state", "policy_state", "algorithm_state"
POLICIES, RUNNER, CONNECTORS = "policies", "env_runner", "env_to_module_connector"
_WAYS_TO_MODULES = ("learner_group/learner/rl_module", "learner/rl_module", "rl_module", "", "env_runner/rl_module")
"""From an algorithm, its learner group, a learner, the modules themselves; runners keep what acts of one module."""

_OLDEST = re.compile(r"checkpoint[-_]\d+")
_DEEPEST = 5
_HEAD = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of a directory.

    Attributes:
        folders: Id -> directory.
        is_old: They are of the old stack: `policy_state`, not `module_state`.
        is_single: The directory itself is the policy, whose id is not known inside it.
        strays: Names beside the policies that are none.
    """

    folders: Mapping[str, Path]
    is_old: bool = False
    is_single: bool = False
    strays: tuple[str, ...] = ()


def is_rllib(path: Path) -> bool:
    """Whether a directory is an RLlib checkpoint of any layout, or a component of one."""
    return path.is_dir() and (
        is_component(path)
        or (path / MARK).is_file()
        or any(state_file(path, stem) for stem in (ALGORITHM_STATE, POLICY_STATE))
        or oldest_file(path) is not None
        or any(is_component(path / way) for way in _WAYS_TO_MODULES if way)
    )


def is_component(path: Path) -> bool:
    """Whether a directory is a component of layout 2: what builds it, and a state or facts beside that."""
    return (path / ARGS).is_file() and (
        (path / METADATA).is_file() or any(state_file(path, stem) for stem in ("state", MODULE_STATE, ALGORITHM_STATE))
    )


def oldest_file(path: Path) -> Path | None:
    """The file of layout 0.1 in a directory, or the path itself if it is named as one."""
    if path.is_file():
        return path if _OLDEST.fullmatch(path.name) else None
    files = sorted(child for child in path.iterdir() if child.is_file() and _OLDEST.fullmatch(child.name))
    return files[0] if files else None


def is_oldest(path: Path) -> bool:
    """Whether a file is a checkpoint of layout 0.1: named as one, and a pickle with the state of a worker."""
    if not path.is_file() or not _OLDEST.fullmatch(path.name):
        return False
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    return head[:1] in (b"\x80", b"(") and b"worker" in head


def policies_in(path: Path) -> Policies:
    """The policies of a directory; none of their files is opened."""
    if state_file(path, POLICY_STATE):
        return Policies(folders={path.resolve().name: path}, is_old=True, is_single=True)
    if (path / POLICIES).is_dir() and not (path / _WAYS_TO_MODULES[0]).is_dir():
        return _policies(path / POLICIES, POLICY_STATE, is_old=True)
    for way in _WAYS_TO_MODULES:
        folder = path / way
        if not folder.is_dir() or (way == "" and is_algorithm(path)):
            continue
        found = _policies(folder, MODULE_STATE, is_old=False)
        if found.folders:
            return found
        if state_file(folder, MODULE_STATE):
            return Policies(folders={folder.resolve().name: folder}, is_single=True)
    return Policies(folders={})


def root_of(path: Path) -> Path | None:
    """The algorithm that a directory is in, or itself; None for a part that stands alone."""
    path = path.resolve()
    for place in (path, *list(path.parents)[:_DEEPEST]):
        if is_algorithm(place):
            return place
    return None


def runner_of(path: Path) -> Path | None:
    """The env runner whose connectors stand around a module: of the algorithm that it is in, or the one it is in."""
    path = path.resolve()
    for place in (path, *list(path.parents)[:_DEEPEST]):
        if (place / CONNECTORS).is_dir():
            return place
        if is_algorithm(place):
            return place / RUNNER
    return None


def is_algorithm(path: Path) -> bool:
    """Whether a directory is a whole algorithm, of any layout after the first."""
    return state_file(path, ALGORITHM_STATE) is not None or (path / RUNNER).is_dir()


def components_in(path: Path) -> Iterator[tuple[str, Path]]:
    """(path from the directory, directory) of every component of layout 2 in it, parents first."""
    for place in sorted({file.parent for file in path.rglob(ARGS)}):
        if is_component(place):
            yield "" if place == path else place.relative_to(path).as_posix(), place


def facts_in(path: Path) -> Mapping[str, object]:
    """What the small JSON files of a directory say; {} where there are none.

    Raises:
        ForeignFormatError: One of them is broken.
    """
    return {**read_json(path / METADATA), **read_json(path / MARK)}


def version_of(path: Path) -> str:
    """The version of ray that wrote a directory, or "unknown".

    Raises:
        ForeignFormatError: A small file is broken.
    """
    version = facts_in(path).get("ray_version")
    return version if isinstance(version, str) else "unknown"


def _policies(folder: Path, stem: str, *, is_old: bool) -> Policies:
    found = {
        file.parent.relative_to(folder).as_posix(): file.parent
        for file in sorted(folder.rglob(f"{stem}.*"))
        if file.parent != folder and state_file(file.parent, stem)
    }
    inside = {policy_id.partition("/")[0] for policy_id in found}
    known = {ARGS, METADATA, *(file.name for file in folder.glob(f"{stem}.*"))}
    strays = {child.name for child in folder.iterdir()} - inside - known if found else set()
    return Policies(folders=found, is_old=is_old, strays=tuple(sorted(strays)))
