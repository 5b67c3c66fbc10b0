"""task=restore: build policies on a device from the checkpoint alone, and try them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from rlpipe.pipeline import tables
from rlpipe.pipeline.choose import completed, require_ids
from rlpipe.pipeline.inspect import facts_of_snapshot, untrained
from rlpipe.pipeline.lift import POLICIES, policies_of
from rlpipe.pipeline.live import build_policies, probe, spaces_of
from rlpipe.pipeline.locate import reading_path
from rlpipe.pipeline.outlook import Outlook
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import RunSettings
from rlpipe.pipeline.sources import Arrays, Source, open_source, read_tree
from rlpipe.snapshot.snapshot import Role, Snapshot, below

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy

USES = frozenset({"source", "checkpoint.path", "select", "restore.device", "trust"})
META = "meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPolicy:
    """One restored policy.

    Attributes:
        policy_id: Its id.
        module_class: Dotted path of its module's class.
        device: Where it is.
        restored: Keys of the entries that were restored.
        left: Keys that its source has and that were not chosen, with their roles.
        parameters: Numbers in what was restored.
        probe: What came of the probe forward.
        fingerprint: First digits of its inference hash.
    """

    policy_id: str
    module_class: str
    device: str
    restored: tuple[str, ...]
    left: Mapping[str, Role]
    parameters: int
    probe: str
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "policy_id": self.policy_id,
            "module_class": self.module_class,
            "device": self.device,
            "restored": list(self.restored),
            "not_restored": dict(self.left),
            "parameters": self.parameters,
            "probe": self.probe,
            "fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, kw_only=True)
class RestoreReport(Report):
    """What was restored and what was not.

    Attributes:
        device: The device.
        restored: One for each policy.
        left: Paths of components that were not chosen.
        policies: The live policies, by id; not part of the JSON.
    """

    task = "restore"
    device: str
    restored: tuple[RestoredPolicy, ...]
    left: tuple[str, ...]
    policies: Mapping[str, Policy] = field(repr=False, compare=False)

    def body(self) -> dict[str, Any]:
        """Keys by policy."""
        return {
            "device": self.device,
            "not_restored": list(self.left),
            "policies": [restored.to_json() for restored in self.restored],
        }

    def tables(self) -> Sequence[RenderableType]:
        """A row for each policy, then what was left."""
        rows = [
            (
                one.policy_id,
                one.module_class.rpartition(".")[2],
                one.device,
                len(one.restored),
                len(one.left),
                f"{one.parameters:,}",
                "keys fit" if one.device == META else "acts",
                one.fingerprint,
            )
            for one in self.restored
        ]
        columns = ("policy", "module", "device", "restored", "left", "parameters", "probe", "fingerprint")
        found = tables.table(*columns, rows=rows, right=("restored", "left", "parameters"))
        lines = [tables.line(f"not restored: {text}") for text in self._left()]
        return (found, *lines)

    def _left(self) -> list[str]:
        texts = [
            f"{one.policy_id}, {role}: {', '.join(_heads([key for key in one.left if one.left[key] == role]))}"
            for one in self.restored
            for role in sorted(set(one.left.values()))
        ]
        return texts + ([", ".join(self.left)] if self.left else [])


def run(settings: RunSettings, *, progress: Progress) -> RestoreReport:
    """Restore ``source.path`` to ``restore.device``.

    Raises:
        DeviceError: This machine lacks the device.
        RlpipeError: The source cannot be read, or the policies cannot be built.
    """
    source = open_source(settings, given=reading_path(settings))
    device = settings.restore.device
    tree = _tree(source, settings)
    policies = build_policies(tree.children[POLICIES], device=device, trust=settings.trust)
    restored = []
    with progress.bar(len(policies)) as step:
        for policy_id, snapshot in policies_of(tree).items():
            step(f"{policy_id} on {device}")
            restored.append(_row(policies[policy_id], snapshot, policy_id, source, settings))
    chosen = {below(POLICIES, policy_id) for policy_id in policies}
    everything = {below(POLICIES, policy_id) for policy_id in source.ids()}
    return RestoreReport(
        source=source.facts,
        notes=source.report.confirmed,
        warnings=(*source.notes, *_warnings(tree)),
        device=device,
        restored=tuple(restored),
        left=tuple(sorted(everything - chosen)),
        policies=policies,
    )


def check_ahead(settings: RunSettings, outlook: Outlook) -> None:
    """Check that this machine has the device.

    Raises:
        DeviceError: It lacks it.
    """
    from rlpipe.modules.torch.building import device_of

    del outlook
    device_of(settings.restore.device)


def _tree(source: Source, settings: RunSettings) -> Snapshot:
    """What is restored; without arrays for ``meta``."""
    arrays: Arrays = "none" if settings.restore.device == META else "verify"
    tree = completed(read_tree(source, settings.select, arrays=arrays, trust=settings.trust), settings.select)
    require_ids(policies_of(tree))
    return tree


def _row(policy: Policy, snapshot: Snapshot, policy_id: str, source: Source, settings: RunSettings) -> RestoredPolicy:
    on_meta = settings.restore.device == META
    facts = facts_of_snapshot(snapshot, name=policy_id)[0]
    everything = replace(settings.select, policy_ids=(policy_id,), roles=None, keys=None)
    whole = policies_of(read_tree(source, everything, arrays="none", trust=settings.trust))[policy_id]
    return RestoredPolicy(
        policy_id=policy_id,
        module_class=snapshot.spec.config["module"]["class"],
        device=settings.restore.device,
        restored=tuple(sorted(snapshot.roles)),
        left={key: role for key, role in whole.roles.items() if key not in snapshot.roles},
        parameters=sum(facts.role(role).parameters for role in ("inference", "training")),
        probe="keys and shapes fit" if on_meta else probe(policy, spaces_of(snapshot), policy_id=policy_id),
        fingerprint=facts.fingerprint,
    )


def _warnings(tree: Snapshot) -> Sequence[str]:
    return untrained(name for name, policy in policies_of(tree).items() if policy.metadata.get("trained") is False)


def _heads(keys: Sequence[str]) -> list[str]:
    """The first names of keys, each once, with how many keys are below."""
    names = [key.partition("/")[0] for key in keys]
    return [f"{name} ({names.count(name)})" for name in sorted(set(names))]
