"""Which policies, roles and keys a run takes, and under which ids."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from rlpipe.algorithms.learner_snapshot import COPIES, renamed_copies
from rlpipe.errors import ConfigError, IdError, SelectionError
from rlpipe.pipeline.lift import POLICIES, algorithm_of, container_of, policies_of
from rlpipe.pipeline.settings import SelectSettings
from rlpipe.snapshot.ids import validate_ids, validate_policy_id
from rlpipe.snapshot.key_map import KeyMap, rename
from rlpipe.snapshot.selection import Selection, matches, require_matches
from rlpipe.snapshot.snapshot import ROLES, Snapshot, below


def chosen_ids(patterns: Iterable[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    """The known policy ids that a pattern names, sorted; all of them for None.

    Raises:
        SelectionError: A pattern names none of them; it carries the closest ids.
    """
    ids = tuple(sorted(known))
    if patterns is None:
        return ids
    wanted = tuple(patterns)
    require_matches(wanted, ids, "policy id")
    return tuple(policy_id for policy_id in ids if any(matches(policy_id, pattern) for pattern in wanted))


def entry_selection(select: SelectSettings) -> Selection:
    """The roles and keys, of every component."""
    return Selection(roles=frozenset(select.roles or ROLES), keys=select.keys, ties=select.ties)


def policy_selection(select: SelectSettings, ids: Iterable[str], *, under: str) -> Selection:
    """The selection of policies that lie at ``<under>/<id>``; everything, if no ids were asked for."""
    if select.policy_ids is None:
        return entry_selection(select)
    chosen = chosen_ids(select.policy_ids, ids)
    return replace(entry_selection(select), components=tuple(below(under, policy_id) for policy_id in chosen))


def renamed(tree: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """The tree with policies under other ids; an old id may be a glob that names one policy.

    Raises:
        SelectionError: A policy to rename is not there, or a glob names several.
        IdError: An id cannot name a policy beside the others.
    """
    known = policies_of(tree).keys()
    names = {_one_of(old, known): new for old, new in names.items()}
    ids = [names.get(policy_id, policy_id) for policy_id in known]
    if len(set(ids)) < len(ids):
        twice = sorted({policy_id for policy_id in ids if ids.count(policy_id) > 1})
        raise ConfigError(
            "rename gives two policies one id",
            expected="a different id for each",
            found=", ".join(twice),
            fix="rename the other one too, or leave it out with policy_ids",
        )
    require_ids(ids, where="add")
    if not names:
        return tree
    moved = rename(tree, KeyMap(components={below(POLICIES, old): new for old, new in names.items()}))
    return renamed_copies(moved, names)


def _one_of(old: str, known: Collection[str]) -> str:
    """The id that is to be renamed; a glob names one among those that cannot stand in a checkpoint."""
    found = [old] if old in known else [name for name in known if _is_wild(name) and fnmatchcase(name, old)]
    if len(found) != 1:
        what = f"no policy {old!r}" if not found else f"not one policy {old!r}, but {', '.join(sorted(found))},"
        raise SelectionError(f"there is {what} to rename", pattern=old, known=known)
    return found[0]


def _is_wild(policy_id: str) -> bool:
    try:
        validate_policy_id(policy_id)
    except IdError:
        return True
    return False


def require_ids(ids: Collection[str], *, where: str = "save it with other ids first: task=save") -> None:
    """Check that ids can stand in a checkpoint.

    Args:
        ids: The ids.
        where: Words before the override that renames those that cannot.

    Raises:
        IdError: Some cannot; the fix is a line to paste, if there is one.
    """
    try:
        validate_ids(ids)
    except IdError as error:
        line = rename_line(ids)
        fix = f"{where} {line}" if line else error.fix
        raise IdError(error.subject, expected=error.expected, found=error.found, fix=fix) from None


def rename_line(ids: Iterable[str]) -> str:
    """The override that gives each id that cannot stand in a checkpoint one that can; "" where none is to be found.

    Characters that the command line would refuse are question marks there, since old ids may be globs.
    """
    taken = set(ids)
    wild = sorted(filter(_is_wild, taken))
    globs = {policy_id: _UNTYPED.sub("?", policy_id) for policy_id in wild}
    if not wild or any(sum(fnmatchcase(name, glob) for name in wild) != 1 for glob in globs.values()):
        return ""
    pairs = []
    for policy_id in wild:
        tame = _free(_UNTAME.sub("_", policy_id).strip("_") or "policy", taken)
        taken.add(tame)
        pairs.append(f"{globs[policy_id]}: {tame}")
    return f"'rename={{{', '.join(pairs)}}}'"


def _free(name: str, taken: Collection[str]) -> str:
    """The name, or with the first number that makes it another one than those taken, whatever their case."""
    folded = {one.casefold() for one in taken}
    candidates = (name, *(f"{name}_{number}" for number in range(2, len(folded) + 3)))
    return next(one for one in candidates if one.casefold() not in folded and not _is_wild(one))


_UNTAME = re.compile(r"[^A-Za-z0-9_-]")
_UNTYPED = re.compile(r"^ | $|[^A-Za-z0-9_/ -]")
"""What the grammar of the command line does not take in the key of a mapping."""


def completed(tree: Snapshot, select: SelectSettings) -> Snapshot:
    """The chosen part as a tree of its own: policies slim or full, each able to stand alone.

    Raises:
        ConfigError: The selection leaves parts of policies that nothing can be built from.
    """
    roles = frozenset(select.roles or ROLES)
    if select.keys is not None or "inference" not in roles:
        raise ConfigError(
            "the selection leaves parts of policies that cannot be restored alone",
            expected="whole policies (select.keys=null, and inference among select.roles)",
            found=f"select.roles={sorted(roles)}, select.keys={list(select.keys or ())}",
            fix="put the part into a base with task=subset_restore",
        )
    if select.policy_ids is not None:
        # Without all policies, what is above them cannot be what it was: its state may belong to the missing ones.
        return _whole(algorithm_of(container_of(policies_of(tree))))
    # What trains policies is nothing without its training entries.
    return _whole(tree if "training" in roles or not tree.children.keys() & set(COPIES) else _policies_alone(tree))


def _policies_alone(tree: Snapshot) -> Snapshot:
    return algorithm_of(tree.children[POLICIES])


def _whole(part: Snapshot) -> Snapshot:
    return replace(part, whole=True, children={name: _whole(child) for name, child in part.children.items()})
