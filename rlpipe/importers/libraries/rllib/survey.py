"""What an RLlib directory is, of any layout, whether or not its policies can be imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.importer import Survey, SurveyedPart
from rlpipe.importers.libraries.rllib.constructors import plain_fields, read_constructor
from rlpipe.importers.libraries.rllib.files import PICKLE, state_file
from rlpipe.importers.libraries.rllib.folders import (
    ALGORITHM_STATE,
    MODULE_STATE,
    POLICY_STATE,
    Policies,
    components_in,
    facts_in,
    is_algorithm,
    is_component,
    oldest_file,
    policies_in,
)
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import load_file, loads

_NEWEST = 2
_OLDEST_VERSION = "0.1"
_NOT_READ = "-"
_FACTS = ("ray_version", "ray_commit")


def survey(path: Path, ids: Collection[str] | None = None) -> Survey:
    """What a directory is: kind, layout, components and ids; of policies only what names their class is opened.

    Args:
        path: The directory, or the file of layout 0.1.
        ids: Policies that may be opened; None: all.

    Raises:
        ForeignFormatError: A small file is broken.
        UnsafePayloadError: What builds a component cannot be read safely.
    """
    oldest = oldest_file(path)
    if oldest is not None:
        return Survey(
            kind="Algorithm",
            version=_OLDEST_VERSION,
            encoding=PICKLE,
            policy_ids=_oldest_ids(oldest),
            components=(SurveyedPart(path="", class_name="Algorithm", nbytes=oldest.stat().st_size),),
        )
    facts = facts_in(path)
    policies = policies_in(path)
    closed = {folder for name, folder in policies.folders.items() if ids is not None and name not in ids}
    return Survey(
        kind=_kind(path, facts),
        version=_version(path, facts),
        encoding=_encoding(path),
        policy_ids=tuple(sorted(policies.folders)),
        components=tuple(_components(path, policies, closed)),
        facts={name: value for name in _FACTS if isinstance(value := facts.get(name), str)},
    )


def require_known_layout(path: Path) -> None:
    """Check that the layout is not newer than what is known here.

    Raises:
        ForeignFormatError: It is.
    """
    version = _version(path, facts_in(path))
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) > _NEWEST:
        raise ForeignFormatError(
            f"{path.name} is of a layout of RLlib that is not known",
            expected=f"checkpoint_version 1.0 to {_NEWEST}.x",
            found=version[:40],
            fix="update rlpipe, or save the checkpoint with an older ray",
        )


def _kind(path: Path, facts: Mapping[str, Any]) -> str:
    if isinstance(kind := facts.get("type"), str):
        return kind
    if is_algorithm(path):
        return "Algorithm"
    return read_constructor(path).class_name if is_component(path) else "Policy"


def _version(path: Path, facts: Mapping[str, Any]) -> str:
    """As the file says it; else as the files that are there tell."""
    if isinstance(version := facts.get("checkpoint_version"), str):
        return version
    return "2.0" if is_component(path) else "1.0"


def _encoding(path: Path) -> str:
    stems = (ALGORITHM_STATE, POLICY_STATE, MODULE_STATE, "state")
    folders = (path, *policies_in(path).folders.values())
    return next((found[1] for folder in folders for stem in stems if (found := state_file(folder, stem))), "")


def _components(path: Path, policies: Policies, closed: Collection[Path]) -> Iterator[SurveyedPart]:
    """Components of layout 2; of the layouts before it the algorithm and its policies."""
    components = list(components_in(path))
    for name, folder in components:
        class_name = _NOT_READ if folder in closed else _class_name(folder)
        yield SurveyedPart(path=name, class_name=class_name, nbytes=_own_bytes(folder))
    if components:
        return
    if not policies.is_single:
        yield SurveyedPart(path="", class_name="Algorithm", nbytes=_own_bytes(path))
    for _, folder in sorted(policies.folders.items()):
        place = "" if policies.is_single else folder.relative_to(path).as_posix()
        yield SurveyedPart(path=place, class_name="Policy", nbytes=_own_bytes(folder))


def _class_name(folder: Path) -> str:
    try:
        return read_constructor(folder).class_name
    except (ForeignFormatError, UnsafePayloadError):
        return "unknown"


def _own_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def _oldest_ids(file: Path) -> tuple[str, ...]:
    """Ids in the pickle inside the pickle of layout 0.1; none where they cannot be read safely."""
    try:
        worker = plain_fields(load_file(file, known=KNOWN)).get("worker")
        if isinstance(worker, bytes):
            worker = loads(worker, subject=f"the worker of {file.name}", known=KNOWN)
    except UnsafePayloadError:
        return ()
    states = plain_fields(plain_fields(worker).get("state", plain_fields(worker).get("policy_states")))
    return tuple(sorted(map(str, states)))
