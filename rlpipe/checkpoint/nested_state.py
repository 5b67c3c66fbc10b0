"""The states of a whole tree as one nested dict, as RLlib's `get_state` gives and `set_state` takes it.

A component's own entries and its components stand side by side: {"epsilon": 0.1, "policies": {"p0": {...}}}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpipe.snapshot.snapshot import Snapshot, below
from rlpipe.snapshot.state import State, canonical, entries


@dataclass(frozen=True, slots=True)
class Patch:
    """A nested state set against the snapshot that it shall change.

    Attributes:
        expected: The part of the snapshot that the state is about.
        found: The same part with the state's values, whatever they are.
    """

    expected: Snapshot
    found: Snapshot


def nested_state(snapshot: Snapshot) -> State:
    """The states of a snapshot and of everything in it."""
    return {**snapshot.state, **{name: nested_state(child) for name, child in snapshot.children.items()}}


def patch_of(live: Snapshot, state: Mapping[str, Any], path: str = "") -> Patch:
    """Set a nested state against a live snapshot.

    A component that the state does not name is no part of the patch. Where the state names components and no own
    entries, own entries are no part of it either.

    Raises:
        UnsupportedStateError: The state holds what no checkpoint can hold.
    """
    inside = {
        name: patch_of(child, state[name], below(path, name)) for name, child in live.children.items() if name in state
    }
    own = canonical({name: value for name, value in state.items() if name not in inside}, where=path or "state")
    found = replace(
        live,
        state=own,
        roles={key: live.roles.get(key, "training") for key in entries(own)},
        children={name: patch.found for name, patch in inside.items()},
    )
    shell: dict[str, Any] = {"state": {}, "roles": {}} if inside and not own else {}
    children = {name: patch.expected for name, patch in inside.items()}
    # A state that names nothing at all is missing everything.
    everything = {} if inside or own else dict(live.children)
    return Patch(replace(live, **shell, children=children or everything), found)
