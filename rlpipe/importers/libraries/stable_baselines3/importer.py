"""A zip of Stable-Baselines3 as the snapshot of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from rlpipe.errors import listed
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.importers.libraries.stable_baselines3.assembly import Parts, outputs_of, size_of, snapshot_of
from rlpipe.importers.libraries.stable_baselines3.container import VARIABLES, SavedModel, is_saved_model, open_model
from rlpipe.importers.libraries.stable_baselines3.networks import (
    LOG_ALPHA,
    Network,
    Shape,
    actor_critic,
    q_network,
    soft_actor_critic,
)
from rlpipe.importers.libraries.stable_baselines3.normalizer import AUTO, Choice, choose
from rlpipe.importers.libraries.stable_baselines3.settings import (
    activation_of,
    algorithm_of,
    flag,
    number,
    require_plain_features,
)
from rlpipe.importers.libraries.stable_baselines3.spaces import as_acted_in, departures_of, read_space, without_start
from rlpipe.importers.libraries.stable_baselines3.weights import Weights
from rlpipe.snapshot.spaces import Box
from rlpipe.snapshot.state import Array

_READ_FIELDS = frozenset(
    {
        *("policy_class", "policy_kwargs", "observation_space", "action_space"),
        *("num_timesteps", "n_envs", "_last_obs", "_last_original_obs"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a zip is read.

    Attributes:
        normalizer: "auto" looks for VecNormalize statistics beside the zip and uses those that belong to it; "none"
            uses none; anything else is the path of a statistics file.
        policy_id: Id that the policy gets where it is put among others.
    """

    normalizer: str = AUTO
    policy_id: str = "p0"


@dataclass(frozen=True, slots=True)
class _Family:
    """How the policies of some algorithms are built.

    Attributes:
        networks: Takes the weights apart.
        activation: The activation where the file names none.
        off_policy: Whether the algorithm learns from a replay buffer.
    """

    networks: Callable[[Weights, Shape, Mapping[str, Array]], Network]
    activation: str
    off_policy: bool


_FAMILIES: Mapping[str, _Family] = MappingProxyType(
    {
        **dict.fromkeys(("PPO", "A2C", "TRPO", "MaskablePPO"), _Family(actor_critic, "tanh", off_policy=False)),
        "DQN": _Family(q_network, "relu", off_policy=True),
        "SAC": _Family(soft_actor_critic, "relu", off_policy=True),
    }
)


def recognise(path: Path) -> bool:
    """Whether the file is a zip that `model.save()` of Stable-Baselines3 wrote, whatever it is called."""
    return is_saved_model(path)


def read(path: Path, options: Options) -> ImportedFile:
    """The policy in a zip, with its statistics.

    Raises:
        ForeignFormatError: The zip is damaged or incomplete, or holds a policy that is not supported; says which.
        UnsafePayloadError: A part that is needed asks for more than numbers.
        NormalizerError: Statistics are missing, do not belong to the zip, or are not finite.
    """
    model = open_model(path)
    algorithm = algorithm_of(model)
    require_plain_features(model)
    observation_space, observation_notes = read_space(model, "observation_space")
    action_space, action_notes = read_space(model, "action_space")
    family = _FAMILIES[algorithm]
    choice = choose(model, path, options.normalizer, observation_space, off_policy=family.off_policy)
    parts = Parts(
        model=model,
        algorithm=algorithm,
        observation_space=without_start(observation_space),
        action_space=as_acted_in(action_space),
        statistics=choice.normalizing,
    )
    weights = Weights(model.weights, subject=model.name)
    network = family.networks(weights, _shape(parts, family), model.variables)
    weights.require_empty()
    departures = (*departures_of(observation_space), *departures_of(action_space))
    notes = (*observation_notes, *action_notes, *departures, *choice.notes, *_warnings(parts, network))
    return ImportedFile(snapshot_of(parts, network), _report(model, weights, choice, notes))


def _shape(parts: Parts, family: _Family) -> Shape:
    return Shape(
        features=size_of(parts.prepared),
        outputs=outputs_of(parts.action_space),
        continuous=isinstance(parts.action_space, Box),
        activation=activation_of(parts.model, default=family.activation),
        squash_output=flag(parts.model, "squash_output", default=False),
        clip_mean=number(parts.model, "clip_mean", default=2.0),
    )


def _warnings(parts: Parts, network: Network) -> list[str]:
    notes = []
    if parts.model.compiled:
        notes.append("names of weights without the _orig_mod of torch.compile")
    if parts.algorithm == "MaskablePPO":
        notes.append("action masks are no part of the policy: it chooses among all actions")
    if broken := [key for key, array in network.entries.items() if not np.all(np.isfinite(array))]:
        notes.append(f"weights that are not finite: {listed(broken)}")
    return notes


def _report(model: SavedModel, weights: Weights, choice: Choice, notes: tuple[str, ...]) -> ImportReport:
    variables = [f"{VARIABLES}: {name}" for name in model.variables if name == LOG_ALPHA]
    statistics = [choice.normalizing.name] if choice.normalizing else []
    skipped = [(f"{VARIABLES}: {name}", "a setting of training") for name in model.variables if name != LOG_ALPHA]
    if unread := sorted(model.data.keys() - _READ_FIELDS):
        skipped.append((f"data: {', '.join(unread)}", "settings and leftovers of training"))
    confirmed = choice.notes[:1] if choice.is_proved else ()
    imported = (*sorted(weights.taken), *variables, *statistics)
    return ImportReport(imported=imported, skipped=(*model.skipped, *skipped), notes=notes, confirmed=confirmed)
