"""task=info: what is in a checkpoint, component directory, foreign file or artifact folder; no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from rlpipe.backends import resolve
from rlpipe.backends.remote import Url
from rlpipe.checkpoint.identical import identical_among, identical_note
from rlpipe.checkpoint.inspect import ComponentInfo, inspect_checkpoint
from rlpipe.checkpoint.place import own_name
from rlpipe.pipeline import tables
from rlpipe.pipeline.choose import chosen_ids, entry_selection, policy_selection
from rlpipe.pipeline.foreign_folder import FolderSource
from rlpipe.pipeline.inspect import ComponentFacts, facts_of_checkpoint, facts_of_snapshot, short, warnings_of
from rlpipe.pipeline.lift import POLICIES, kind_of, policies_of
from rlpipe.pipeline.locate import ARTIFACT, CHECKPOINT, Located, locate, reading_path
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import Report
from rlpipe.pipeline.settings import RunSettings, SelectSettings
from rlpipe.pipeline.sources import foreign_source, read_tree
from rlpipe.snapshot.selection import Selection
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot

USES = frozenset({"source", "checkpoint.path", "select"})
READS_ARTIFACTS = True
MANY = 12
"""More policies than this are listed in one table only; the details of each are in result.json."""


@dataclass(frozen=True, kw_only=True)
class InfoReport(Report):
    """What there is.

    Attributes:
        policy_ids: The ids of the policies.
        components: All components, parents first.
        format_version: Of a checkpoint; None for anything else.
        created: When a checkpoint was written, UTC; None where that is not recorded.
        provenance: How it came to be, as recorded.
        imported: Names that an importer took, of a foreign file.
        skipped: (name, why) of what it left.
        layout: What a foreign directory is, in its library's words; empty for anything else.
        identical: Policies whose weights are the same.
    """

    task = "info"
    policy_ids: tuple[str, ...]
    components: tuple[ComponentFacts, ...]
    format_version: int | None = None
    created: str | None = None
    provenance: dict[str, Any]
    imported: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    layout: dict[str, Any] = field(default_factory=dict)
    identical: tuple[tuple[str, ...], ...] = ()

    def body(self) -> dict[str, Any]:
        """Everything, arrays included."""
        return {
            "format_version": self.format_version,
            "created": self.created,
            "policy_ids": list(self.policy_ids),
            "components": [facts.to_json() for facts in self.components],
            "provenance": self.provenance,
            "imported": list(self.imported),
            "skipped": [list(pair) for pair in self.skipped],
            "layout": self.layout,
            "identical": [list(group) for group in self.identical],
        }

    def tables(self) -> Sequence[RenderableType]:
        """The tree of components, then what each policy is, then the arrays where there is but one policy."""
        shown = [facts for facts in self.components if facts.kind in ("policy", "module") and not facts.is_copy]
        parts: list[RenderableType] = [tables.facts(self._head())]
        parts += ["", _layout(self.layout)] if self.layout else []
        parts += ["", _tree(self.components)] if self.components else []
        if len(shown) <= MANY:
            parts += [part for facts in shown for part in ("", *_policy(facts))]
        else:
            parts += ["", tables.line(f"{len(shown)} policies: choose some with policy_ids to see what they are")]
        if self.components and (len(self.components) == 1 or len(shown) == 1):
            parts += ["", _arrays(shown[0] if shown else self.components[0])]
        return [*parts, *tables.left_in_file(self.skipped)]

    def _head(self) -> Iterator[tuple[str, object]]:
        if self.format_version is not None:
            yield "format version", self.format_version
        if self.created:
            yield "written", self.created
        if backends := sorted({facts.backend for facts in self.components if facts.backend}):
            yield "backend", ", ".join(backends)
        yield from _origin(self.provenance)
        for name in _LAYOUT:
            if name in self.layout:
                yield name.replace("_", " "), self.layout[name] or "-"
        if self.policy_ids:
            yield "policies", ", ".join(self.policy_ids)


def run(settings: RunSettings, *, progress: Progress) -> Report:
    """Describe ``source.path``.

    Raises:
        RlpipeError: There is nothing there, or it cannot be read.
    """
    del progress
    located = locate(settings, given=reading_path(settings))
    return describe(located, settings)


def describe(located: Located, settings: RunSettings) -> Report:
    """What lies at a located path."""
    if located.kind == CHECKPOINT:
        return _describe_checkpoint(located, settings)
    if located.kind == ARTIFACT:
        from rlpipe.pipeline.artifacts import describe_artifacts

        return describe_artifacts(located, settings.select)
    return _describe_foreign(located, settings)


def _describe_checkpoint(located: Located, settings: RunSettings) -> InfoReport:
    root = inspect_checkpoint(located.path)
    ids, selection = _selection(root, settings.select, settings.source.policy_id)
    components = facts_of_checkpoint(root, selection)
    identical = identical_among(root, {facts.path for facts in components})
    return InfoReport(
        source=located.facts,
        notes=tuple(map(identical_note, identical)),
        warnings=(*located.notes, *root.notes, *_misfits(root, selection), *warnings_of(components)),
        policy_ids=ids,
        components=components,
        format_version=root.version,
        created=root.created,
        provenance=dict(root.provenance),
        identical=identical,
    )


def _misfits(root: ComponentInfo, selection: Selection) -> Iterator[str]:
    """What the sizes of the array files alone show to be damaged; nothing is opened, and no store is asked."""
    for info in root.walk():
        if info.backend is None or not selection.takes_component(info.path) or isinstance(info.directory, Url):
            continue
        file = info.directory / resolve(info.backend).file_name
        found = f"has {file.stat().st_size} bytes" if file.is_file() else "is missing"
        if found != f"has {info.file_size} bytes":
            yield f"{file} {found}, where its manifest names {info.file_size} bytes; task=verify lists all damage"


def _selection(root: ComponentInfo, chosen: SelectSettings, policy_id: str | None) -> tuple[tuple[str, ...], Selection]:
    """The chosen policy ids, and what that selects below the root."""
    kind = kind_of(root.spec, root.children)
    if kind == "algorithm":
        known = root.children[POLICIES].children
        return chosen_ids(chosen.policy_ids, known), policy_selection(chosen, known, under=POLICIES)
    if kind == "container":
        return chosen_ids(chosen.policy_ids, root.children), policy_selection(chosen, root.children, under="")
    own = (policy_id or own_name(root.directory),) if kind in ("policy", "module") else ()
    return chosen_ids(chosen.policy_ids, own), entry_selection(chosen)


def _describe_foreign(located: Located, settings: RunSettings) -> InfoReport:
    source = foreign_source(located, settings.source)
    if isinstance(source, FolderSource):
        return _describe_folder(source, settings.select)
    policies = policies_of(read_tree(source, settings.select))
    components = tuple(_facts_of(policies))
    return InfoReport(
        source=located.facts,
        notes=source.report.confirmed,
        warnings=(*source.notes, *warnings_of(components)),
        policy_ids=tuple(policies),
        components=components,
        provenance={},
        imported=source.report.imported,
        skipped=source.report.skipped,
    )


def _describe_folder(source: FolderSource, chosen: SelectSettings) -> InfoReport:
    """A foreign directory: what it is, and of its policies those that can be imported, with why the others cannot."""
    survey = source.survey(chosen)
    refused = source.refusals(chosen)
    ids = chosen_ids(chosen.policy_ids, source.ids())
    readable = tuple(policy_id for policy_id in ids if policy_id not in refused)
    tree = read_tree(source, replace(chosen, policy_ids=readable)) if readable else None
    components = tuple(_facts_of({} if tree is None else policies_of(tree)))
    reasons = (
        f"{policy_id} cannot be imported: {' '.join(str(error).split())}" for policy_id, error in refused.items()
    )
    return InfoReport(
        source=source.facts,
        notes=source.report.confirmed,
        warnings=(*reasons, *source.id_notes(), *source.notes, *warnings_of(components)),
        policy_ids=ids,
        components=components,
        provenance={},
        layout=survey.to_json(),
        imported=source.report.imported,
        skipped=source.report.skipped,
    )


def _facts_of(policies: Mapping[str, Snapshot]) -> Iterator[ComponentFacts]:
    for policy_id in policies:
        yield from facts_of_snapshot(policies[policy_id], name=policy_id)


def _origin(provenance: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Who made it, in a few words."""
    versions = provenance.get("versions", {})
    if "rlpipe" in versions:
        yield "made by", f"rlpipe {versions['rlpipe']}, task={provenance.get('task', '?')}"
    git = provenance.get("git", {})
    if git.get("available"):
        yield "git", f"{git['commit'][:8]}{' with changes' if git['dirty'] else ''}"


