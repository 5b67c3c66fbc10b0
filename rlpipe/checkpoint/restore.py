"""Between live objects and snapshots: taking one, putting one in, building from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from rlpipe.checkpoint.classes import resolve_class
from rlpipe.checkpoint.filling import Age, OpenFiles, filling
from rlpipe.checkpoint.fit import (
    lacking_ties,
    require_fit,
    require_one_value,
    require_read,
    require_same_ties,
    ties_text,
)
from rlpipe.checkpoint.following import tell
from rlpipe.checkpoint.glance import glancing
from rlpipe.checkpoint.replacing import one_each, replace_states
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.ties import tree_ties
from rlpipe.errors import SpecError, TieError, UnsupportedStateError, listed
from rlpipe.snapshot.numberless import any_numberless, is_numberless
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot, below, component, walk
from rlpipe.snapshot.state import Array, State, arrays, canonical, entries, from_entries, map_arrays

_ALL = Selection()


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore changed.

    Attributes:
        restored: Full keys of the entries that were set, sorted.
        kept: Full keys of the entries that were left as they were, sorted.
        notes: What else the caller should know, in words.
    """

    restored: tuple[str, ...]
    kept: tuple[str, ...]
    notes: tuple[str, ...] = ()


def snapshot_of(obj: Restorable) -> Snapshot:
    """The snapshot of a live object and of everything in it.

    Its arrays are read-only views of the object's memory wherever the object gives views: for one save at once, not to
    be kept. `get_state()` copies.

    Raises:
        UnsupportedStateError: A state holds what no checkpoint can hold, or the object is on the device "meta" and has
            learnt nothing.
        StateMismatchError: Roles do not cover a state.
    """
    snapshot = _snapshot_of(obj, "")
    if any_numberless():
        _require_numbers(snapshot)
    return snapshot


def _require_numbers(snapshot: Snapshot) -> None:
    lacking = [
        below(path, key)
        for path, part in walk(snapshot)
        for key, array in arrays(part.state).items()
        if is_numberless(array)
    ]
    if lacking:
        raise UnsupportedStateError(
            "there are no numbers to save, to give or to replace",
            expected="arrays in memory",
            found=f'on the device "meta": {listed(lacking)}',
            fix="build it on another device, such as cpu, and restore a checkpoint into that",
        )


def glance_of(obj: Restorable) -> Snapshot:
    """As `snapshot_of`, to see what is there: not to be kept, since what proves a component right is left out."""
    with glancing():
        return _snapshot_of(obj, "")


def _snapshot_of(obj: Restorable, path: str) -> Snapshot:
    state = canonical(obj.get_own_state(), where=path or "state")
    return Snapshot(
        spec=obj.get_spec(),
        state={name: map_arrays(value, _read_only) for name, value in state.items()},
        roles=dict(obj.get_own_roles()),
        children={name: _snapshot_of(child, below(path, name)) for name, child in obj.get_checkpointable_components()},
        metadata=dict(obj.get_snapshot_metadata()),
    )


def _read_only(array: Array) -> Array:
    view = array.view()
    view.setflags(write=False)
    return view


def restore_into(obj: Restorable, snapshot: Snapshot, selection: Selection = _ALL) -> RestoreReport:
    """Put a snapshot, or the selected part of it, into a live object.

    Everything is checked first: a state that does not fit changes nothing.

    Args:
        obj: The live object.
        snapshot: A snapshot of the same kind of object. Arrays that were left for later are read straight into the
            object's memory where it gives that away, after a first look at every byte of them.
        selection: What to take over; the rest of the object is left as it is.

    Returns:
        What was set and what was left.

    Raises:
        SpecError: A component computes something else.
        StateMismatchError: Missing, unexpected and mismatched entries, all of them.
        TieError: Arrays that are one in the object would get different values, or ties of the snapshot would be lost.
        SelectionError: A pattern of the selection matches nothing.
    """
    live = glance_of(obj)
    expected, patch = (live, snapshot) if selection == _ALL else (select(live, selection), select(snapshot, selection))
    require_same_ties(expected, patch, selection)
    return put(obj, live, expected, patch)


