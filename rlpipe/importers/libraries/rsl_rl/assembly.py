"""The parts of a run put together: module, stages, spec, state, roles and metadata of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from rlpipe.importers.libraries.rsl_rl.actor import Critic, Head, Network
from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun
from rlpipe.importers.libraries.rsl_rl.deployment import Deployment
from rlpipe.importers.libraries.rsl_rl.networks import Entries
from rlpipe.importers.libraries.rsl_rl.settings import Settings
from rlpipe.importers.libraries.rsl_rl.statistics import STAGE
from rlpipe.policies.default_stages import default_action_stages
from rlpipe.policies.stages import Affine, Clip, Stage, prepared_space, stages_to_json
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Box, to_json
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import from_entries

LIBRARY = "rsl_rl"
_POLICY = "rlpipe.policies.policy.Policy"
_MODULE = "rlpipe.modules.torch.ppo.PPOModule"
_TRAINING = ("vf/", "encoder/critic_encoder/")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Parts:
    """What is known of a policy.

    Attributes:
        run: The file.
        settings: The files beside it.
        deployment: What deployment needs beyond the policy.
        actor: The acting network.
        head: How its last layer becomes an action.
        critic: The value network, if it comes along.
        activation: What is between the layers.
        clip_actions: Bound on the size of actions, or None.
        entries: Keys of the module's state -> arrays.
        statistics: Those of the observations, or None.
    """

    run: SavedRun
    settings: Settings
    deployment: Deployment
    actor: Network
    head: Head
    critic: Critic
    activation: str
    clip_actions: float | None
    entries: Entries
    statistics: Entries | None

    @property
    def model_config(self) -> dict[str, Any]:
        """Architecture of the module."""
        return {
            "shared": None,
            "actor": self.actor.encoder(self.activation),
            "critic": self.critic.encoder(self.activation),
            "log_std": self.head.log_std,
            "squash": False,
        }

    @property
    def state(self) -> dict[str, Any]:
        """What the module remembers, as its spec says it: {} for nothing."""
        memory = self.actor.memory
        if memory is None:
            return {}
        part = {"shape": [memory.layers, memory.hidden], "dtype": "float32"}
        return {f"actor/{name}": part for name in (("c", "h") if memory.kind == "lstm" else ("h",))}

    @property
    def target(self) -> tuple[Stage, ...]:
        """The stages behind the action, to what the actuators are told; () where that is not known."""
        known = self.deployment
        if known.scale is None or known.offset is None:
            return ()
        lows, highs = zip(*known.clip, strict=True) if known.clip else ((), ())
        return (Affine(known.scale, known.offset), *((Clip(lows, highs),) if known.clip else ()))


def snapshot_of(parts: Parts) -> Snapshot:
    """The policy as a snapshot, keys and roles as rlpipe's own policies have them."""
    entries = parts.entries | (parts.statistics or {})
    options: dict[str, Json] = {
        "inference_only": parts.critic.network is None,
        "learner_only": False,
        "non_inference_attributes": None,
    }
    return Snapshot(
        spec=Spec(_POLICY, _config(parts), options),
        state=from_entries(entries),
        roles={key: "training" if key.startswith(_TRAINING) else "inference" for key in sorted(entries)},
        metadata=_metadata(parts),
    )


def _config(parts: Parts) -> dict[str, Json]:
    observations = Box.uniform(-inf, inf, (parts.actor.inputs,))
    bound = inf if parts.clip_actions is None else parts.clip_actions
    actions = Box.uniform(-bound, bound, (parts.head.actions,))
    stages = (STAGE,) if parts.statistics is not None else ()
    return {
        "module": {
            "class": _MODULE,
            "observation_space": to_json(prepared_space(observations, stages)),
            "action_space": to_json(actions),
            "model_config": parts.model_config,
            **({"state": parts.state} if parts.state else {}),
        },
        "observation_space": to_json(observations),
        "action_space": to_json(actions),
        "observation": stages_to_json(stages),
        "action": stages_to_json(default_action_stages(actions, "mean")),
        **({"target": stages_to_json(parts.target)} if parts.target else {}),
    }


def _metadata(parts: Parts) -> dict[str, Json]:
    run, deployment = parts.run, parts.deployment
    source: dict[str, Any] = {
        "library": LIBRARY,
        "version": run.layout,
        "algorithm": run.algorithm,
        "file": run.name,
        "sha256": run.sha256,
        "iteration": run.iteration,
    }
    if parts.settings.files:
        source["settings"] = [{"file": name, "sha256": digest} for name, digest in parts.settings.files]
    names = {"obs": list(deployment.observation_names), "action": list(deployment.joint_names)}
    return {
        "trained": run.iteration > 0,
        "source": source,
        **({"names": known} if (known := {name: given for name, given in names.items() if given}) else {}),
        **({"deployment": dict(deployment.facts)} if deployment.facts else {}),
    }
