"""A policy of layouts 1.0 to 1.2, the old stack: its weights and settings in one file, `policy_state`.

Sources: ray/rllib/policy/policy.py (get_state, export_checkpoint), ray/rllib/connectors/agent/mean_std_filter.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, NormalizerError
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.rllib.acting import Bounds, require_actions
from rlpipe.importers.libraries.rllib.constructors import plain_fields
from rlpipe.importers.libraries.rllib.files import read_state, required_state, state_file
from rlpipe.importers.libraries.rllib.folders import ALGORITHM_STATE, POLICY_STATE, root_of, version_of
from rlpipe.importers.libraries.rllib.networks import Network
from rlpipe.importers.libraries.rllib.observing import Observing, seen_by
from rlpipe.importers.libraries.rllib.old_networks import network_of
from rlpipe.importers.libraries.rllib.old_spaces import original_space, read_space
from rlpipe.importers.libraries.rllib.parts import Origin, Parts
from rlpipe.importers.libraries.rllib.reshaping import flat_stages, module_stages
from rlpipe.importers.libraries.rllib.statistics import EPS, Statistics, statistics_of
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.importers.restricted.values import Name, Record
from rlpipe.policies.stages import Normalize, Stage, prepared_space
from rlpipe.snapshot.spaces import Box

_FILTERS = ("MeanStdObservationFilterAgentConnector", "ConcurrentMeanStdObservationFilterAgentConnector")
_TRAINING = "state of training; only RLlib can train on with it"


def read_old_policy(folder: Path, policy_id: str) -> ImportedFile:
    """The policy in a directory of the old stack.

    Raises:
        ForeignFormatError: It is no fully connected policy with a value function, or it is incomplete.
        UnsafePayloadError: The file is broken, or asks for more than plain values.
        NormalizerError: Statistics of observations are missing or broken.
    """
    state = read_state(folder, POLICY_STATE)
    spec = plain_fields(state.get("policy_spec"))
    config = plain_fields(spec.get("config"))
    given = read_space(spec.get("action_space"), subject=f"the action space of {policy_id}")
    action_space = require_actions(given, subject=policy_id)
    statistics = _statistics(state, config, folder, policy_id)
    observing = _observing(spec.get("observation_space"), statistics, policy_id)
    tensors = Tensors(plain_fields(state.get("weights")), subject=f"{policy_id} ({_class_name(spec)})")
    network = network_of(tensors, config, seen=seen_by(observing), space=action_space)
    steps = state.get("global_timestep")
    return Parts(
        origin=Origin(
            folder=folder,
            state=required_state(folder, POLICY_STATE)[0],
            algorithm=_class_name(spec),
            version=version_of(folder),
            steps=int(steps) if isinstance(steps, (int, np.integer)) else None,
        ),
        observing=observing,
        action_space=action_space,
        bounds=_bounds(config, network),
        network=network,
        tensors=tensors,
        skipped=tuple((name, _TRAINING) for name in sorted(map(str, state)) if name not in _TAKEN),
    ).imported()


_TAKEN = frozenset({"weights", "policy_spec", "connector_configs", "global_timestep"})


def _class_name(spec: Mapping[str, Any]) -> str:
    kind = spec.get("policy_class")
    name = kind.path if isinstance(kind, Name) else kind.class_path if isinstance(kind, Record) else str(kind)
    return name.rpartition(".")[2]


def _observing(space: Any, statistics: Statistics | None, policy_id: str) -> Observing:
    """RLlib's preprocessors flatten, and turn choices into one-hot; its filter works on what they made."""
    subject = f"the observation space of {policy_id}"
    made = read_space(space, subject=subject)
    raw = original_space(space, made, subject=subject)
    stages: tuple[Stage, ...] = () if raw == made else flat_stages(raw)
    if statistics is not None:
        if statistics.mean.shape != (made.shape if isinstance(made, Box) else None):
            expected, found = made.describe(), str(statistics.mean.shape)
            raise NormalizerError(f"the filter of {policy_id} does not fit", expected=expected, found=found)
        stages += (Normalize("std_eps", EPS, statistics.clip),)
    stages += module_stages(prepared_space(raw, stages))
    observing = Observing(space=raw, stages=stages, statistics=statistics)
    if prod(seen_by(observing).shape) != prod(made.shape if isinstance(made, Box) else ()):
        raise ForeignFormatError(f"{subject} cannot be imported", expected=made.describe(), found=raw.describe())
    return observing


def _statistics(state: Mapping[str, Any], config: Mapping[str, Any], folder: Path, policy_id: str) -> Statistics | None:
    """The filter of the policy: among its connectors, else in the algorithm around it."""
    subject = f"the observation filter of {policy_id}"
    found = next(_filters(state), None)
    if found is not None:
        return statistics_of(found, subject=subject)
    if config.get("observation_filter", "NoFilter") == "NoFilter":
        return None
    root = root_of(folder)
    algorithm = read_state(root, ALGORITHM_STATE) if root is not None and state_file(root, ALGORITHM_STATE) else {}
    filters = plain_fields(plain_fields(algorithm.get("worker")).get("filters"))
    if policy_id not in filters:
        raise NormalizerError(
            f"{policy_id} was trained with {config['observation_filter']}, and its statistics are not here",
            expected="them in the policy's connectors, or in algorithm_state of the checkpoint around it",
            found="neither",
            fix="name the policy inside its whole checkpoint: source.path=<checkpoint>/policies/<id>",
        )
    return statistics_of(filters[policy_id], subject=subject)


def _filters(state: Mapping[str, Any]) -> Iterator[Any]:
    pipeline = plain_fields(state.get("connector_configs")).get("agent")
    pieces = pipeline[1] if isinstance(pipeline, (tuple, list)) and len(pipeline) == 2 else ()
    for piece in pieces if isinstance(pieces, (tuple, list)) else ():
        if isinstance(piece, (tuple, list)) and len(piece) == 2 and piece[0] in _FILTERS:
            yield piece[1]


def _bounds(config: Mapping[str, Any], network: Network) -> Bounds:
    if config.get("normalize_actions", True) is True:
        return "squash" if network.output == "squashed" else "normalize"
    return "clip" if config.get("clip_actions") is True else "none"
