"""From a composed config, as plain values, to the settings of a run; all faults in one error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from rlpipe.backends.backend import ids as backend_ids
from rlpipe.config.findings import Findings
from rlpipe.config.options import read_options
from rlpipe.config.policies import configured_classes, read_algorithm
from rlpipe.config.profiles import expanded
from rlpipe.config.schema import EXPORT_KEYS
from rlpipe.config.shape import shaped
from rlpipe.config.values import checked_id, choice, choices, described, integer, text, text_list
from rlpipe.errors import RlpipeError, closest
from rlpipe.exporters.labels import Labels, plain
from rlpipe.exporters.target import resolve as resolve_target
from rlpipe.exporters.target import target_ids
from rlpipe.importers.importer import ids as importer_ids
from rlpipe.pipeline.runner import task_names
from rlpipe.pipeline.settings import (
    AUTO,
    BaseSettings,
    CheckpointSettings,
    EvaluateSettings,
    ExportSettings,
    ProvenanceSettings,
    RestoreSettings,
    RunSettings,
    SelectSettings,
    SourceSettings,
    VerifySettings,
)
from rlpipe.policies.graph_options import EXTRAS, GraphOptions, Mode, Reach
from rlpipe.snapshot.ids import validate_policy_id
from rlpipe.snapshot.snapshot import Role

Node = Mapping[str, Any]
PLAIN = GraphOptions()
PIPELINE = "pipeline"
_WAYS: tuple[Literal["error", "replace"], ...] = ("error", "replace")
_ROLES: tuple[Role, ...] = ("inference", "training")
_DEVICE = re.compile(r"[a-z]+(:\d+)?")
_GLOB = re.compile(r"[*?\[]")


def read_settings(config: Node, *, overrides: Sequence[str] = (), out_dir: str | None = None) -> RunSettings:
    """The settings that a config stands for.

    Args:
        config: The composed config, resolved, as plain dicts and lists.
        overrides: The overrides as typed, for the record.
        out_dir: Directory of the run.

    Raises:
        ConfigError: With all that is wrong.
    """
    findings = Findings()
    settings = _settings(shaped(config, findings), overrides, out_dir, findings)
    findings.raise_if_any()
    return settings


def _settings(config: Node, overrides: Sequence[str], out_dir: str | None, findings: Findings) -> RunSettings:
    task = choice("task", config["task"]["name"], findings, among=task_names())
    steps = _steps(task, config, findings)
    trust = text_list("trust", config["trust"] or None, findings, of="class path patterns") or ()
    return RunSettings(
        task=task,
        steps=steps,
        source=_source(config["source"], findings),
        base=_base(config["base"], findings),
        checkpoint=_checkpoint(config["checkpoint"], findings),
        select=_select(config, findings),
        rename=_rename(config["rename"], findings),
        restore=_restore(config["restore"], findings),
        export=_export(config["export"], findings, is_needed="export" in (task, *steps)),
        artifact_path=text("artifact.path", config["artifact"]["path"], findings),
        labels=_labels(config["artifact"], findings),
        verify=VerifySettings(junit=text("verify.junit", config["verify"]["junit"], findings)),
        evaluate=_evaluate(config["evaluate"], findings),
        algorithm=read_algorithm(config, findings),
        trust=(*trust, *configured_classes(config)),
        env=text("env", config["env"], findings),
        out_dir=out_dir,
        checkpoints_dir=text("checkpoints_dir", config["checkpoints_dir"], findings) or "",
        provenance=ProvenanceSettings(overrides=tuple(overrides), config=config),
    )


def _steps(task: str, config: Node, findings: Findings) -> tuple[str, ...]:
    if task != PIPELINE:
        return ()
    among = [name for name in task_names() if name != PIPELINE]
    return choices("task.steps", config["task"]["steps"], findings, among=among, of="tasks") or ()


def _source(node: Node, findings: Findings) -> SourceSettings:
    return SourceSettings(
        kind=choice("source", node["kind"], findings, among=(AUTO, *importer_ids())),
        path=text("source.path", node["path"], findings),
        normalizer=text("source.normalizer", node["normalizer"], findings) or AUTO,
        policy_id=_id("source.policy_id", node["policy_id"], findings),
        filter_agent=_filter_agent(node["filter_agent"], findings),
    )


def _filter_agent(value: Mapping[str, Any], findings: Findings) -> dict[str, str]:
    found = {}
    for name, agent in value.items():
        # Agents may be numbered.
        given = str(agent) if type(agent) is int else text(f"source.filter_agent.{name}", agent, findings)
        if given is not None:
            found[str(name)] = given
    return found


def _base(node: Node, findings: Findings) -> BaseSettings:
    on_mismatch = choice("base.on_mismatch", node["on_mismatch"], findings, among=_WAYS)
    return BaseSettings(path=text("base.path", node["path"], findings), on_mismatch=on_mismatch)


def _checkpoint(node: Node, findings: Findings) -> CheckpointSettings:
    return CheckpointSettings(
        backend=choice("checkpoint", node["backend"], findings, among=backend_ids()),
        path=text("checkpoint.path", node["path"], findings),
        if_exists=choice("checkpoint.if_exists", node["if_exists"], findings, among=_WAYS),
        native_models=choices(
            "checkpoint.native_models", node["native_models"], findings, among=target_ids(), of="targets"
        )
        or (),
    )


def _select(config: Node, findings: Findings) -> SelectSettings:
    select = config["select"]
    policy_ids = text_list("policy_ids", config["policy_ids"], findings, of="policy ids")
    for policy_id in policy_ids or ():
        if policy_id and not _GLOB.search(policy_id):
            checked_id("policy_ids", policy_id, findings, check=validate_policy_id)
    return SelectSettings(
        policy_ids=policy_ids,
        roles=choices("select.roles", select["roles"], findings, among=_ROLES, of="roles"),
        keys=text_list("select.keys", select["keys"], findings, of="keys"),
        ties=choice("select.ties", select["ties"], findings, among=("keep", "untie")),
    )


def _rename(value: Any, findings: Findings) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        findings.add("rename", expected="a mapping of ids", found=described(value), fix="write 'rename={p1: p7}'")
        return {}
    # An old name may be one that cannot stand here: that is what it is renamed for.
    for name in (*(name for name in value if not isinstance(name, str) or not name), *value.values()):
        if isinstance(name, str):
            checked_id("rename", name, findings, check=validate_policy_id)
        else:
            findings.add("rename", expected="ids", found=described(name), fix="quote it: 'rename={p1: \"7\"}'")
    targets = [str(target) for target in value.values()]
    twice = sorted({target for target in targets if targets.count(target) > 1})
    if twice:
        found = f"{', '.join(twice)} more than once"
        findings.add("rename", expected="a different new id for each", found=found, fix="give each its own new id")
    return {str(old): str(new) for old, new in value.items()}


def _restore(node: Node, findings: Findings) -> RestoreSettings:
    device = node["device"]
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        expected, fix = "a device such as cpu, meta, cuda or cuda:1", "write restore.device=cpu"
        findings.add("restore.device", expected=expected, found=described(device), fix=fix)
    return RestoreSettings(device=device)


def _export(node: Node, findings: Findings, *, is_needed: bool) -> ExportSettings:
    targets = {}
    chosen = {name: options for name, options in node.items() if name not in EXPORT_KEYS}
    for target_id, options in chosen.items():
        key = f"export.{target_id}"
        if target_id not in target_ids():
            near = closest(str(target_id), target_ids())
            fix = f"did you mean export.{near[0]}?" if near else "leave it out"
            expected = f"one of {', '.join(target_ids())}"
            findings.add(key, expected=expected, found="a target that does not exist", fix=fix)
        elif not isinstance(options, Mapping) or options.get("id") != target_id:
            findings.add(
                key,
                expected="a target that is selected",
                found="options of one that is not",
                fix=f"select it: 'export=[{','.join(sorted(chosen))}]' {key}...",
            )
        else:
            cls = resolve_target(target_id).Options
            given = expanded(target_id, {name: value for name, value in options.items() if name != "id"}, cls, findings)
            targets[target_id] = read_options(key, given, cls, findings)
    if is_needed and not targets:
        known = ", ".join(target_ids())
        findings.add("export", expected=f"at least one of {known}", found="none", fix="write 'export=[onnx]'")
    require = choices("export.require", node.get("require"), findings, among=target_ids(), of="targets")
    wanted = node.get("require")
    if absent := sorted(
        {name for name in (wanted if isinstance(wanted, list) else []) if name in target_ids()} - set(chosen)
    ):
        fix = f"select it: 'export=[{','.join(sorted({*chosen, *absent}))}]'"
        findings.add("export.require", expected="targets that are selected", found=", ".join(absent), fix=fix)
    jobs = integer("export.jobs", node.get("jobs", 1), findings, least=1)
    return ExportSettings(targets=targets, jobs=jobs, require=require, graph=_graph(node, findings))


def _graph(node: Node, findings: Findings) -> GraphOptions:
    """What of a policy is exported."""
    mode = choice("export.mode", node.get("mode", PLAIN.mode), findings, among=get_args(Mode))
    action = choice("export.action", node.get("action", PLAIN.action), findings, among=get_args(Reach))
    wanted = node.get("outputs") or None
    outputs: Any = choices("export.outputs", wanted, findings, among=EXTRAS, of="outputs") or ()
    component = text("export.component", node.get("component"), findings)
    try:
        return GraphOptions(mode=mode, action=action, outputs=outputs, component=component)
    except RlpipeError as error:
        if mode and action:
            findings.add_error(error, key="export.component" if component else error.subject)
        return PLAIN


def _labels(node: Node, findings: Findings) -> Labels:
    names, metadata = node["names"] or {}, node["metadata"] or {}
    if not isinstance(names, Mapping):
        fix = "write artifact.names={obs: [x, v]}"
        findings.add("artifact.names", expected="tensor names with lists", found=described(names), fix=fix)
        names = {}
    if not isinstance(metadata, Mapping) or not plain(metadata):
        expected = "a mapping of texts, finite numbers, lists and mappings"
        fix = "write artifact.metadata={rate_hz: 50}"
        findings.add("artifact.metadata", expected=expected, found=described(metadata), fix=fix)
        metadata = {}
    read = {
        tensor: text_list(f"artifact.names.{tensor}", given, findings, of="names") for tensor, given in names.items()
    }
    return Labels(names={tensor: given or () for tensor, given in read.items()}, metadata=metadata)


def _evaluate(node: Node, findings: Findings) -> EvaluateSettings:
    steps = node["max_steps"]
    return EvaluateSettings(
        episodes=integer("evaluate.episodes", node["episodes"], findings, least=1),
        seed=integer("evaluate.seed", node["seed"], findings, least=0),
        max_steps=None if steps is None else integer("evaluate.max_steps", steps, findings, least=1),
    )


def _id(key: str, value: Any, findings: Findings) -> str | None:
    checked = text(key, value, findings)
    if checked:
        checked_id(key, checked, findings, check=validate_policy_id)
    return checked
