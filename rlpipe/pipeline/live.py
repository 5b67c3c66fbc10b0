"""Live policies: built on a device, and tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpipe.errors import SpecError
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Space, flat_batch, from_json, nested_batch
from rlpipe.snapshot.state import Array, arrays

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy

PROBES = 2
PROBE_SEED = 0
_FAR = 1e3


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
        SpecError: The network fails, decides by NaN or infinite numbers, or gives actions not in the action space.
    """
    drawn = flat_batch(spaces.observation, spaces.observation.sample(PROBES, np.random.default_rng(PROBE_SEED)), "obs")
    # A healthy network may overflow for numbers that its environment allows and never gives.
    tame = {name: np.clip(array, -_FAR, _FAR) if array.dtype.kind == "f" else array for name, array in drawn.items()}
    observations = nested_batch(spaces.observation, tame, "obs")
    _require_finite(policy, np.asarray(policy.scores(observations)), policy_id=policy_id)
    actions = policy.step(observations).actions
    if not spaces.action.contains(actions):
        raise SpecError(
            f"{policy_id} gives actions that are not in its action space",
            expected=spaces.action.describe(),
            found=_short(actions),
            fix="the weights may hold NaN or infinite numbers, or the action stages may be wrong: see task=info",
        )
    return f"{PROBES} actions in {spaces.action.describe()}"


def _require_finite(policy: Policy, scores: Array, *, policy_id: str) -> None:
    # A choice may be masked by minus infinity.
    is_choice = any(stage.decides for stage in policy.spec.action)
    if np.isfinite(np.maximum(scores, 0) if is_choice else scores).all():
        return
    keys = [key for key, array in arrays(policy.get_own_state()).items() if not _is_finite(array)]
    raise SpecError(
        f"{policy_id} decides by numbers that are not finite",
        expected="finite scores, or finite means of actions",
        found=f"NaN or infinite numbers, first in {keys[0]}" if keys else f"finite weights that give {_short(scores)}",
        fix="training had diverged: take an earlier checkpoint",
    )


def _is_finite(array: Array) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:120]
