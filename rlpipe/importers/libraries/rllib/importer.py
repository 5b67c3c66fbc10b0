"""A directory of RLlib as the snapshots of its policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rlpipe.errors import ForeignFormatError, listed
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.importers.libraries.rllib.connectors import Connectors, read_connectors
from rlpipe.importers.libraries.rllib.folders import Policies, is_oldest, is_rllib, oldest_file, policies_in, runner_of
from rlpipe.importers.libraries.rllib.new_stack import read_module
from rlpipe.importers.libraries.rllib.old_stack import read_old_policy
from rlpipe.importers.libraries.rllib.survey import require_known_layout
from rlpipe.importers.libraries.rllib.training import Training, read_training
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spec import Spec

_CONTAINER = Spec("rlpipe.modules.multi_rl_module.MultiRLModule")
_STRAY = "no policy: RLlib did not write it there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a directory is read.

    Attributes:
        filter_agent: Policy -> the agent whose statistics it sees through, where MeanStdFilter kept several.
        policy_id: Id for a policy that comes alone; inside its algorithm its directory names it.
    """

    filter_agent: Mapping[str, str] = field(default_factory=dict)
    policy_id: str = "p0"


def recognise(path: Path) -> bool:
    """Whether a directory is an RLlib checkpoint or a component of one, or a file the one of layout 0.1."""
    return is_rllib(path) if path.is_dir() else is_oldest(path)


def policy_ids(path: Path) -> tuple[str, ...] | None:
    """Ids of the policies in a directory, as its subdirectories name them; None where it is one policy itself."""
    policies = policies_in(path)
    return None if policies.is_single else tuple(sorted(policies.folders))


def read(path: Path, options: Options) -> ImportedFile:
    """All policies of a directory: a container of them, or the policy itself where the directory is one."""
    return read_policies(path, options, policy_ids(path))


def read_policies(path: Path, options: Options, ids: Collection[str] | None) -> ImportedFile:
    """Some policies of a directory, or for None the one that it is; files of others are not opened.

    Raises:
        ForeignFormatError: There are no policies, or one is of a kind that is not supported; says which.
        UnsafePayloadError: A file is broken, or asks for more than plain values.
        NormalizerError: Statistics are missing or broken, or it is not known whose they are.
    """
    require_known_layout(path)
    policies = policies_in(path)
    if not policies.folders:
        raise _nothing(path)
    _require_known(options.filter_agent, policies)
    around = cache(_around)
    names = sorted(policies.folders if ids is None else ids)
    read_one = {name: _read(policies, name, options, around) for name in names}
    if policies.is_single:
        (only,) = read_one.values()
        return only
    children = {name: found.snapshot for name, found in read_one.items()}
    return ImportedFile(Snapshot(_CONTAINER, children=children), _together(read_one, policies))


def _read(policies: Policies, name: str, options: Options, around: Callable[[Path | None], _Around]) -> ImportedFile:
    folder = policies.folders[name]
    if policies.is_old:
        return read_old_policy(folder, name)
    known = around(runner_of(folder))
    return read_module(folder, name, known.connectors, known.training, agent=options.filter_agent.get(name))


@dataclass(frozen=True, slots=True, eq=False)
class _Around:
    """What the env runner around modules says, the same for all of them."""

    connectors: Connectors | None
    training: Training


def _around(runner: Path | None) -> _Around:
    return _Around(None, Training()) if runner is None else _Around(read_connectors(runner), read_training(runner))


def _require_known(names: Collection[str], policies: Policies) -> None:
    if unknown := set(names) - policies.folders.keys():
        raise ForeignFormatError(
            f"source.filter_agent names no policy of this checkpoint: {listed(unknown)}",
            expected=f"one of {listed(policies.folders)}",
            found=listed(unknown),
            fix="name policies as their directories are named",
        )


def _together(found: Mapping[str, ImportedFile], policies: Policies) -> ImportReport:
    reports = {name: one.report for name, one in found.items()}
    skipped = [(f"{name}: {part}", why) for name, report in reports.items() for part, why in report.skipped]
    return ImportReport(
        imported=tuple(f"{name}: {part}" for name, report in reports.items() for part in report.imported),
        skipped=(*skipped, *((stray, _STRAY) for stray in policies.strays)),
        notes=tuple(dict.fromkeys(note for report in reports.values() for note in report.notes)),
    )


def _nothing(path: Path) -> ForeignFormatError:
    oldest = oldest_file(path)
    what = f"the file {oldest.name} of layout 0.1" if oldest is not None else "no module and no policy"
    return ForeignFormatError(
        f"{path.name} holds no policy that can be imported",
        expected="learner_group/learner/rl_module/<id> (layout 2) or policies/<id> (layout 1)",
        found=what,
        fix="restore it with the ray version that wrote it and save it again"
        if oldest is not None
        else "name the directory of the algorithm, of its modules, or of one policy",
    )
