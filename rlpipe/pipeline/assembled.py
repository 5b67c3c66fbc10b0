"""Policies of several sources under new ids as one algorithm, with or without what trains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from rlpipe.algorithms.algorithm_reader import COUNTERS, LEARNER
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.reader import read_checkpoint, read_manifest
from rlpipe.errors import CheckpointError, ConfigError, IntegrityError, SpecError, listed
from rlpipe.importers.importer import ImportReport
from rlpipe.pipeline.attached import left_behind
from rlpipe.pipeline.choose import chosen_ids, entry_selection
from rlpipe.pipeline.learners import is_current, learner_directory
from rlpipe.pipeline.lift import LEARNER_CLASS, POLICIES, Kind, algorithm_of, container_of, lift, policies_of
from rlpipe.pipeline.locate import CHECKPOINT, locate_path
from rlpipe.pipeline.reports import SourceFacts
from rlpipe.pipeline.settings import ASSEMBLE, CheckpointSettings, RunSettings, SelectSettings, SourceSettings
from rlpipe.pipeline.sources import Arrays, CheckpointSource, Source, source_at
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import entries


@dataclass(frozen=True, kw_only=True)
class AssembledSource:
    """Policies of several sources.

    Attributes:
        paths: New policy id -> a policy's directory, or anything else that holds one policy.
        with_learner: "copy" takes along what trains each of them, "leave" does not.
        seed: Of the random number generators that a new learner starts from.
        trust: Patterns of class paths that may be imported, to find out what a bare module puts out.
        checkpoint: How what is read will be written.
    """

    paths: Mapping[str, str]
    with_learner: str = "leave"
    seed: int = 0
    trust: tuple[str, ...] = ()
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    kind: Kind = "algorithm"

    @property
    def facts(self) -> SourceFacts:
        """The paths by id."""
        return SourceFacts(kind=ASSEMBLE, name=", ".join(f"{name} = {path}" for name, path in self.paths.items()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of every source, what was shared with others there, and what training is left."""
        notes = [
            f"{name}: {note}"
            for name, source in self._sources.items()
            for note in (*source.notes, *left_behind(source, source.ids(), self.checkpoint), *_untied(source))
        ]
        if self.with_learner == "leave" and (
            left := [name for name in self.paths if self._trained_in(name) is not None]
        ):
            notes.append(f"what trains {', '.join(left)} was left: source.learner=copy takes it along")
        return tuple(notes)

    @property
    def report(self) -> ImportReport:
        """What importers took and left."""
        reports = [source.report for source in self._sources.values()]
        return ImportReport(
            imported=tuple(each for report in reports for each in report.imported),
            skipped=tuple(each for report in reports for each in report.skipped),
        )

    def ids(self) -> tuple[str, ...]:
        """The new ids, sorted.

        Raises:
            ConfigError: There are none.
            IdError: One that cannot name a policy beside the others.
        """
        if not self.paths:
            raise ConfigError(
                "there is nothing to assemble",
                expected="policies in source.policies",
                found="none",
                fix="write 'source.policies={p1: A/policies/p1, p2: B/policies/main}'",
            )
        return tuple(sorted(validate_ids(self.paths)))

    @cached_property
    def _sources(self) -> dict[str, Source]:
        return {name: _one_policy(name, self.paths[name]) for name in self.ids()}

    def read(self, chosen: SelectSettings, *, arrays: Arrays = "verify") -> Snapshot:
        """The chosen policies as an algorithm.

        Raises:
            ConfigError: A path that holds several policies, or none.
            SpecError: What trains a policy was asked for, and there is nothing.
        """
        ids = chosen_ids(chosen.policy_ids, self.ids())
        one = replace(chosen, policy_ids=None, keys=None)
        policies = {name: self._policy(name, one, arrays) for name in ids}
        tree = algorithm_of(container_of(policies))
        selection = entry_selection(replace(chosen, policy_ids=None))
        tree = tree if selection == Selection(ties=selection.ties) else select(tree, selection)
        return tree if self.with_learner == "leave" else self._with_learner(tree)

    def _policy(self, name: str, chosen: SelectSettings, arrays: Arrays) -> Snapshot:
        found = self._sources[name].read(chosen, arrays=arrays)
        (policy,) = policies_of(lift(found, policy_id=name, trust=self.trust)).values()
        return policy

    def _trained_in(self, name: str) -> Place | None:
        source = self._sources[name]
        return learner_directory(source.path) if isinstance(source, CheckpointSource) else None

    def _with_learner(self, tree: Snapshot) -> Snapshot:
        parts = {name: self._required_part(name) for name in policies_of(tree)}
        learner = _learner_of(parts, self.seed)
        counters = {"counters": dict.fromkeys(COUNTERS, 0)}
        return replace(
            tree,
            state=counters,
            roles=dict.fromkeys(entries(counters), "training"),
            children={**tree.children, LEARNER: learner},
        )

    def _required_part(self, name: str) -> Snapshot:
        directory = self._trained_in(name)
        if directory is None:
            raise SpecError(
                f"nothing is known of how {name} is trained",
                expected=f"a learner beside {self.paths[name]}, in the checkpoint that it lies in",
                found="none",
                fix="leave it: source.learner=leave",
            )
        if not is_current(place_of(self.paths[name]), directory):
            raise IntegrityError(
                f"the learner beside {self.paths[name]} trains another policy",
                expected="a copy of that very policy",
                found="other numbers, or another network",
                fix="assemble with source.learner=leave",
            )
        return read_checkpoint(directory)