def _layout(layout: dict[str, Any]) -> RenderableType:
    rows = [(part["path"] or ".", part["class"], tables.size(part["bytes"])) for part in layout["components"]]
    return tables.table("part", "class there", "bytes", rows=rows, right=("bytes",))


_LAYOUT = ("type", "checkpoint_version", "format", "ray_version")


def _tree(components: Sequence[ComponentFacts]) -> RenderableType:
    root = components[0].path.count("/")
    rows = [
        (
            f"{'  ' * (facts.path.count('/') - root + bool(facts.path))}{facts.name or '.'}",
            facts.spec.class_path.rpartition(".")[2],
            *(f"{facts.role(role).parameters:,}" for role in ROLES),
            tables.size(sum(facts.role(role).nbytes for role in ROLES)),
            facts.fingerprint,
        )
        for facts in components
    ]
    columns = ("component", "class", *ROLES, "bytes", "fingerprint")
    return tables.table(*columns, rows=rows, right=(*ROLES, "bytes"))


def _amount(facts: ComponentFacts, role: Role) -> str:
    amount = facts.role(role)
    arrays, numbers = tables.count(amount.arrays, "array"), tables.count(amount.parameters, "parameter")
    return f"{arrays}, {numbers}, {tables.size(amount.nbytes)}"


def _policy(facts: ComponentFacts) -> Sequence[RenderableType]:
    policy = facts.policy()
    if policy is None:
        return ()
    pairs: list[tuple[str, object]] = [("module", policy.module_class)]
    pairs += [("observations", policy.observation_space), ("actions", policy.action_space)]
    pairs += [("obs stages", " > ".join(policy.observation) or "none")]
    pairs += [("action stages", " > ".join(policy.action) or "none")]
    pairs += [("target stages", " > ".join(policy.target))] if policy.target else []
    pairs += [("memory", _text(dict(policy.memory)))] if policy.memory else []
    pairs += [(role, _amount(facts, role)) for role in ROLES]
    pairs += [("dtypes", ", ".join(f"{name} x {number}" for name, number in facts.dtypes().items()) or "-")]
    pairs += [(name, _text(value)) for name, value in facts.metadata.items()]
    indented = Padding(tables.facts(pairs), (0, 0, 0, 2), expand=False)
    return (tables.line(facts.name or "this component", style="bold"), indented)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {short(item)}" for name, item in value.items())
    return short(value)


def _arrays(facts: ComponentFacts) -> RenderableType:
    rows = [
        (array.key, array.dtype, "x".join(map(str, array.shape)) or "()", array.role, array.tied_to or "")
        for array in facts.arrays
    ]
    return Group(tables.table("array", "dtype", "shape", "role", "tied to", rows=rows))
