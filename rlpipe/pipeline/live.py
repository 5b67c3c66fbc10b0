"""Live policies: built on a device, and tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Space, from_json

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy

PROBES = 2
PROBE_SEED = 0


@dataclass(frozen=True, slots=True)
class PolicySpaces:
    """The spaces of the environment that a policy acts in."""

    observation: Space
    action: Space


def spaces_of(policy: Snapshot) -> PolicySpaces:
    """The spaces in a policy's spec."""
    config = policy.spec.config
    return PolicySpaces(
        from_json(config["observation_space"], where="observation_space"),
        from_json(config["action_space"], where="action_space"),
    )


def build_policies(container: Snapshot, *, device: str, trust: tuple[str, ...]) -> Mapping[str, Policy]:
    """The policies of a container on a device, in eval mode, tied as they were; on ``meta`` arrays may be stand-ins.

    Raises:
        DeviceError: This machine lacks the device.
        UntrustedClassError: A class that nobody vouched for.
        SpecError: A policy cannot be built.
        StateMismatchError: A state does not fit what its spec builds.
    """
    from rlpipe.checkpoint.restore import build

    built: Any = build(container, device=device, trust=trust)
    policies: dict[str, Policy] = dict(built.items())
    for policy_id, policy in policies.items():
        policy.module.eval()
        policy.metadata = dict(container.children[policy_id].metadata)
    return policies


def probe(policy: Policy, spaces: PolicySpaces, *, policy_id: str) -> str:
    """Let a policy act on a few observations drawn from its space; says in words what came out.

    Raises:
        SpecError: The actions are not in the action space.
    """
    observations = spaces.observation.sample(PROBES, np.random.default_rng(PROBE_SEED))
    actions = policy.compute_actions(observations)
    if not spaces.action.contains(actions):
        raise SpecError(
            f"{policy_id} gives actions that are not in its action space",
            expected=spaces.action.describe(),
            found=_short(actions),
            fix="the weights may hold NaN or infinite numbers, or the action stages may be wrong: see task=info",
        )
    return f"{PROBES} actions in {spaces.action.describe()}"


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:120]