def assembled_source(settings: RunSettings) -> AssembledSource:
    """The source of a run with source=assemble.

    Raises:
        ConfigError: There is a path beside it.
    """
    source = settings.source
    if source.path is not None:
        raise ConfigError(
            "source=assemble has no source.path",
            expected="paths in source.policies",
            found=source.path,
            fix=f"write 'source.policies={{p0: {source.path}}}'",
        )
    return AssembledSource(
        paths=source.policies,
        with_learner=source.learner,
        seed=settings.algorithm.seed,
        trust=settings.trust,
        checkpoint=settings.checkpoint,
    )


def _untied(source: Source) -> tuple[str, ...]:
    """A sentence about the arrays of a policy that are shared with its neighbours in the container that it lies in."""
    if not isinstance(source, CheckpointSource) or source.path.parent.name != POLICIES:
        return ()
    try:
        ties = read_manifest(source.path.parent).ties
    except CheckpointError:
        return ()
    own = [tie for tie in ties if any(member.component == source.path.name for member in tie)]
    others = {member.component for tie in own for member in tie} - {source.path.name}
    return (f"shares {len(own)} arrays with {listed(others)} there; here they are its own",) if own else ()


def _one_policy(name: str, path: str) -> Source:
    located = locate_path(path)
    source = source_at(located, SourceSettings(policy_id=None if located.kind == CHECKPOINT else name))
    if source.kind in ("algorithm", "container"):
        directory = f"{path}/{POLICIES}" if source.kind == "algorithm" else path
        raise ConfigError(
            f"source.policies.{name}",
            expected="the directory of one policy, or a model file",
            found=f"{path}, which holds {', '.join(source.ids())}",
            fix=f"name one of them: {name}: {directory}/{source.ids()[0]}",
        )
    return source


def _learner_of(parts: Mapping[str, Snapshot], seed: int) -> Snapshot:
    """A learner of these parts that has not begun; its generators are those of a seed."""
    from rlpipe.algorithms.random_states import fresh_random_states

    state = {
        "policies_to_train": (sorted(parts),),
        "random_states": fresh_random_states(seed),
        "update_count": 0,
    }
    return Snapshot(Spec(LEARNER_CLASS), state, dict.fromkeys(entries(state), "training"), dict(parts))
