"""Where checkpoints come from and where they go: the nodes ``source``, ``checkpoint`` and ``verify``."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal

from rlpipe.backends.backend import ids as backend_ids
from rlpipe.checkpoint.authenticity import require_sha256
from rlpipe.checkpoint.choose import Goal
from rlpipe.checkpoint.retention import Retention
from rlpipe.config.findings import Findings
from rlpipe.config.source_hints import read_hints
from rlpipe.config.values import checked_id, choice, choices, described, integer, text
from rlpipe.errors import ConfigError, closest
from rlpipe.exporters.target import target_ids
from rlpipe.importers.importer import ids as importer_ids
from rlpipe.pipeline.settings import ASSEMBLE, AUTO, SHOW, CheckpointSettings, SourceSettings, VerifySettings
from rlpipe.snapshot.ids import validate_policy_id

Node = Mapping[str, Any]
_WAYS: tuple[Literal["error", "replace"], ...] = ("error", "replace")
_DURABILITIES: tuple[Literal["fsync", "none"], ...] = ("fsync", "none")
_GOALS: tuple[Goal, ...] = ("max", "min")
_LEARNERS: tuple[Literal["leave", "copy"], ...] = ("leave", "copy")
_CHOICES: tuple[Literal["latest", "best"], ...] = ("latest", "best")


def read_source(node: Node, findings: Findings) -> SourceSettings:
    """The node ``source``."""
    return SourceSettings(
        kind=choice("source", node["kind"], findings, among=(AUTO, ASSEMBLE, *importer_ids())),
        path=text("source.path", node["path"], findings),
        which=_which(node["which"], findings),
        goal=choice("source.goal", node["goal"], findings, among=_GOALS),
        normalizer=text("source.normalizer", node["normalizer"], findings) or AUTO,
        policy_id=_id("source.policy_id", node["policy_id"], findings),
        hints=read_hints(node, findings),
        policies=_policies(node, findings),
        learner=choice("source.learner", node["learner"], findings, among=_LEARNERS),
    )


def _policies(node: Node, findings: Findings) -> dict[str, str]:
    given = node["policies"]
    if given and node["kind"] != ASSEMBLE:
        expected, fix = "policies for source=assemble alone", "write source=assemble"
        findings.add("source.policies", expected=expected, found=f"policies for source={node['kind']}", fix=fix)
    for policy_id in given:
        checked_id("source.policies", str(policy_id), findings, check=validate_policy_id)
    return {str(name): text(f"source.policies.{name}", path, findings) or "" for name, path in given.items()}


def read_checkpoint(node: Node, findings: Findings) -> CheckpointSettings:
    """The node ``checkpoint``."""
    return CheckpointSettings(
        backend=choice("checkpoint", node["backend"], findings, among=backend_ids()),
        path=text("checkpoint.path", node["path"], findings),
        if_exists=choice("checkpoint.if_exists", node["if_exists"], findings, among=_WAYS),
        durability=choice("checkpoint.durability", node["durability"], findings, among=_DURABILITIES),
        step=_number("checkpoint.step", node["step"], findings, least=0),
        score=_score(node["score"], findings),
        retention=_retention(node, findings),
        native_models=choices(
            "checkpoint.native_models", node["native_models"], findings, among=target_ids(), of="targets"
        )
        or (),
    )


def read_verify(node: Node, findings: Findings) -> VerifySettings:
    """The node ``verify``."""
    sha256 = node["sha256"]
    if sha256 not in (None, SHOW) and not _is_sha256(sha256):
        expected = "64 hex digits, or show"
        fix = (
            "verify.sha256=show tells the number; one of decimal digits alone has to be quoted: 'verify.sha256=\"...\"'"
        )
        findings.add("verify.sha256", expected=expected, found=described(sha256)[:80], fix=fix)
    return VerifySettings(junit=text("verify.junit", node["junit"], findings), sha256=sha256)


def _is_sha256(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        require_sha256(value)
    except ConfigError:
        return False
    return True


def _retention(node: Node, findings: Findings) -> Retention:
    every = _number("checkpoint.keep_every", node["keep_every"], findings, least=1)
    if every is not None and node["step"] is None:
        findings.add(
            "checkpoint.keep_every",
            expected="checkpoint.step: the step that this checkpoint is of",
            found="no step, so that of all checkpoints like it only the last would stay",
            fix=f"write checkpoint.keep_every={every} checkpoint.step=..., or use checkpoint.keep_last",
        )
    return Retention(
        keep_last=_number("checkpoint.keep_last", node["keep_last"], findings, least=1),
        keep_every=every,
        keep_best=integer("checkpoint.keep_best", node["keep_best"], findings, least=0),
        goal=choice("checkpoint.goal", node["goal"], findings, among=_GOALS),
    )


def _score(value: Any, findings: Findings) -> float | None:
    if value is not None and not isfinite(value):
        fix = "leave checkpoint.score out as long as there is none"
        findings.add("checkpoint.score", expected="a finite number", found=described(value), fix=fix)
        return None
    return value


def _which(value: Any, findings: Findings) -> Literal["latest", "best"] | int | None:
    if value is None or value in _CHOICES:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    expected = "latest, best, or a step such as 20000"
    near = closest(str(value), _CHOICES)
    fix = f"did you mean source.which={near[0]}?" if near else "write source.which=latest"
    findings.add("source.which", expected=expected, found=described(value), fix=fix)
    return None


def _number(key: str, value: int | None, findings: Findings, *, least: int) -> int | None:
    return None if value is None else integer(key, value, findings, least=least)


def _id(key: str, value: Any, findings: Findings) -> str | None:
    checked = text(key, value, findings)
    if checked:
        checked_id(key, checked, findings, check=validate_policy_id)
    return checked
