"""What of a state acts."""

from __future__ import annotations

from collections.abc import Collection

from rlpipe.checkpoint.checkpointable import Checkpointable
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


class InferenceCheckpointable(Checkpointable):
    """A `Checkpointable` whose state can be asked for without what only training needs."""

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
    ) -> State:
        """A copy of the state, components under their names; with `inference_only` just what a slim one has.

        Args:
            components: See `Checkpointable.get_state`.
            not_components: See `Checkpointable.get_state`.
            inference_only: Leave out the entries of the role training.

        Raises:
            SelectionError: A name that no component has.
        """
        state = super().get_state(components, not_components=not_components)
        return inference_part(self, state) if inference_only else state
