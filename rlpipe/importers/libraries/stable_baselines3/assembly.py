"""The parts of a zip put together: stages, spec, state, roles and metadata of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rlpipe.importers.libraries.stable_baselines3.container import SavedModel
from rlpipe.importers.libraries.stable_baselines3.networks import Network
from rlpipe.importers.libraries.stable_baselines3.settings import flag
from rlpipe.importers.libraries.stable_baselines3.spaces import without_start
from rlpipe.importers.libraries.stable_baselines3.statistics import Statistics
from rlpipe.policies.default_stages import default_action_stages, default_observation_stages
from rlpipe.policies.stages import Cast, Flatten, Normalize, Scale, Stage, prepared_space, stages_to_json
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.spaces import Box, Discrete, MultiDiscrete, Space, to_json
from rlpipe.snapshot.spec import Json, Spec
from rlpipe.snapshot.state import from_entries

LIBRARY = "stable_baselines3"
_POLICY = "rlpipe.policies.policy.Policy"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Parts:
    """What is known of a policy before its networks are taken apart.

    Attributes:
        model: The zip.
        algorithm: Such as "PPO".
        observation_space: What the environment gives, as the trainer takes it.
        action_space: What the environment takes.
        statistics: Normalisation of observations, or None.
    """

    model: SavedModel
    algorithm: str
    observation_space: Space
    action_space: Space
    statistics: Statistics | None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages before the networks, as stable_baselines3/common/preprocessing.py has them."""
        if self.statistics is not None:
            flat = () if len(self.statistics.shape) == 1 else (Flatten(),)
            return (Normalize("var_eps", self.statistics.eps, self.statistics.clip), *flat)
        if not _is_image(self.observation_space):
            return default_observation_stages(self.observation_space)
        scaled = flag(self.model, "normalize_images", default=True)
        return (Scale(255.0) if scaled else Cast("float32"), Flatten())

    @property
    def prepared(self) -> Space:
        """The space of what goes into the networks: one row of float32."""
        return prepared_space(self.observation_space, self.stages)


def _is_image(space: Space) -> bool:
    """As is_image_space() there: any uint8 box of three axes from 0 to 255."""
    if not isinstance(space, Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return False
    return bool(np.all(space.low == 0) and np.all(space.high == 255))


def outputs_of(space: Space) -> int:
    """How many numbers decide on an action of a space."""
    if isinstance(space, Discrete):
        return space.n
    return int(space.nvec.sum()) if isinstance(space, MultiDiscrete) else size_of(space)


def size_of(space: Space) -> int:
    """How many numbers one value of a space of arrays has."""
    return sum(prod(leaf.shape) for _, leaf in space.leaves(""))


def snapshot_of(parts: Parts, network: Network) -> Snapshot:
    """The policy as a snapshot, keys and roles as rlpipe's own policies have them."""
    entries = network.entries | (parts.statistics.entries() if parts.statistics is not None else {})
    return Snapshot(
        spec=Spec(_POLICY, _config(parts, network), _OPTIONS),
        state=from_entries(entries),
        roles={key: "training" if key.startswith(network.training) else "inference" for key in sorted(entries)},
        metadata=_metadata(parts),
    )


_OPTIONS: Mapping[str, Json] = {"inference_only": False, "learner_only": False, "non_inference_attributes": None}


def _config(parts: Parts, network: Network) -> dict[str, Json]:
    action_space = to_json(parts.action_space)
    return {
        "module": {
            "class": network.module,
            "observation_space": to_json(parts.prepared),
            "action_space": action_space,
            "model_config": dict(network.model_config),
        },
        "observation_space": to_json(parts.observation_space),
        "action_space": action_space,
        "observation": stages_to_json(parts.stages),
        "action": stages_to_json(default_action_stages(without_start(parts.action_space), network.output)),
    }


def _metadata(parts: Parts) -> dict[str, Json]:
    model = parts.model
    source: dict[str, Any] = {
        "library": LIBRARY,
        "version": model.version,
        "algorithm": parts.algorithm,
        "file": model.name,
        "sha256": model.sha256,
        "timesteps": model.steps,
    }
    if parts.statistics is not None:
        source["normalizer"] = {"file": parts.statistics.name, "sha256": parts.statistics.sha256}
    return {"trained": model.steps > 0, "source": source}
