"""Arguments of the plain functions, checked like the config of a command: a wrong one ends them before they begin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from rlpipe.checkpoint.authenticity import require_sha256
from rlpipe.errors import ConfigError, closest, listed
from rlpipe.exporters.labels import Labels, plain
from rlpipe.pipeline.settings import SHOW, ExportSettings, SelectSettings, SourceSettings
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.snapshot import ROLES, Role
from rlpipe.snapshot.texts import require_texts

Path: TypeAlias = str | os.PathLike[str]
Roles: TypeAlias = Sequence[Literal["inference", "training"]]
Name = TypeVar("Name", bound=str)


def read_sha256(value: str | None) -> str | None:
    """A SHA-256, or the word that asks for it."""
    return value if value in (None, SHOW) else require_sha256(value)


def read_source(
    source: Path, normalizer: str, policy_id: str | None, hints: Mapping[str, Any] | None
) -> SourceSettings:
    """Where policies come from.

    Raises:
        IdError: The id can name no policy.
    """
    if policy_id is not None:
        validate_policy_id(policy_id)
    return SourceSettings(
        path=os.fspath(source),
        normalizer=os.fspath(normalizer),
        policy_id=policy_id,
        hints={name: tuple(value) if isinstance(value, list) else value for name, value in (hints or {}).items()},
    )


def read_select(policy_ids: Sequence[str] | None, roles: Roles | None) -> SelectSettings:
    """What is taken of it."""
    return SelectSettings(
        policy_ids=None if policy_ids is None else require_texts("policy_ids", policy_ids, of="policy ids"),
        roles=None if roles is None else _roles(roles),
    )


def _roles(roles: Roles) -> tuple[Role, ...]:
    texts = require_texts("roles", roles, of="roles")
    return tuple(read_choice("roles", text, among=ROLES) for text in texts)


def read_choice(name: str, value: object, *, among: Sequence[Name]) -> Name:
    """One of some names.

    Raises:
        ConfigError: It is none of them.
    """
    for known in among:
        if value == known:
            return known
    near = closest(str(value), among)
    fix = f"did you mean {near[0]!r}?" if near else f"choose one, such as {among[0]!r}"
    raise ConfigError(name, expected=f"one of {listed(among)}", found=repr(value), fix=fix)


def read_rename(rename: Mapping[str, str] | None) -> dict[str, str]:
    """Policy ids of the source -> ids in the result."""
    if not isinstance(rename, Mapping | None):
        fix = "write rename={'p1': 'p7'}"
        raise ConfigError("rename", expected="a mapping of ids", found=repr(rename), fix=fix)
    for name in (rename or {}).values():
        validate_policy_id(name)
    return dict(rename or {})


def read_trust(trust: Sequence[str]) -> tuple[str, ...]:
    """Patterns of class paths."""
    return () if trust in ((), []) else require_texts("trust", trust, of="class path patterns")


def read_native_models(targets: Sequence[str]) -> tuple[str, ...]:
    """Ids of targets, each one that there is."""
    from rlpipe.exporters.target import target_ids

    wanted = () if targets in ((), []) else require_texts("native_models", targets, of="targets")
    return tuple(read_choice("native_models", target_id, among=target_ids()) for target_id in wanted)


def read_targets(targets: Sequence[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    """Target id -> its options: defaults for a list of ids."""
    from rlpipe.exporters.target import resolve

    ids = require_texts("targets", tuple(targets) if isinstance(targets, Mapping) else targets, of="targets")
    found = {target_id: resolve(target_id) for target_id in ids}
    if not isinstance(targets, Mapping):
        return {target_id: target.Options() for target_id, target in found.items()}
    for target_id, target in found.items():
        _require_options(target_id, targets[target_id], target.Options)
    return dict(targets)


def read_export(targets: Mapping[str, Any], jobs: int, require: Sequence[str] | None) -> ExportSettings:
    """How policies are exported."""
    if type(jobs) is not int or jobs < 1:
        raise ConfigError("jobs", expected="a whole number, 1 or more", found=repr(jobs), fix="jobs=2")
    wanted = None if require is None else require_texts("require", require, of="targets")
    for target_id in wanted or ():
        read_choice("require", target_id, among=tuple(targets))
    return ExportSettings(targets=targets, jobs=jobs, require=wanted)


def read_labels(labels: Labels | None) -> Labels:
    """What is said about artifacts.

    Raises:
        ConfigError: They are no labels, or hold what JSON cannot.
    """
    if labels is None:
        return Labels()
    if not isinstance(labels, Labels):
        fix = "from rlpipe.exporters.labels import Labels"
        raise ConfigError("labels", expected="rlpipe.exporters.labels.Labels", found=repr(labels)[:80], fix=fix)
    if not plain(labels.metadata):
        fix = "write texts, numbers, lists and dicts; None for what is not known"
        raise ConfigError("labels.metadata", expected="plain JSON", found=repr(labels.metadata)[:80], fix=fix)
    return labels


def _require_options(target_id: str, options: Any, expected: type[Any]) -> None:
    if not isinstance(options, expected):
        module = f"{expected.__module__}.{expected.__qualname__}"
        fix = f"from {expected.__module__} import {expected.__qualname__}"
        raise ConfigError(f"targets[{target_id!r}]", expected=f"{module}", found=repr(options), fix=fix)
