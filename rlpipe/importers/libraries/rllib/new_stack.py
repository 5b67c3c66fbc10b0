"""A module of layouts 2.0 and 2.1 as a policy: its own directory, and the connectors of the algorithm around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.foreign_spaces import space_of
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.rllib.acting import Bounds, require_actions
from rlpipe.importers.libraries.rllib.connectors import Connectors
from rlpipe.importers.libraries.rllib.constructors import Constructor, plain_fields, read_constructor
from rlpipe.importers.libraries.rllib.files import read_state, required_state
from rlpipe.importers.libraries.rllib.folders import MODULE_STATE, version_of
from rlpipe.importers.libraries.rllib.networks import Network, actor_critic, behaviour_cloning
from rlpipe.importers.libraries.rllib.observing import observe, seen_by
from rlpipe.importers.libraries.rllib.parts import Origin, Parts
from rlpipe.importers.libraries.rllib.settings import Shape, shape_of
from rlpipe.importers.libraries.rllib.soft_networks import soft_actor_critic
from rlpipe.importers.libraries.rllib.training import Training
from rlpipe.importers.libraries.rllib.value_networks import q_network, rainbow
from rlpipe.importers.libraries.rllib.weights import Tensors
from rlpipe.importers.restricted.values import Name, Record

_ON_POLICY = ("DefaultPPOTorchRLModule", "PPOTorchRLModule", "DefaultAPPOTorchRLModule", "APPOTorchRLModule")
_BY_VALUE = ("DefaultDQNTorchRLModule", "DQNTorchRLModule")
_SOFT = (
    *("DefaultSACTorchRLModule", "SACTorchRLModule", "DefaultCQLTorchRLModule", "CQLTorchRLModule"),
    *("DefaultIQLTorchRLModule", "DefaultTQCTorchRLModule"),
)
_FAMILIES: Mapping[str, Callable[[Tensors, Shape], Network]] = MappingProxyType(
    {
        **dict.fromkeys(_ON_POLICY, actor_critic),
        **dict.fromkeys(("DefaultBCTorchRLModule", "BCTorchRLModule"), behaviour_cloning),
        **dict.fromkeys(_BY_VALUE, q_network),
        "DQNRainbowTorchRLModule": rainbow,
        **dict.fromkeys(_SOFT, soft_actor_critic),
    }
)
"""Class of a module, as RLlib named it over time -> its networks. IMPALA and MARWIL train modules of PPO."""

_ALONE = (
    "what stood between environment and module is not known: the module was taken out of its algorithm. Statistics of "
    "observations would be missing; actions are taken to lie in -1..1 and spread over their bounds, RLlib's default"
)


def read_module(
    folder: Path, policy_id: str, connectors: Connectors | None, training: Training, *, agent: str | None
) -> ImportedFile:
    """The policy of the module in a directory.

    Args:
        folder: The directory of the module; no other is opened but that of its connectors.
        policy_id: How messages name it.
        connectors: What stands around it, or None if that is not known.
        training: What is known of its training.
        agent: The agent that it plays, where that was said.

    Raises:
        ForeignFormatError: It is no module of a kind that is supported; says which it is.
        UnsafePayloadError: A file is broken, or asks for more than plain values.
        NormalizerError: Statistics are missing or broken, or it is not known whose are the policy's.
    """
    constructor = read_constructor(folder)
    networks = _networks(constructor, policy_id)
    fields = _fields(constructor)
    subject = f"{policy_id} ({constructor.class_name})"
    taken = space_of(fields.get("observation_space"), subject=f"the observation space of {policy_id}")
    given = space_of(fields.get("action_space"), subject=f"the action space of {policy_id}")
    action_space = require_actions(given, subject=policy_id)
    observing = observe(taken, connectors, policy_id, agent)
    config = plain_fields(fields.get("model_config", fields.get("model_config_dict")))
    shape = shape_of(config, seen=seen_by(observing), space=action_space, subject=policy_id)
    tensors = Tensors(read_state(folder, MODULE_STATE), subject=subject)
    _require_plain(tensors, config)
    return Parts(
        origin=Origin(
            folder=folder,
            state=required_state(folder, MODULE_STATE)[0],
            algorithm=constructor.class_name,
            version=version_of(folder),
            steps=training.steps,
            env=training.env,
        ),
        observing=observing,
        action_space=action_space,
        bounds=_bounds(connectors),
        network=networks(tensors, shape),
        tensors=tensors,
        notes=(*((_ALONE,) if connectors is None else ()), *_departures(given, action_space)),
    ).imported()


def _require_plain(tensors: Tensors, config: Mapping[str, Any]) -> None:
    if any(config.get(name) is True for name in ("fcnet_use_layernorm", "head_fcnet_use_layernorm")):
        raise tensors.not_supported("layer normalisation")


def _networks(constructor: Constructor, policy_id: str) -> Callable[[Tensors, Shape], Network]:
    catalog = _fields(constructor).get("catalog_class")
    catalog_path = catalog.path if isinstance(catalog, Name) else ""
    own = constructor.class_path.startswith("ray.rllib.")
    if not own or constructor.class_name not in _FAMILIES:
        raise _not_supported(policy_id, f"a module of the class {constructor.class_path}")
    if isinstance(catalog, Record) or (catalog_path and not catalog_path.startswith("ray.rllib.")):
        raise _not_supported(policy_id, f"networks of the catalog {catalog_path or 'that was pickled with its code'}")
    return _FAMILIES[constructor.class_name]


def _not_supported(policy_id: str, what: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"{policy_id} holds {what}, which cannot be imported",
        expected=f"one of RLlib's default torch modules: {', '.join(sorted(_FAMILIES))}",
        found=what,
        fix="build an RLModule with the same network and load the weights into it",
    )


def _fields(constructor: Constructor) -> Mapping[str, Any]:
    """The arguments by name; before ray 2.40 they lie in a config object."""
    config = constructor.kwargs.get("config", constructor.args[0] if constructor.args else None)
    return constructor.kwargs if config is None else {**constructor.kwargs, **plain_fields(config)}


def _bounds(connectors: Connectors | None) -> Bounds:
    if connectors is None or connectors.normalizes_actions:
        return "normalize"
    return "clip" if connectors.clips_actions else "none"


def _departures(given: Any, acted_in: Any) -> tuple[str, ...]:
    if given == acted_in:
        return ()
    return (f"{given.describe()}: counted from 0 all the same, as RLlib does",)
