"""Weights on their way from where policies are trained to where they act: reduced to what acts, and measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rlpipe.checkpoint.following import quietly
from rlpipe.checkpoint.restore import glance_of
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.probing import place_of
from rlpipe.modules.torch.trial import trial
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_tree import CONTAINER
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.state import State, arrays, copied, entries, from_entries

_INFERENCE = Selection(roles=frozenset({"inference"}), ties="untie")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes of one policy's weights on their way.

    Attributes:
        full: Of all that the policy has learnt.
        sent: Of what was sent; a tied array counts once.
    """

    full: int
    sent: int

    @property
    def saved(self) -> float:
        """Share of the bytes that did not have to be sent."""
        return 1 - self.sent / self.full if self.full else 0.0

    def __str__(self) -> str:
        return f"{self.sent:,} of {self.full:,} bytes sent, {self.saved:.0%} saved"


def reduced(policy: Policy) -> tuple[State, Transfer]:
    """A copy of what of a policy acts, and how much that is."""
    # What the module says of itself is proven when it is saved; between two steps there is no time for it.
    live = glance_of(policy)
    acting = select(live, _INFERENCE)
    return copied(acting.state), Transfer(_bytes(live), _bytes(acting))


def weights_of(
    policies: MultiRLModule, policy_ids: Collection[str] | None, *, inference_only: bool
) -> dict[str, State]:
    """Copies of the weights of some policies, or of all.

    Raises:
        SelectionError: A policy that is not there.
    """
    chosen = {name: policies[name] for name in (policies if policy_ids is None else policy_ids)}
    if inference_only:
        return {name: reduced(policy)[0] for name, policy in chosen.items()}
    return {name: policy.get_state() for name, policy in chosen.items()}


def state_of_weights(policies: MultiRLModule, weights: Mapping[str, State]) -> State:
    """The part of an algorithm's state that puts weights into policies, whole ones or what acts.

    Raises:
        SelectionError: A policy that is not there.
    """
    return {CONTAINER: {name: completed(policies[name], state) for name, state in weights.items()}}


def _bytes(snapshot: Snapshot) -> int:
    return sum({id(array): array.nbytes for array in arrays(snapshot.state).values()}.values())


def together(policies: MultiRLModule, ids: Collection[str]) -> list[str]:
    """Those of the ids that there are, and of policies that share a tensor with one of them."""
    tensors = {name: _places(policy) for name, policy in policies.items()}
    changed = set().union(*(tensors[name] for name in ids if name in tensors))
    return [name for name in policies if name in ids or not changed.isdisjoint(tensors[name])]


def _places(policy: Policy) -> set[int]:
    module = policy.module
    found = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers())}
    return found - {0}


def slim_copy(policy: Policy, *, trust: tuple[str, ...] = ()) -> Policy:
    """Another policy that has of this one what acts, on the same device; no random number is drawn for it."""
    place = place_of(policy.module)
    with trial(place):
        spec = policy.spec.with_inference_only(inference_only=True)
        made = Policy(spec, spec.module.build(device=str(place), trust=(*trust, *policy.module.trust)))
    if place.type != "meta":
        set_acting(made, reduced(policy)[0])
    made.metadata = dict(policy.metadata)
    return made


def set_acting(policy: Policy, weights: Mapping[str, Any]) -> None:
    """Put weights into a policy: all of them, or exactly what acts; of a full policy the rest stays.

    Raises:
        StateMismatchError: They are of another policy; nothing was changed.
    """
    with quietly():
        policy.set_state(completed(policy, weights))


def completed(policy: Policy, weights: Mapping[str, Any]) -> State:
    """Weights of a policy; where they are exactly what acts, with the policy's own training entries added."""
    roles = policy.get_own_roles()
    found = entries(dict(weights))
    acting = {key for key, role in roles.items() if role == "inference"}
    if found.keys() != acting or acting == roles.keys():
        return dict(weights)
    return from_entries(entries(policy.get_own_state()) | found)
