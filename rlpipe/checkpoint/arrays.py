"""Bare arrays: a component that knows what it holds and not what it is for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.reader import read_checkpoint, read_manifest
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import DeviceError, SpecError
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import State, canonical, copied, entries

CLASS_PATH = "rlpipe.checkpoint.arrays.Arrays"


class Arrays(Checkpointable):
    """A state without a network, such as the arrays of a file that says nothing else.

    It can be saved, read, verified, compared, taken apart and put together. What it cannot is act: nothing says what
    computes with the arrays, so that nothing can be built of its spec.

    Args:
        state: Nested dicts, lists and tuples of arrays and plain values; arrays are not copied.
        metadata: Plain JSON, such as where they come from.
    """

    def __init__(self, state: Mapping[str, Any], *, metadata: Mapping[str, Json] | None = None) -> None:
        self.state: State = canonical(state)
        self.metadata: dict[str, Json] = dict(metadata or {})

    def get_spec(self) -> Spec:
        """A spec that says nothing but what kind of thing this is."""
        return Spec(CLASS_PATH)

    def get_own_state(self) -> State:
        """The state itself."""
        return self.state

    def get_own_roles(self) -> Mapping[str, Role]:
        """Everything may be what acts, so everything counts as that."""
        return dict.fromkeys(entries(self.state), "inference")

    def set_own_state(self, state: State) -> None:
        """Take over a copy of a state of the same keys, dtypes and shapes."""
        self.state = copied(state)

    def get_snapshot_metadata(self) -> Mapping[str, Json]:
        """Where the arrays come from."""
        return self.metadata

    def set_snapshot_metadata(self, metadata: Mapping[str, Json]) -> None:
        """Take over where the arrays come from."""
        self.metadata = dict(metadata)

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], *, device: str = "cpu", trust: tuple[str, ...] = ()) -> Self:
        """The bare arrays of a checkpoint, in memory of their own.

        Args:
            path: The directory of a checkpoint, or of a component in one, of this class.
            device: Only "cpu".
            trust: Ignored; no class is built.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            SpecError: It is of something else.
            DeviceError: Another device.
        """
        del trust
        if device != "cpu":
            raise DeviceError("bare arrays lie in main memory", expected="cpu", found=device)
        found = read_manifest(path).spec.class_path
        if found != CLASS_PATH:
            raise SpecError(f"{path} holds something else", expected=CLASS_PATH, found=found)
        snapshot = read_checkpoint(path)
        return cls(copied(snapshot.state), metadata=snapshot.metadata)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Restorable], *, device: str, trust: tuple[str, ...]) -> Self:
        """Refuse: there is nothing to build.

        Raises:
            SpecError: Always.
        """
        del spec, children, device, trust
        raise SpecError(
            "these are bare arrays: there is no network to run, restore or export",
            expected="a policy or a module, whose spec says what it computes",
            found="arrays of a file that says only their names",
            fix="build the module that they belong to and put them in with set_state; "
            "Arrays.from_checkpoint(path).state has them",
        )
