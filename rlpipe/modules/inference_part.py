"""What of a state acts."""

from __future__ import annotations

from rlpipe.checkpoint.restorable import Restorable
from rlpipe.snapshot.state import State, entries, from_entries


def inference_part(component: Restorable, state: State) -> State:
    """The inference entries of a nested state, of the component itself and of those inside that the state names."""
    inside = {
        name: inference_part(child, state[name])
        for name, child in component.get_checkpointable_components()
        if name in state
    }
    roles = component.get_own_roles()
    own = entries({name: value for name, value in state.items() if name not in inside})
    return {**from_entries({key: value for key, value in own.items() if roles[key] == "inference"}), **inside}
