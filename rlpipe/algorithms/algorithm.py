"""The root of a checkpoint: an algorithm and its policies."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.place import Place
from rlpipe.checkpoint.reader import When
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.checkpoint.steady import steadily
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.tying import tie
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.policy_tree import CONTAINER, build_policies, read_policies
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import State


class Algorithm(Checkpointable):
    """Holds policies under their ids. The names are RLlib's.

    Args:
        policies: A container of policies, or id -> policy.

    Raises:
        IdError: An id that cannot name a directory.
    """

    def __init__(self, policies: MultiRLModule | Mapping[str, Policy]) -> None:
        self.policies = policies if isinstance(policies, MultiRLModule) else MultiRLModule(policies)

    def get_policy(self, policy_id: str) -> Policy:
        """The policy of an id.

        Raises:
            SelectionError: There is none; RLlib gives None.
        """
        policy: Policy = self.policies[policy_id]
        return policy

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        policy_ids: Collection[str] | None = None,
        *,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """The algorithm of a checkpoint, with all of its policies or some.

        Args:
            path: A checkpoint of an algorithm.
            policy_ids: Ids or globs; only the files of these policies are opened. None for all.
            device: Where they live; on "meta" no array is read.
            trust: Classes that the caller vouches for.

        Raises:
            CheckpointError: There is no checkpoint, or it is damaged.
            SelectionError: An id that is not there.
            TieError: A chosen policy shares arrays with something that is not chosen.
        """
        if policy_ids is None:
            return super().from_checkpoint(path, device=device, trust=trust)
        when: When = "none" if device == "meta" else "later"

        def read_and_build(directory: Place) -> dict[str, Any]:
            return build_policies(read_policies(directory, policy_ids, arrays=when), device=device, trust=trust)

        return cls(steadily(path, read_and_build))

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        specs: Mapping[str, PolicySpec],
        *,
        device: str = "cpu",
        trust: tuple[str, ...] = (),
    ) -> Self:
        """An algorithm of policy specs with a state of `get_state()`.

        Raises:
            StateMismatchError: The state is not of these specs.
        """
        algorithm = cls({name: spec.build(device=device, trust=trust) for name, spec in specs.items()})
        algorithm.set_state(state)
        return algorithm

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """The container of policies."""
        return [(CONTAINER, self.policies)]

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        return Spec(class_path_of(type(self)))

    def get_own_state(self) -> State:
        """Nothing of its own."""
        return {}

    def get_own_roles(self) -> Mapping[str, Role]:
        """See `Restorable`."""
        return {}

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Let components share parameters again."""
        tie(self, ties)

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del spec, device, trust
        return cls(children[CONTAINER])
