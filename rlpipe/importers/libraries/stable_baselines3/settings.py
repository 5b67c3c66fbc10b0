"""What kind of policy a zip holds, and the settings that say how its networks act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.libraries.stable_baselines3.container import SavedModel
from rlpipe.importers.restricted.values import Name, Record
from rlpipe.modules.activations import ACTIVATIONS

_ACTIVATION_TEXT = re.compile(r"<class 'torch\.nn\.modules\.(?:activation|linear)\.(\w+)'>")
_BY_TORCH_NAME: Mapping[str, str] = MappingProxyType({name: key for key, name in ACTIVATIONS.items()})
_DICT = "<class 'dict'>"
_PLAIN_EXTRACTOR = "stable_baselines3.common.torch_layers.FlattenExtractor"
_SUPPORTED = "MlpPolicy of PPO, A2C, TRPO, MaskablePPO, DQN or SAC"
_FIX = "train with MlpPolicy, or build an RLModule with the same network and load the weights into it"

_OWN_CLASSES = frozenset({"ActorCriticPolicy", "MaskableActorCriticPolicy", "PPOPolicy", "DQNPolicy", "SACPolicy"})
"""The classes behind MlpPolicy; aliases such as PPO's MlpPolicy are pickled under these names."""

_OTHER_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "ActorCriticCnnPolicy": "a CnnPolicy (images)",
        "MaskableActorCriticCnnPolicy": "a CnnPolicy (images)",
        "CnnPolicy": "a CnnPolicy (images)",
        "MultiInputActorCriticPolicy": "a MultiInputPolicy (dict observations)",
        "MaskableMultiInputActorCriticPolicy": "a MultiInputPolicy (dict observations)",
        "MultiInputPolicy": "a MultiInputPolicy (dict observations)",
    }
)
_OTHER_KEYS: tuple[tuple[str, str], ...] = (
    ("lstm_actor.", "a recurrent policy (RecurrentPPO)"),
    ("quantile_net.", "a QRDQN policy"),
    ("actor_target.", "a TD3 or DDPG policy"),
    ("critic.quantile_critics.", "a TQC policy"),
    ("features_extractor.cnn.", "a CnnPolicy (images)"),
    ("q_net.features_extractor.cnn.", "a CnnPolicy (images)"),
    ("actor.features_extractor.cnn.", "a CnnPolicy (images)"),
    ("features_extractor.extractors.", "a MultiInputPolicy (dict observations)"),
    ("q_net.features_extractor.extractors.", "a MultiInputPolicy (dict observations)"),
    ("actor.features_extractor.extractors.", "a MultiInputPolicy (dict observations)"),
)


def algorithm_of(model: SavedModel) -> str:
    """The algorithm that a zip was saved by, told by its weights and settings; the file does not name it.

    Raises:
        ForeignFormatError: It is none that can be imported; says which it is.
    """
    _require_own_class(model)
    names = list(model.weights)
    for prefix, what in _OTHER_KEYS:
        if any(name.startswith(prefix) for name in names):
            raise _not_supported(model, what)
    if "q_net.q_net.0.weight" in names:
        return "DQN"
    if any(name.startswith("actor.mu.") for name in names):
        return _squashed_actor(model, names)
    if "action_net.weight" in names and "value_net.weight" in names:
        return _on_policy(model)
    what = "an ARS policy" if "action_net.0.weight" in names else f"a policy with weights {', '.join(names[:4])} ..."
    raise _not_supported(model, what)


def _squashed_actor(model: SavedModel, names: list[str]) -> str:
    if not any(name.startswith("actor.log_std") for name in names):
        raise _not_supported(model, "a TD3 or DDPG policy")
    if "top_quantiles_to_drop_per_net" in model.data:
        raise _not_supported(model, "a TQC policy")
    return "SAC"


def _on_policy(model: SavedModel) -> str:
    if "cg_max_steps" in model.data:
        return "TRPO"
    if "Maskable" in _policy_class(model):
        return "MaskablePPO"
    return "PPO" if "clip_range" in model.data else "A2C"


def _policy_class(model: SavedModel) -> str:
    """Dotted path of the policy's class, or "" if the file does not say it readably."""
    try:
        value = model.unpickled("policy_class")
    except UnsafePayloadError:
        return ""
    if isinstance(value, Record):
        return f"{value.class_path} (a class that was pickled with its code)"
    return value.path if isinstance(value, Name) else ""


def _require_own_class(model: SavedModel) -> None:
    path = _policy_class(model)
    module, _, name = path.rpartition(".")
    if name in _OTHER_CLASSES and module.startswith(("stable_baselines3", "sb3_contrib")):
        raise _not_supported(model, _OTHER_CLASSES[name])
    own = name in _OWN_CLASSES and module.startswith(("stable_baselines3", "sb3_contrib"))
    if path and not own and not name.endswith(("RecurrentActorCriticPolicy", "TD3Policy", "TQCPolicy", "QRDQNPolicy")):
        raise _not_supported(model, f"the policy class {path}")


def _not_supported(model: SavedModel, what: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"{model.name} (Stable-Baselines3 {model.version}) holds {what}, which cannot be imported yet",
        expected=_SUPPORTED,
        found=what,
        fix=_FIX,
    )


def policy_kwargs(model: SavedModel) -> Mapping[str, Any]:
    """The arguments that the policy was built with: plain JSON, or text where JSON cannot hold them.

    Raises:
        ForeignFormatError: The file does not say.
    """
    value = model.data.get("policy_kwargs")
    if not isinstance(value, dict) or value.get(":type:", _DICT) != _DICT:
        raise ForeignFormatError(
            f"{model.name} does not say how its policy was built",
            expected="policy_kwargs among the fields of data",
            found=repr(value)[:80],
            fix="save the model again with model.save(), without exclude=[...]",
        )
    return value


def activation_of(model: SavedModel, *, default: str) -> str:
    """The name in rlpipe of the activation between the layers.

    Raises:
        ForeignFormatError: It is none of torch.nn's that need no arguments and have no parameters.
    """
    text = policy_kwargs(model).get("activation_fn")
    if text is None:
        return default
    match = _ACTIVATION_TEXT.fullmatch(str(text))
    if match is None or match[1] not in _BY_TORCH_NAME:
        raise ForeignFormatError(
            f"{model.name} uses an activation that cannot be imported",
            expected=f"one of torch.nn: {', '.join(sorted(_BY_TORCH_NAME))}",
            found=str(text),
            fix=_FIX,
        )
    return _BY_TORCH_NAME[match[1]]


def require_plain_features(model: SavedModel) -> None:
    """Check that observations go into the networks as they are.

    Raises:
        ForeignFormatError: Another features extractor stands before them.
    """
    text = policy_kwargs(model).get("features_extractor_class")
    if text is not None and str(text) != f"<class '{_PLAIN_EXTRACTOR}'>":
        raise ForeignFormatError(
            f"{model.name} has a features extractor that cannot be imported yet",
            expected=f"{_PLAIN_EXTRACTOR}, the default of MlpPolicy",
            found=str(text),
            fix=_FIX,
        )


def flag(model: SavedModel, name: str, *, default: bool) -> bool:
    """A true-or-false argument of the policy."""
    value = policy_kwargs(model).get(name, default)
    return value if isinstance(value, bool) else default


def number(model: SavedModel, name: str, *, default: float) -> float:
    """A number among the arguments of the policy."""
    value = policy_kwargs(model).get(name, default)
    return float(value) if isinstance(value, (int, float)) else default
