"""A policy of layouts 1.0 to 1.2, the old stack: its weights and settings in one file, `policy_state`.

Sources: ray/rllib/policy/policy.py (get_state, export_checkpoint), ray/rllib/models/torch/fcnet.py,
ray/rllib/utils/serialization.py (spaces), ray/rllib/connectors/agent/mean_std_filter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, NormalizerError, SpaceError
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.rllib.acting import Bounds, outputs_of, require_actions
from rlpipe.importers.libraries.rllib.constructors import plain_fields
from rlpipe.importers.libraries.rllib.files import read_state, required_state, state_file
from rlpipe.importers.libraries.rllib.folders import ALGORITHM_STATE, POLICY_STATE, facts_in, root_of
from rlpipe.importers.libraries.rllib.networks import Network, actor_critic
from rlpipe.importers.libraries.rllib.observing import Observing, flat_stages, module_stages
from rlpipe.importers.libraries.rllib.packed import unpacked
from rlpipe.importers.libraries.rllib.parts import Origin, Parts, features_of
from rlpipe.importers.libraries.rllib.settings import Shape, activation_of, activations_of
from rlpipe.importers.libraries.rllib.statistics import EPS, Statistics, statistics_of
from rlpipe.importers.libraries.rllib.weights import Stack, Tensors, as_linear
from rlpipe.importers.restricted.values import Name, Record
from rlpipe.policies.stages import Normalize, Stage, prepared_space
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

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
    given = _space(spec.get("action_space"), subject=f"the action space of {policy_id}")
    action_space = require_actions(given, subject=policy_id)
    statistics = _statistics(state, config, folder, policy_id)
    observing = _observing(spec.get("observation_space"), statistics, policy_id)
    tensors = Tensors(plain_fields(state.get("weights")), subject=f"{policy_id} ({_class_name(spec)})")
    network = _network(tensors, plain_fields(config.get("model")), observing, action_space)
    version, steps = facts_in(folder).get("ray_version"), state.get("global_timestep")
    return Parts(
        origin=Origin(
            folder=folder,
            state=required_state(folder, POLICY_STATE)[0],
            algorithm=_class_name(spec),
            version=version if isinstance(version, str) else "unknown",
            steps=int(steps) if isinstance(steps, (int, np.integer)) else None,
        ),
        observing=observing,
        action_space=action_space,
        bounds=_bounds(config),
        network=network,
        tensors=tensors,
        skipped=tuple((name, _TRAINING) for name in sorted(map(str, state)) if name not in _TAKEN),
    ).imported()


_TAKEN = frozenset({"weights", "policy_spec", "connector_configs", "global_timestep"})


def _class_name(spec: Mapping[str, Any]) -> str:
    kind = spec.get("policy_class")
    name = kind.path if isinstance(kind, Name) else kind.class_path if isinstance(kind, Record) else str(kind)
    return name.rpartition(".")[2]


def _network(tensors: Tensors, model: Mapping[str, Any], observing: Observing, action_space: Space) -> Network:
    """What a policy computes with: TorchFC, or from ray 2.5 on, where that was asked for, a module of the new stack."""
    features = features_of(prepared_space(observing.space, observing.stages))
    if not tensors.has("pi.net"):
        return _fully_connected(tensors, model, features, action_space)
    activation, head_activation = activations_of(model, subject=tensors.subject)
    shape = Shape(
        features=features,
        outputs=outputs_of(action_space),
        continuous=isinstance(action_space, Box),
        activation=activation,
        head_activation=head_activation,
    )
    return actor_critic(tensors, shape)


def _fully_connected(tensors: Tensors, model: Mapping[str, Any], features: int, action_space: Space) -> Network:
    """TorchFC: hidden layers, logits behind them, and a value function on them or on layers of its own."""
    if not tensors.has("_logits._model.0") or not tensors.has("_hidden_layers.0"):
        raise ForeignFormatError(
            f"{tensors.subject} is no policy of the old stack that can be imported",
            expected="a fully connected policy with a value function, as PPO, A2C and IMPALA have it",
            found="weights of other networks",
            fix="train with the new API stack, or build an RLModule and load the weights into it",
        )
    act = activation_of(_activation(model), subject=f"the activation of {tensors.subject}")
    actor = _layers(tensors, "_hidden_layers", features)
    is_shared = not tensors.has("_value_branch_separate")
    critic = actor if is_shared else _layers(tensors, "_value_branch_separate", features)
    value = tensors.stack("_value_branch", inputs=critic.widths[-1], place=lambda _: "_model.0").layers[0]
    pi, log_std = _policy_head(tensors, actor.widths[-1], action_space)
    body = "encoder/encoder" if is_shared else "encoder/actor_encoder"
    own = {} if is_shared else critic.entries("encoder/critic_encoder")
    return Network(
        module="rlpipe.modules.torch.ppo.PPOModule",
        model_config={
            "shared": _mlp(actor.widths, act) if is_shared else None,
            "actor": _mlp(() if is_shared else actor.widths, act),
            "critic": _mlp(() if is_shared else critic.widths, act),
            "log_std": log_std,
            "squash": False,
        },
        entries=actor.entries(body) | own | pi | as_linear(value, "vf"),
        training=("vf/", "encoder/critic_encoder/"),
        output="mean" if isinstance(action_space, Box) else "logits",
    )


def _mlp(widths: tuple[int, ...], activation: str) -> dict[str, Any]:
    return {"type": "mlp", "hidden": list(widths), "activation": activation}


def _activation(model: Mapping[str, Any]) -> Any:
    name = "fcnet_activation" if model.get("fcnet_hiddens") else "post_fcnet_activation"
    return model.get(name, "tanh")


def _layers(tensors: Tensors, prefix: str, inputs: int) -> Stack:
    return tensors.stack(prefix, inputs=inputs, place=lambda index: f"{index}._model.0")


def _policy_head(tensors: Tensors, inputs: int, space: Space) -> tuple[dict[str, Any], str]:
    outputs = outputs_of(space)
    (last,) = tensors.stack("_logits", inputs=inputs, place=lambda _: "_model.0").layers
    weight, bias = last
    if not isinstance(space, Box):
        wanted, kind = outputs, "free"
        entries = as_linear(last, "pi/logits")
    elif tensors.has("_append_free_log_std.log_std"):
        wanted, kind = outputs, "free"
        log_std = tensors.parameter("_append_free_log_std.log_std", shape=(outputs,))
        entries = as_linear(last, "pi/mean") | {"pi/log_std": log_std}
    else:
        wanted, kind = 2 * outputs, "state"
        mean, spread = (weight[:outputs], bias[:outputs]), (weight[outputs:], bias[outputs:])
        entries = as_linear(mean, "pi/mean") | as_linear(spread, "pi/log_std")
    if len(bias) != wanted:
        raise tensors.misfit("_logits", f"{wanted} outputs, as the action space asks for", str(len(bias)))
    return entries, kind


def _observing(space: Any, statistics: Statistics | None, policy_id: str) -> Observing:
    """RLlib's preprocessors flatten, and turn choices into one-hot; its filter works on what they made."""
    subject = f"the observation space of {policy_id}"
    made = _space(space, subject=subject)
    raw = _original(space, made, subject)
    stages: tuple[Stage, ...] = () if raw == made else flat_stages(raw)
    if statistics is not None:
        if statistics.mean.shape != (made.shape if isinstance(made, Box) else None):
            expected, found = made.describe(), str(statistics.mean.shape)
            raise NormalizerError(f"the filter of {policy_id} does not fit", expected=expected, found=found)
        stages += (Normalize("std_eps", EPS, statistics.clip),)
    stages += module_stages(prepared_space(raw, stages))
    if features_of(prepared_space(raw, stages)) != features_of(made):
        raise ForeignFormatError(f"{subject} cannot be imported", expected=made.describe(), found=raw.describe())
    return Observing(space=raw, stages=stages, statistics=statistics)


