"""task=subset_restore: put some policies of a source into a base; everything else of the base stays, bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.console import RenderableType

from rlpipe.checkpoint.fit import require_whole_ties
from rlpipe.errors import SpecError, StateMismatchError
from rlpipe.pipeline import tables
from rlpipe.pipeline.attached import left_behind
from rlpipe.pipeline.built import built_source
from rlpipe.pipeline.choose import renamed
from rlpipe.pipeline.environment import with_policies
from rlpipe.pipeline.inspect import ComponentFacts, warnings_of
from rlpipe.pipeline.learners import has_copies, kept_in_step, parts_of
from rlpipe.pipeline.lift import POLICIES, policies_of
from rlpipe.pipeline.live import spaces_of
from rlpipe.pipeline.outlook import Outlook
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import Report, SourceFacts
from rlpipe.pipeline.settings import RunSettings, SelectSettings
from rlpipe.pipeline.sinks import WrittenCheckpoint, write
from rlpipe.pipeline.sources import Source, open_base, open_source, read_tree
from rlpipe.snapshot.merge import merge
from rlpipe.snapshot.reshape import reshaped
from rlpipe.snapshot.snapshot import Snapshot, walk
from rlpipe.snapshot.spec_fit import spec_findings

USES = frozenset({"source", "base", "checkpoint", "select", "rename", "restore.on_shape", "algorithm", "env", "trust"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What became of one component of the base.

    Attributes:
        path: Its path.
        outcome: ``restored``: taken whole from the source. ``in part``: some entries. ``added``. ``kept``. ``in step``:
            part of a learner or runner, brought in step with the policies.
        restored: Entries that come from the source.
        kept: Entries that are the base's.
        dropped: Entries of the base that the result lacks, since another spec took its place.
        fingerprint: Of the result.
    """

    path: str
    outcome: Literal["restored", "in part", "added", "kept", "in step"]
    restored: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "path": self.path,
            "outcome": self.outcome,
            "restored": list(self.restored),
            "kept": list(self.kept),
            "dropped": list(self.dropped),
            "fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, kw_only=True)
class SubsetRestoreReport(Report):
    """What was restored and what was kept.

    Attributes:
        base: Where the rest came from.
        placed: One for each component of the result, but for empty ones above policies.
        checkpoint: The result.
    """

    task = "subset_restore"
    base: SourceFacts
    placed: tuple[Placed, ...]
    checkpoint: WrittenCheckpoint

    def body(self) -> dict[str, Any]:
        """Keys by component."""
        return {
            "base": self.base.to_json(),
            "components": [placed.to_json() for placed in self.placed],
            "checkpoint": self.checkpoint.to_json(),
        }

    def tables(self) -> Sequence[RenderableType]:
        """A row for each component, and where the result is."""
        rows = [
            (
                *(placed.path, placed.outcome, len(placed.restored), len(placed.kept), len(placed.dropped)),
                placed.fingerprint,
            )
            for placed in self.placed
        ]
        columns = ("component", "outcome", "restored", "kept", "dropped", "fingerprint")
        checkpoint = self.checkpoint
        return (
            tables.line(f"base: {self.base.name} ({self.base.kind})"),
            tables.line(f"written: {checkpoint.path} ({checkpoint.backend}, {tables.size(checkpoint.nbytes)})"),
            "",
            tables.table(*columns, rows=rows, right=("restored", "kept", "dropped")),
        )

    def written(self) -> str:
        """Path of the result."""
        return self.checkpoint.path


def run(settings: RunSettings, *, progress: Progress) -> SubsetRestoreReport:
    """Put the chosen part of ``source.path`` into ``base.path`` and write ``checkpoint.path``.

    Raises:
        SpecError: A policy is something else in the base, or a part has no policy to go into.
        StateMismatchError: A part does not fit the policy in the base.
        TieError: Arrays that are one in the base would be torn apart.
    """
    del progress
    base_source, source = opened(settings)
    chosen = read_tree(source, settings.select, trust=settings.trust)
    patch = renamed(chosen, settings.rename)
    base = read_tree(base_source, SelectSettings(), trust=settings.trust)
    patch = _policies_only(_able_to_stand(patch, base, settings.select), base)
    if settings.select.ties == "keep":
        require_whole_ties(base, patch)
    fitted = reshaped(base, patch, settings.restore.on_shape)
    patch = fitted.patch
    merged = _in_their_envs(_merged(base, patch, settings), base)
    notes = (*_differences(base, patch), *(f"{key} was {text}" for key, text in fitted.changed.items()))
    if has_copies(merged):
        merged, more = kept_in_step(merged, patch, fitted.changed, parts_of(source, settings.rename))
        notes += more
    checkpoint = write(merged, settings)
    return SubsetRestoreReport(
        source=source.facts,
        notes=(*source.report.confirmed, *notes, *checkpoint.notes),
        warnings=(
            *(*source.notes, *left_behind(source, policies_of(chosen), settings.checkpoint)),
            *_without_base(settings, patch, merged),
            *(*base_source.notes, *left_behind(base_source, policies_of(base), settings.checkpoint)),
            *(*warnings_of(checkpoint.components), *checkpoint.warnings),
        ),
        base=base_source.facts,
        placed=_placed(base, patch, merged, checkpoint),
        checkpoint=checkpoint,
    )


