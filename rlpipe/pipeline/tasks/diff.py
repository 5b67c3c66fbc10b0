"""task=diff: how source.path differs from base.path, in structure, specs and numbers; no torch, no array file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from rlpipe.errors import ConfigError
from rlpipe.pipeline import tables
from rlpipe.pipeline.described import described, identity
from rlpipe.pipeline.lift import kind_of
from rlpipe.pipeline.locate import CHECKPOINT, reading_path
from rlpipe.pipeline.outlook import Outlook
from rlpipe.pipeline.progress import Progress
from rlpipe.pipeline.reports import Report, SourceFacts
from rlpipe.pipeline.settings import RunSettings
from rlpipe.pipeline.sources import Source, open_base, open_source, read_tree
from rlpipe.snapshot.diff import StateDiff, diff
from rlpipe.snapshot.identity import FINGERPRINT_DIGITS
from rlpipe.snapshot.snapshot import Snapshot, walk
from rlpipe.snapshot.spec_diff import SpecChange, changes

USES = frozenset({"source", "base.path", "checkpoint.path", "select", "trust"})
SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDifference:
    """One field of a component's spec that differs; a side that lacks it says ``nothing``."""

    component: str
    change: SpecChange

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, both values whole."""
        change = self.change
        return {"component": self.component, "field": change.name, "base": change.old, "source": change.new}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPair:
    """A component on both sides, by fingerprint; "" where a side lacks it."""

    path: str
    base: str
    source: str


@dataclass(frozen=True, kw_only=True)
class DiffReport(Report):
    """How two inputs differ; ok if they do not.

    Attributes:
        base: What is expected.
        found: Keys; what the base has is expected, what the source has is found.
        specs: Fields of specs that differ.
        components: Policies and other components on either side.
    """

    task = "diff"
    base: SourceFacts
    found: StateDiff
    specs: tuple[SpecDifference, ...]
    components: tuple[ComponentPair, ...]

    @property
    def ok(self) -> bool:
        """Whether both are the same in everything but metadata."""
        return self.found.same and not self.specs and all(pair.base and pair.source for pair in self.components)

    def body(self) -> dict[str, Any]:
        """All differences."""
        found = self.found
        return {
            "base": self.base.to_json(),
            "same": self.ok,
            "missing": list(found.missing),
            "unexpected": list(found.unexpected),
            "mismatched": list(found.mismatched),
            "changed": list(found.changed),
            "specs": [spec.to_json() for spec in self.specs],
            "components": {pair.path or ".": {"base": pair.base, "source": pair.source} for pair in self.components},
        }

    def tables(self) -> Sequence[RenderableType]:
        """Fingerprints of both sides, then specs, then keys."""
        pairs = [(pair.path or ".", pair.base or "-", pair.source or "-", _verdict(pair)) for pair in self.components]
        parts: list[RenderableType] = [
            tables.line(f"base: {self.base.name} ({self.base.kind})"),
            "",
            tables.table("component", "base", "source", "acts", rows=pairs),
        ]
        if self.specs:
            rows = [(spec.component or ".", spec.change.name, spec.change.values()) for spec in self.specs]
            parts += ["", tables.table("component", "field", "base -> source", rows=rows)]
        parts += self._keys()
        return [*parts, "", tables.line(self._conclusion(), style="bold")]

    def _conclusion(self) -> str:
        how = "by the recorded hashes; task=verify reads the bytes"
        is_recorded = CHECKPOINT in (self.base.kind, self.source.kind)
        return f"{'the same' if self.ok else 'different'}{f', {how}' if is_recorded else ''}"

    def _keys(self) -> list[RenderableType]:
        found = self.found
        kinds = (
            ("only in the base", found.missing),
            ("only in the source", found.unexpected),
            ("another kind", found.mismatched),
            ("other values", found.changed),
        )
        rows = [(name, key) for name, keys in kinds for key in keys[:SHOWN]]
        rows += [(name, f"and {len(keys) - SHOWN} more (result.json)") for name, keys in kinds if len(keys) > SHOWN]
        return ["", tables.table("keys", "", rows=rows)] if rows else []


def run(settings: RunSettings, *, progress: Progress) -> DiffReport:
    """Compare ``source.path`` with ``base.path``.

    Raises:
        ConfigError: There is no ``base.path``.
        RlpipeError: One of them cannot be read.
    """
    del progress
    source = open_source(settings, given=reading_path(settings))
    base = _base(settings)
    ours, theirs = _sides(base, source, settings)
    return DiffReport(
        source=source.facts,
        warnings=(*source.notes, *base.notes),
        base=base.facts,
        found=diff(ours, theirs),
        specs=tuple(_spec_differences(ours, theirs)),
        components=tuple(_pairs(ours, theirs)),
    )


def check_ahead(settings: RunSettings, outlook: Outlook) -> None:
    """Check that the base is named, and there.

    Raises:
        RlpipeError: It is not.
    """
    del outlook
    _base(settings)


def _base(settings: RunSettings) -> Source:
    if settings.base.path is None:
        raise ConfigError(
            "diff needs two paths",
            expected="source.path and base.path",
            found="no base.path",
            fix="name the one to compare with: base.path=...",
        )
    return open_base(settings, settings.base.path)


def _sides(base: Source, source: Source, settings: RunSettings) -> tuple[Snapshot, Snapshot]:
    """Base and source in one shape: as they are if both are of one kind, else as trees."""
    if base.kind == source.kind:
        ours, theirs = (side.read(settings.select, arrays="none") for side in (base, source))
    else:
        ours, theirs = (
            read_tree(side, settings.select, arrays="none", trust=settings.trust) for side in (base, source)
        )
    return described(ours), described(theirs)


def _pairs(ours: Snapshot, theirs: Snapshot) -> Iterator[ComponentPair]:
    left, right = dict(walk(ours)), dict(walk(theirs))
    for path in sorted(left.keys() | right.keys()):
        part = left.get(path) or right[path]
        if kind_of(part.spec, part.children) not in ("algorithm", "container"):
            yield ComponentPair(path=path, base=_fingerprint(left.get(path)), source=_fingerprint(right.get(path)))


def _fingerprint(part: Snapshot | None) -> str:
    return "" if part is None else identity(part)[1][:FINGERPRINT_DIGITS]


def _verdict(pair: ComponentPair) -> str:
    if not (pair.base and pair.source):
        return "only on one side"
    return "the same" if pair.base == pair.source else "differently"


def _spec_differences(ours: Snapshot, theirs: Snapshot) -> Iterator[SpecDifference]:
    left, right = dict(walk(ours)), dict(walk(theirs))
    for path in sorted(left.keys() & right.keys()):
        found = changes(left[path].spec.to_json(), right[path].spec.to_json())
        yield from (SpecDifference(component=path, change=change) for change in found)
