"""Which of the typed overrides the task never looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser

from rlpipe.config.policies import falls_back
from rlpipe.pipeline.runner import resolve
from rlpipe.pipeline.settings import ASSEMBLE, RunSettings

# Config key -> the name that the tasks know it by, where the two differ. A bare group is the choice of an option.
_SETTINGS = {
    "policy_ids": "select.policy_ids",
    "artifact.path": "artifact_path",
    "artifact.if_exists": "artifact_if_exists",
    "artifact.names": "labels.names",
    "artifact.metadata": "labels.metadata",
    "module": "algorithm",
    "task.steps": "steps",
    "checkpoint": "checkpoint.backend",
    "source": "source.kind",
}
_ALWAYS = frozenset({"task", "experiment", "hydra", "checkpoints_dir"})
"""Choices that no task reads as such: they are the command itself, or where things are."""
_SPARED_BY = {"save": "source", "subset_restore": "base"}
"""Task -> the node whose path makes the configured policies needless."""


def unused(settings: RunSettings, overrides: Sequence[str]) -> tuple[str, ...]:
    """A warning for each override that the task, or none of its steps, uses."""
    tasks = (settings.task, *settings.steps)
    uses = frozenset(use for task in tasks for use in _uses(task, settings))
    found = []
    for key in _keys(overrides):
        if not _is_used(_setting(key), uses):
            found.append(f"{key} was given, but task={settings.task} does not use it")
        elif not _reaches_a_policy(key, settings):
            found.append(f"{key} was given, but every policy of this algorithm has its own")
    return tuple(found)


def _uses(task: str, settings: RunSettings) -> Iterator[str]:
    node = _SPARED_BY.get(task)
    is_spared = node is not None and (getattr(settings, node).path is not None or settings.source.kind == ASSEMBLE)
    return (use for use in resolve(task).USES if not (is_spared and use.partition(".")[0] == "algorithm"))


def _keys(overrides: Sequence[str]) -> Iterator[str]:
    parser = OverridesParser.create()
    for text in overrides:
        override = parser.parse_override(text)
        key = override.package or override.key_or_group
        if key.partition("/")[0] not in _ALWAYS and not override.is_hydra_override():
            yield key


def _setting(key: str) -> str:
    if key in _SETTINGS:
        return _SETTINGS[key]
    head, _, rest = key.partition(".")
    return f"{_SETTINGS[head]}.{rest}" if head == "module" else key


def _is_used(setting: str, uses: frozenset[str]) -> bool:
    return any(setting == use or setting.startswith(f"{use}.") or use.startswith(f"{setting}.") for use in uses)


def _reaches_a_policy(key: str, settings: RunSettings) -> bool:
    head, _, rest = key.partition(".")
    if head != "module":
        return True
    config = settings.provenance.config
    names = [rest.partition(".")[0]] if rest else list(config["module"])
    return any(falls_back(config, name) for name in names)
