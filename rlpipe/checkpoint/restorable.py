"""What a component implements so that it can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from rlpipe.errors import TieError
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import Array, State


class Restorable(ABC):
    """A component: it knows what it is, what it has learnt itself, and which components are in it."""

    @abstractmethod
    def get_spec(self) -> Spec:
        """What it is: enough, with its children, for `build_from` to build another one."""

    @abstractmethod
    def get_own_state(self) -> State:
        """What it has learnt, without its components.

        Arrays may be views of live memory. Names of the state and of components must differ. Arrays that are one in the
        object must be one array, or views of the same memory, here too. An object on the device "meta" gives arrays of
        `rlpipe.snapshot.numberless`, so that they are never taken for what it has learnt.
        """

    @abstractmethod
    def get_own_roles(self) -> Mapping[str, Role]:
        """Entry key -> role, one for each entry of the own state."""

    @abstractmethod
    def set_own_state(self, state: State) -> None:
        """Take over a state, copying what is kept.

        Args:
            state: Exactly the entries of `get_own_state`, with the same dtypes and shapes. Its arrays are read-only.
        """

    def get_own_memory(self) -> Mapping[str, Array]:
        """The memory itself of arrays of the own state that may be filled from outside: array key -> writable array.

        What a restore finds in a file goes straight there, without a copy in between; only arrays in C order are of
        use. `set_own_state` then gets these very arrays, filled, and `check_own_state` their descriptions, which have
        dtype and shape, and are equal where the arrays are.
        """
        return {}

    @classmethod
    @abstractmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Restorable], *, device: str, trust: tuple[str, ...]) -> Self:
        """A new object of a spec; its state is set afterwards.

        Args:
            spec: What it is.
            children: Name -> component that was built for it.
            device: Where its arrays live, such as "cpu", "cuda:0", or "meta" for no memory at all.
            trust: Classes that the caller vouches for (see `resolve_class`).

        Raises:
            SpecError: The spec cannot be built.
            DeviceError: This machine lacks the device.
        """

    def check_own_state(self, state: State) -> None:  # noqa: B027  nothing to refuse by default
        """Refuse a state that `set_own_state` could not take, such as one with a variance below zero.

        It is called on every component before `set_own_state` is called on any, so that a refusal changes nothing.
        """

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """Name and object of each component inside."""
        return []

    def get_snapshot_metadata(self) -> Mapping[str, Json]:
        """Plain JSON for people and reports; not part of what it is."""
        return {}

    def set_snapshot_metadata(self, metadata: Mapping[str, Json]) -> None:  # noqa: B027  nothing is kept by default
        """Take over what `get_snapshot_metadata` of another object gave, after all of its state."""

    def stands_for(self) -> Restorable:
        """The component itself; another one, where this one has no state of its own and only stands for that."""
        return self

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Make arrays of different components one again, after all are built and before their states are set.

        Args:
            ties: For each tie, at least two (component path from here, array key) that shall share memory.

        Raises:
            TieError: This class cannot tie its components.
        """
        raise TieError(
            f"{type(self).__qualname__} cannot tie arrays of its components again",
            expected="a class that defines tie_components",
            found="; ".join(" with ".join(f"{path}/{key}" for path, key in tie) for tie in ties),
            fix="restore the components one by one, or let go of the ties: select.ties=untie",
        )