def put(obj: Restorable, live: Snapshot, expected: Snapshot, patch: Snapshot, *, age: Age = "live") -> RestoreReport:
    """Put a patch into an object, after checking that it is exactly what is expected. All of it, or nothing.

    Args:
        obj: The object.
        live: All of its snapshot.
        expected: The part of it that is replaced.
        patch: What takes its place.
        age: "new" for an object that nobody has seen yet, so that it may be left half full of damaged numbers.

    Raises:
        SpecError: A component computes something else.
        StateMismatchError: Missing, unexpected and mismatched entries, all of them.
        TieError: Two states for one component that stands in two places, or for arrays that are one.
        IntegrityError: Arrays that were to be read later are not the ones that were saved.
    """
    if any_numberless():
        _require_numbers(expected)
    require_fit(expected, patch)
    require_one_value(expected, patch)
    require_read(patch)
    before, objects = dict(walk(live)), objects_in(obj)
    parts = {path: part for path, part in walk(patch) if part.roles}

    def finish(given: Snapshot) -> None:
        _set_metadata(objects, given)
        tell(each.target for each in everyone)

    with OpenFiles() as files:
        everyone = [filling(objects[path], _filled_up(before[path], part), age, files) for path, part in parts.items()]
        pending = one_each(everyone, list(parts))
        for each in pending:
            each.target.check_own_state(each.state)
        if age == "new":
            chosen = {id(each) for each in pending}
            for each, state in [(each, each.filled()) for each in everyone]:
                if id(each) in chosen:
                    each.target.set_own_state(state)
            finish(patch)
        else:
            replace_states(pending, partial(finish, patch), partial(finish, live))
    restored = {below(path, key) for path, part in walk(patch) for key in part.roles}
    everything = {below(path, key) for path, part in walk(live) for key in part.roles}
    return RestoreReport(tuple(sorted(restored)), tuple(sorted(everything - restored)))


def _set_metadata(objects: Mapping[str, Restorable], patch: Snapshot) -> None:
    for path, part in walk(patch):
        if part.whole:
            objects[path].set_snapshot_metadata(part.metadata)


def objects_in(obj: Restorable, path: str = "") -> dict[str, Restorable]:
    """Path -> component, of all that is in an object, itself first."""
    found = {path: obj}
    for name, child in obj.get_checkpointable_components():
        found |= objects_in(child, below(path, name))
    return found


def object_at(obj: Restorable, path: str) -> Restorable:
    """The component at a path inside a live object.

    Raises:
        SpecError: There is none.
    """
    for name in path.split("/") if path else ():
        inside = dict(obj.get_checkpointable_components())
        if name not in inside:
            raise SpecError(f"there is no component {path!r}", expected=f"one of {listed(inside)}", found=repr(name))
        obj = inside[name]
    return obj


def _filled_up(live: Snapshot, part: Snapshot) -> State:
    """The part's state; entries that it lacks are the live ones."""
    if part.roles.keys() == live.roles.keys():
        return part.state
    return from_entries(entries(live.state) | entries(part.state))


def build(snapshot: Snapshot, *, device: str = "cpu", trust: tuple[str, ...] = ()) -> Restorable:
    """Build the object that a snapshot describes, with its state.

    Args:
        snapshot: What to build, children included.
        device: Where its arrays live. On "meta" no state is set: keys, dtypes and shapes are checked, so that a
            snapshot without arrays will do.
        trust: Classes that the caller vouches for (see `resolve_class`).

    Raises:
        UntrustedClassError: A class that nobody vouched for; it was not imported.
        SpecError: A spec cannot be built, or builds something else.
        StateMismatchError: The state does not fit what the spec builds.
        TieError: Ties of the snapshot could not be made again.
        DeviceError: This machine lacks the device.
    """
    obj = _construct(snapshot, "", device, trust)
    live = glance_of(obj)
    require_fit(live, snapshot)
    if device == "meta":
        _set_metadata(objects_in(obj), snapshot)
        return obj
    _tie_again(obj, live, snapshot)
    put(obj, live, live, snapshot, age="new")
    return obj


def _construct(snapshot: Snapshot, path: str, device: str, trust: tuple[str, ...]) -> Restorable:
    where = f"the component {path}" if path else "the root"
    cls = resolve_class(snapshot.spec.class_path, Restorable, trust=trust, where=where)  # type: ignore[type-abstract]
    children = {name: _construct(child, below(path, name), device, trust) for name, child in snapshot.children.items()}
    return cls.build_from(snapshot.spec, children, device=device, trust=trust)


def _tie_again(obj: Restorable, live: Snapshot, snapshot: Snapshot) -> None:
    """Ask the components that list ties to make them, the innermost first."""
    outer = tree_ties(snapshot).outer
    for path, found in sorted(outer.items(), reverse=True):
        part = component(snapshot, path)
        if lacking_ties(glance_of(object_at(obj, path)), part):
            object_at(obj, path).tie_components(found)
    lost = lacking_ties(glance_of(obj) if outer else live, snapshot)
    if lost:
        raise TieError(
            f"{snapshot.spec.class_path} was built without ties that its snapshot has",
            expected=f"tied arrays: {ties_text(lost)}",
            found="separate arrays",
            fix="tie them where the object is built, or save them untied",
        )
