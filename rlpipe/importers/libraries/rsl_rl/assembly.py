"""The parts of a run put together: module, stages, spec, state, roles and metadata of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun
from rlpipe.importers.libraries.rsl_rl.deployment import Deployment
from rlpipe.importers.libraries.rsl_rl.networks import Entries
from rlpipe.importers.libraries.rsl_rl.settings import Settings
from rlpipe.importers.libraries.rsl_rl.statistics import STAGE
from rlpipe.policies.default_stages import default_action_stages
from rlpipe.policies.stages import prepared_space, stages_to_json
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
        inputs: Elements of the observation.
        actions: Elements of the action.
        clip_actions: Bound on the size of actions, or None.
        model_config: Architecture of the module.
        entries: Keys of its state -> arrays.
        statistics: Those of the observations, or None.
        has_critic: Whether the critic came along.
    """

    run: SavedRun
    settings: Settings
    deployment: Deployment
    inputs: int
    actions: int
    clip_actions: float | None
    model_config: Mapping[str, Any]
    entries: Entries
    statistics: Entries | None
    has_critic: bool


def snapshot_of(parts: Parts) -> Snapshot:
    """The policy as a snapshot, keys and roles as rlpipe's own policies have them."""
    entries = parts.entries | (parts.statistics or {})
    options: dict[str, Json] = {
        "inference_only": not parts.has_critic,
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
    observations = Box.uniform(-inf, inf, (parts.inputs,))
    bound = inf if parts.clip_actions is None else parts.clip_actions
    actions = Box.uniform(-bound, bound, (parts.actions,))
    stages = (STAGE,) if parts.statistics is not None else ()
    return {
        "module": {
            "class": _MODULE,
            "observation_space": to_json(prepared_space(observations, stages)),
            "action_space": to_json(actions),
            "model_config": dict(parts.model_config),
        },
        "observation_space": to_json(observations),
        "action_space": to_json(actions),
        "observation": stages_to_json(stages),
        "action": stages_to_json(default_action_stages(actions, "mean")),
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