def _original(space: Any, made: Space, subject: str) -> Space:
    """The environment's own space, where a preprocessor made another one of it."""
    given = space.get("original_space") if isinstance(space, dict) else None
    given = space.attribute("original_space") if isinstance(space, Record) else given
    return made if given is None else _space(given, subject=subject)


def _space(value: Any, *, subject: str) -> Space:
    """A space as pickled, or as the dict that gym_space_to_dict() made of it."""
    if isinstance(value, dict) and isinstance(value.get("space"), dict):
        value = value["space"]
    if not isinstance(value, dict):
        return space_of(value, subject=subject)
    try:
        return _SPACES[str(value.get("space"))](value, subject)
    except (SpaceError, KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"{type(error).__name__}: {error}"[:120]
        raise ForeignFormatError(f"{subject} cannot be read", expected="a space", found=found) from None


def _box(fields: Mapping[str, Any], subject: str) -> Space:
    del subject
    low, high = (unpacked(fields[name]) for name in ("low", "high"))
    dtype = np.dtype(fields["dtype"])
    return Box(low.astype(dtype), high.astype(dtype), dtype)


_SPACES: Mapping[str, Callable[[Mapping[str, Any], str], Space]] = MappingProxyType(
    {
        "box": _box,
        "discrete": lambda fields, _: Discrete(int(fields["n"]), int(fields.get("start", 0))),
        "multi-discrete": lambda fields, _: MultiDiscrete(unpacked(fields["nvec"]).astype(np.int64)),
        "multi-binary": lambda fields, _: MultiBinary(tuple(np.atleast_1d(fields["n"]).tolist())),
        "dict": lambda fields, subject: Dict({str(k): _space(v, subject=subject) for k, v in fields["spaces"].items()}),
        "tuple": lambda fields, subject: Tuple(tuple(_space(part, subject=subject) for part in fields["spaces"])),
    }
)


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


def _bounds(config: Mapping[str, Any]) -> Bounds:
    if config.get("normalize_actions", True) is True:
        return "normalize"
    return "clip" if config.get("clip_actions") is True else "none"
