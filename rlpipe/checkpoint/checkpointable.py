"""RLlib's checkpoint methods, on top of what a component implements."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

from rlpipe.checkpoint.classes import class_path_of, resolve_class, with_trust
from rlpipe.checkpoint.directory import IfExists
from rlpipe.checkpoint.fit import require_fit, require_whole_ties
from rlpipe.checkpoint.format import FORMAT, VERSION
from rlpipe.checkpoint.nested_state import nested_state, patch_of
from rlpipe.checkpoint.place import Place, place_of
from rlpipe.checkpoint.reader import When, read_checkpoint, read_manifest
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.restore import RestoreReport, build, glance_of, object_at, put, restore_into, snapshot_of
from rlpipe.checkpoint.steady import steadily
from rlpipe.checkpoint.strict_json import Json
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.snapshot.selection import Selection, matches, require_matches, select
from rlpipe.snapshot.snapshot import Snapshot, below, walk
from rlpipe.snapshot.state import State, copied

_INFERENCE = Selection(roles=frozenset({"inference"}), ties="untie")


class Checkpointable(Restorable):
    """A component with the checkpoint methods of RLlib's class of this name, and their meaning.

    Where RLlib skips or ignores in silence (unknown components, keys that do not fit, missing files), this raises. What
    a subclass implements is listed in `Restorable`.
    """

    def get_state(
        self, components: str | Collection[str] | None = None, *, not_components: str | Collection[str] | None = None
    ) -> State:
        """A copy of the state, with the states of components under their names.

        Args:
            components: Paths or globs such as "policies/p1"; only these are taken, and no own entries of what is above.
            not_components: Paths or globs of components to leave out.

        Returns:
            Nested dict; leaves are numpy arrays, bool, int, float, str, bytes, None.

        Raises:
            SelectionError: A name that no component has. RLlib ignores it.
        """
        snapshot = snapshot_of(self)
        if components is not None:
            snapshot = select(snapshot, Selection(components=_names(components), ties="untie"))
        if not_components is not None:
            left_out = _names(not_components)
            require_matches(left_out, [path for path, _ in walk(snapshot) if path], "component")
            snapshot = _without(snapshot, left_out, "")
        return copied(nested_state(snapshot))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over a state of `get_state`. All of it is checked before anything is changed.

        Components that the state does not name stay as they are; of one that it names, all entries must be there.

        Raises:
            StateMismatchError: Missing, unexpected and mismatched entries, all of them. RLlib ignores some.
            UnsupportedStateError: The state holds what no checkpoint can hold.
            TieError: Components that the state does not name share arrays with those that it names.
        """
        live = glance_of(self)
        patch = patch_of(live, state)
        require_whole_ties(live, patch.found)
        put(self, live, patch.expected, patch.found)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that would build the object anew, as positional and keyword ones."""
        return (), dict(self.get_spec().config)

    def get_metadata(self) -> dict[str, Json]:
        """What a checkpoint of this object says about it: format, version, class, and plain facts."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "class": self.get_spec().class_path,
            **self.get_snapshot_metadata(),
        }

    def save_to_path(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        backend: str = "hdf5",
        if_exists: IfExists = "error",
    ) -> str:
        """Write a checkpoint, whole or not at all.

        Args:
            path: The directory to make; a new temporary one if None.
            state: What to write in place of the current state, of the form of `get_state()`: all of it, or exactly its
                inference entries, which makes an inference-only checkpoint.
            backend: "hdf5" or "pickle".
            if_exists: "error", or "replace" to write over a checkpoint.

        Returns:
            The path.

        Raises:
            CheckpointExistsError: There is something at the path, or no checkpoint that could be replaced. RLlib writes
                over it.
            StateMismatchError: `state` is not of this object.
        """
        target = Path(tempfile.mkdtemp(prefix="rlpipe-")) / "checkpoint" if path is None else place_of(path)
        snapshot = snapshot_of(self)
        if state is not None:
            snapshot = _with_state(snapshot, state)
        return str(write_checkpoint(snapshot, target, backend=backend, if_exists=if_exists))

    def restore_from_path(self, path: str | os.PathLike[str], *, component: str | None = None) -> RestoreReport:
        """Take over the state of a checkpoint. All of it is read and checked before anything is changed.

        Args:
            path: The checkpoint's directory; with `component`, the directory of that component.
            component: Path of the component of this object to restore, such as "policies/p1"; None for all of it.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            SpecError: It is of something else, or there is no such component.
            StateMismatchError: Missing, unexpected and mismatched entries, all of them.
            TieError: Other components share arrays with this one, which would change unseen.
        """
        target = object_at(self, component or "")

        def restore(directory: Place) -> RestoreReport:
            found = read_checkpoint(directory, arrays="later")
            if component:
                require_whole_ties(glance_of(self), found, at=component)
            return restore_into(target, found)

        return steadily(path, restore)

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], *, device: str = "cpu", trust: tuple[str, ...] = ()) -> Self:
        """Build the object that a checkpoint describes.

        Args:
            path: The directory of a checkpoint, or of a component in one, of this class or a subclass.
            device: Where its arrays live. On "meta" no array is read.
            trust: Classes that the caller vouches for (see `resolve_class`); this one is trusted.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            UntrustedClassError: A class that nobody vouched for; it was not imported.
            SpecError: The checkpoint is of another class, or cannot be built.
            StateMismatchError: The state does not fit what the spec builds.
            DeviceError: This machine lacks the device.
        """
        trusted = with_trust(trust, class_path_of(cls))
        resolve_class(read_manifest(path).spec.class_path, cls, trust=trusted, where=str(path))
        when: When = "none" if device == "meta" else "later"
        return cast(
            Self,
            steadily(
                path,
                lambda directory: build(read_checkpoint(directory, arrays=when), device=device, trust=trusted),
            ),
        )


def _names(components: str | Collection[str]) -> tuple[str, ...]:
    return (components,) if isinstance(components, str) else tuple(components)


def _without(snapshot: Snapshot, left_out: tuple[str, ...], path: str) -> Snapshot:
    children = {
        name: _without(child, left_out, below(path, name))
        for name, child in snapshot.children.items()
        if not any(matches(below(path, name), pattern) for pattern in left_out)
    }
    return replace(snapshot, children=children)


def _with_state(live: Snapshot, state: Mapping[str, Any]) -> Snapshot:
    """The snapshot with a state in place of its own; slim if the state has only its inference entries."""
    patch = patch_of(live, state)
    slim = select(live, _INFERENCE)
    expected = slim if _keys(patch.found) == _keys(slim) != _keys(live) else live
    require_fit(expected, patch.found)
    return _filled(expected, patch.found)


def _keys(snapshot: Snapshot) -> set[str]:
    return {below(path, key) for path, part in walk(snapshot) for key in part.roles}


def _filled(shape: Snapshot, values: Snapshot) -> Snapshot:
    children = {name: _filled(child, values.children[name]) for name, child in shape.children.items()}
    return replace(shape, state=values.state, children=children)