def _merged(base: Snapshot, patch: Snapshot, settings: RunSettings) -> Snapshot:
    try:
        return merge(base, patch, on_mismatch=settings.base.on_mismatch)
    except (SpecError, StateMismatchError) as error:
        if settings.base.path is None:
            error.fix = (
                "name the base: base.path=...; none was named, so that the configured policies were built as one"
            )
        raise


def _without_base(settings: RunSettings, patch: Snapshot, merged: Snapshot) -> Iterator[str]:
    """Of a base that nobody named, what of it is in the result."""
    new = sorted(policies_of(merged).keys() - policies_of(patch).keys())
    if settings.base.path is None and new:
        yield f"no base.path was named: {', '.join(new)} are new ones of the config; base.path=... names another base"


def opened(settings: RunSettings) -> tuple[Source, Source]:
    """What the checkpoint is made of: the base, and what is put over it."""
    source = open_source(settings, given=settings.source.path)
    return built_source(settings) if settings.base.path is None else open_base(settings, settings.base.path), source


def check_ahead(settings: RunSettings, outlook: Outlook) -> None:
    """Check that the base is there.

    Raises:
        RlpipeError: It is not.
    """
    del outlook
    if settings.base.path is not None:
        open_base(settings, settings.base.path)


def _differences(base: Snapshot, patch: Snapshot) -> Iterator[str]:
    """What of the specs differs and does no harm to a state, such as bounds of observations."""
    known = policies_of(base)
    for policy_id, part in policies_of(patch).items():
        findings = spec_findings(known[policy_id].spec, part.spec) if policy_id in known else []
        yield from (f"{policy_id}: {finding.text}" for finding in findings if finding.severity == "warning")


def _policies_only(patch: Snapshot, base: Snapshot) -> Snapshot:
    """The patch with nothing but its policies: what is above them is the base's."""
    container = _shell(base.children[POLICIES], policies_of(patch))
    return _shell(base, {POLICIES: container})


def _in_their_envs(merged: Snapshot, base: Snapshot) -> Snapshot:
    """A policy that knows no environment keeps that of the policy whose place it took, if its spaces are the same."""
    known = policies_of(base)
    named = {
        policy_id: replace(policy, metadata={**policy.metadata, "env": known[policy_id].metadata["env"]})
        for policy_id, policy in policies_of(merged).items()
        if policy_id in known and not policy.metadata.get("env") and known[policy_id].metadata.get("env")
        if spaces_of(policy) == spaces_of(known[policy_id])
    }
    return with_policies(merged, named) if named else merged


def _shell(part: Snapshot, children: Mapping[str, Snapshot]) -> Snapshot:
    return replace(part, state={}, roles={}, children=children, whole=False)


def _able_to_stand(patch: Snapshot, base: Snapshot, select: SelectSettings) -> Snapshot:
    """The patch with each policy whole or a part, as the base needs it.

    A slim policy that the base lacks is added as one that is inference-only; any other part needs a base. A whole slim
    policy over a full one of the same spec is a part of it: what it never had is the base's to keep.
    """
    slim = select.keys is None and "inference" in (select.roles or ("inference",))
    container = patch.children[POLICIES]
    known = policies_of(base)
    policies = {}
    for policy_id, part in container.children.items():
        if policy_id not in known:
            policies[policy_id] = replace(part, whole=True) if slim else part
        else:
            policies[policy_id] = replace(part, whole=part.whole and not _is_slimmer(part, known[policy_id]))
    return replace(patch, children={**patch.children, POLICIES: replace(container, children=policies)})


def _is_slimmer(part: Snapshot, base: Snapshot) -> bool:
    is_slim, was_slim = (bool(each.spec.options.get("inference_only")) for each in (part, base))
    return is_slim and not was_slim and part.spec.identity() == base.spec.identity()


def _placed(base: Snapshot, patch: Snapshot, merged: Snapshot, checkpoint: WrittenCheckpoint) -> tuple[Placed, ...]:
    before, taken, result = dict(walk(base)), dict(walk(patch)), dict(walk(merged))
    placed = []
    for facts in checkpoint.components:
        restored = set(taken[facts.path].roles) if facts.path in taken else set()
        after = set(result[facts.path].roles)
        if not after and facts.kind in ("algorithm", "container"):
            continue
        was = before.get(facts.path)
        placed.append(
            Placed(
                path=facts.path,
                outcome=_outcome(facts, was, result[facts.path], restored),
                restored=tuple(sorted(restored)),
                kept=tuple(sorted(after - restored)),
                dropped=tuple(sorted(set() if was is None else was.roles.keys() - after)),
                fingerprint=facts.fingerprint,
            )
        )
    return tuple(placed)


def _outcome(facts: ComponentFacts, was: Snapshot | None, now: Snapshot, restored: Collection[str]) -> Any:
    if was is None:
        return "added"
    if facts.is_copy and now is not was:
        return "in step"
    if not restored:
        return "kept"
    return "in part" if now.roles.keys() - set(restored) else "restored"
