"""A component that is live in two places of a tree, with a copy of its own on disk in this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np

from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import SpecError
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import Array, State, equal, map_arrays

_COPIES: WeakValueDictionary[Any, Array] = WeakValueDictionary()
"""Memory -> the copy of it, so that arrays that are one stay one among the copies."""


class OwnCopy(Restorable):
    """Stands for a component where a second directory of it must be able to stand alone.

    Its state is a copy, so that the two directories are not tied: each is read without the other. What is restored
    here goes into the component itself.
    """

    def __init__(self, component: Any) -> None:
        self.component = component

    def get_spec(self) -> Spec:
        """That of the component: a restore builds the component."""
        spec: Spec = self.component.get_spec()
        return spec

    def get_own_state(self) -> State:
        """Copies of the arrays."""
        state = self.component.get_own_state()
        return {name: map_arrays(value, _copied) for name, value in state.items()}

    def get_own_roles(self) -> Mapping[str, Role]:
        """See `Restorable`."""
        roles: Mapping[str, Role] = self.component.get_own_roles()
        return roles

    def check_own_state(self, state: State) -> None:
        """See `Restorable`."""
        self.component.check_own_state(state)

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        self.component.set_own_state(state)

    def get_own_memory(self) -> Mapping[str, Array]:
        """That of the component."""
        memory: Mapping[str, Array] = self.component.get_own_memory()
        return memory

    def stands_for(self) -> Restorable:
        """The component."""
        component: Restorable = self.component
        return component

    def own_tensor(self, key: str) -> Any:
        """See `HoldsTensors`."""
        return self.component.own_tensor(key)

    def share_tensor(self, key: str, tensor: Any) -> None:
        """See `HoldsTensors`."""
        self.component.share_tensor(key, tensor)

    def get_snapshot_metadata(self) -> Mapping[str, Json]:
        """See `Restorable`."""
        metadata: Mapping[str, Json] = self.component.get_snapshot_metadata()
        return metadata

    def set_snapshot_metadata(self, metadata: Mapping[str, Json]) -> None:
        """See `Restorable`."""
        self.component.set_snapshot_metadata(metadata)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """Never asked for: the spec names the component's class.

        Raises:
            SpecError: Always.
        """
        del children, device, trust
        raise SpecError("a copy is no component of its own", expected=spec.class_path, found=cls.__qualname__)


def _copied(array: Array) -> Array:
    if not any(array.strides) and array.size > 1:  # of a device without memory
        return array
    place = (array.__array_interface__["data"][0], array.dtype, array.shape, array.strides)
    earlier = _COPIES.get(place)
    if earlier is not None and equal(earlier, array):
        return earlier
    _COPIES[place] = made = np.array(array)
    return made
