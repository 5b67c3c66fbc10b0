"""What `params/agent.yaml` says about a policy, in the words of every version, and whether it fits the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rlpipe.errors import ConfigError, ForeignFormatError, NormalizerError, closest, listed
from rlpipe.importers.libraries.rsl_rl.checkpoint import SavedRun
from rlpipe.importers.libraries.rsl_rl.networks import Memory, Stack
from rlpipe.importers.libraries.rsl_rl.settings import AGENT, Settings, inside, real, texts
from rlpipe.importers.libraries.rsl_rl.spelling import require_spelt
from rlpipe.modules.activations import ACTIVATIONS

_WORDS: Mapping[str, str] = MappingProxyType(
    {"crelu": "celu", "lrelu": "leaky_relu", "swish": "silu"}
    | {name: name for name in ("elu", "gelu", "identity", "mish", "relu", "selu", "sigmoid", "softplus", "tanh")}
)
"""The library's word -> ours. Source: resolve_nn_activation in rsl_rl/utils/utils.py."""

_SPREAD = frozenset({"class_name", "init_std", "learn_std", "std_range", "std_type"})
"""What `distribution_cfg` may say of a Gaussian. Source: rsl_rl/modules/distribution.py."""

_GENERAL = ("clip_actions", "empirical_normalization", "obs_groups")
_NETWORK = ("activation", "class_name", "noise_std_type", "rnn_type", "state_dependent_std")
_MODEL = (*_NETWORK, "distribution_cfg", "hidden_dims", "obs_normalization")
"""What is looked for in all settings, in those of a network, and in those of a network since version 4."""

_FIX = "source.params=<folder of the right one>, or source.params=none and source.activation=..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What the settings say; None and () where they do not.

    Attributes:
        activation: The library's word.
        hidden: Widths of the actor's layers; -1 stands for the width of what goes in.
        memory: "lstm" or "gru"; "" for a policy that is said to have none.
        is_normalised: Whether the policy normalises what it sees.
        noise: "scalar" or "log".
        distribution: Name of the class that the actions come from.
        spreads: Whether the deviation is said to depend on the observation.
        is_known: Whether there are settings of the policy at all.
        groups: Observation groups of the actor, in their order.
        clip_actions: Bound on the size of actions.
    """

    activation: str | None = None
    hidden: tuple[int, ...] | None = None
    memory: str | None = None
    is_normalised: bool | None = None
    noise: str | None = None
    distribution: str = ""
    spreads: bool = False
    is_known: bool = True
    groups: tuple[str, ...] = ()
    clip_actions: float | None = None


def read_agent(settings: Settings, run: SavedRun) -> Agent:
    """The settings of the policy that acts, from the section that the version has for it.

    Raises:
        ForeignFormatError: They do not say what the actions are drawn from, or a name in them is misspelt.
    """
    agent = settings.agent
    role = "student" if run.distilled else "actor"
    if not agent.keys() & {role, "policy"}:
        require_spelt(agent, (role, "policy"), where=AGENT)
    require_spelt(agent, _GENERAL, where=AGENT)
    require_spelt(agent.get("obs_groups"), (role,) if role in agent else ("policy",), where=f"{AGENT}: obs_groups")
    model = inside(agent, role)
    if isinstance(model, dict):
        return _of_model(agent, model, role)
    policy = inside(agent, "policy")
    return _of_policy(agent, policy, role) if isinstance(policy, dict) else Agent(is_known=False)


def _of_model(agent: Mapping[str, Any], model: Mapping[str, Any], role: str) -> Agent:
    """Versions 4 and 5: a section for each network."""
    require_spelt(model, _MODEL, where=f"{AGENT}: {role}")
    spread = model.get("distribution_cfg")
    distribution = _distribution(spread, f"{role}.distribution_cfg")
    return Agent(
        activation=_text(model.get("activation")),
        hidden=_wholes(model.get("hidden_dims")),
        memory=_memory(model),
        is_normalised=_flag(model.get("obs_normalization")),
        noise=_text(inside(spread, "std_type")) or _text(model.get("noise_std_type")),
        distribution=distribution,
        spreads="Heteroscedastic" in distribution or model.get("state_dependent_std") is True,
        groups=_groups(agent, role),
        clip_actions=_clip(agent),
    )


def _distribution(spread: Any, key: str) -> str:
    """Name of the class that the actions come from; "" where nothing is said of one.

    A word that is not understood would make a Gaussian of any distribution.
    """
    if spread is None:
        return ""
    name = _last(_text(inside(spread, "class_name")) or "")
    if not name:
        found = listed(map(str, spread)) or "nothing" if isinstance(spread, dict) else repr(spread)[:80]
        raise _unclear(f"{key}.class_name", "the name of a distribution", f"none, beside {found}")
    strange = {str(given) for given in spread} - _SPREAD
    if name.endswith("GaussianDistribution") and strange:
        raise _unclear(f"{key}.{min(strange)}", f"some of {listed(_SPREAD)}", listed(strange))
    if spread.get("std_type") not in (None, "scalar", "log"):
        raise _unclear(f"{key}.std_type", "scalar or log", repr(spread["std_type"])[:80])
    return name


def _unclear(key: str, expected: str, found: str) -> ForeignFormatError:
    return ForeignFormatError(
        f"{AGENT} does not say what the actions are drawn from: {key}",
        expected=expected,
        found=found,
        fix="take the file of the run as it was written: source.params=<its folder>",
    )


def _of_policy(agent: Mapping[str, Any], policy: Mapping[str, Any], role: str) -> Agent:
    """Versions 1 to 3: one section for all networks. Version 3 still takes empirical_normalization for both."""
    of_role = (f"{role}_hidden_dims", f"{role}_obs_normalization")
    require_spelt(policy, (*_NETWORK, *of_role), where=f"{AGENT}: policy")
    normalised = _flag(policy.get(f"{role}_obs_normalization"))
    return Agent(
        activation=_text(policy.get("activation")),
        hidden=_wholes(policy.get(f"{role}_hidden_dims")),
        memory=_memory(policy),
        is_normalised=_flag(agent.get("empirical_normalization")) if normalised is None else normalised,
        noise=_text(policy.get("noise_std_type")),
        spreads=policy.get("state_dependent_std") is True,
        groups=_groups(agent, role),
        clip_actions=_clip(agent),
    )


def _memory(section: Mapping[str, Any]) -> str | None:
    name = _last(_text(section.get("class_name")) or "")
    if "Recurrent" in name or "RNN" in name:
        return (_text(section.get("rnn_type")) or "lstm").lower()
    return "" if name in ("ActorCritic", "StudentTeacher", "MLPModel") else None


def _last(path: str) -> str:
    """The name of a class without its module, written with dots or a colon."""
    return path.replace(":", ".").rpartition(".")[2]


def _groups(agent: Mapping[str, Any], role: str) -> tuple[str, ...]:
    found = [texts(inside(agent, "obs_groups", name)) for name in (role, "policy")]
    return next((groups for groups in found if groups), ())


def _clip(agent: Mapping[str, Any]) -> float | None:
    bound = real(agent.get("clip_actions"))
    return bound if bound is not None and bound > 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _wholes(value: Any) -> tuple[int, ...] | None:
    is_list = isinstance(value, list) and all(type(item) is int for item in value)
    return tuple(value) if is_list else None


def require_fit(agent: Agent, run: SavedRun, stack: Stack, memory: Memory | None) -> None:
    """Check that the settings are those of this file.

    Raises:
        ForeignFormatError: They describe another network.
        NormalizerError: They say that the policy normalises, and its statistics are not there.
    """
    findings = []
    if agent.hidden is not None:
        wanted = [stack.inputs if width == -1 else width for width in agent.hidden]
        if wanted != list(stack.hidden):
            findings.append((f"hidden layers {wanted}", f"hidden layers {list(stack.hidden)}"))
    kind = memory.kind if memory is not None else ""
    if agent.memory is not None and agent.memory != kind:
        findings.append((f"memory {agent.memory or 'none'}", f"memory {kind or 'none'}"))
    has_statistics = "norm._mean" in run.acting
    if agent.is_normalised is False and has_statistics:
        findings.append(("observations as they are", "statistics to normalise them"))
    if findings:
        said, found = (" and ".join(parts) for parts in zip(*findings, strict=True))
        raise ForeignFormatError(
            f"{AGENT} does not belong to {run.name}", expected=f"as it says: {said}", found=found, fix=_FIX
        )
    if agent.is_normalised and not has_statistics:
        raise NormalizerError(
            f"{run.name} has no statistics of observations",
            expected=f"statistics, since {AGENT} says that the policy normalises",
            found="none",
            fix="take a checkpoint that the runner saved itself, or the right settings: source.params=<folder>",
        )


def activation_of(agent: Agent, run: SavedRun, settings: Settings, chosen: str | None) -> tuple[str, str]:
    """Our name of the activation, and a note where a choice was made over the settings.

    Args:
        agent: The settings.
        run: The file.
        settings: For where they were looked for.
        chosen: `source.activation`, in the library's words or ours; None: what the settings say.

    Raises:
        ConfigError: `source.activation` is no activation, or says another thing in other versions.
        ForeignFormatError: Nothing says which it is, or the settings name an unknown one.
    """
    said = agent.activation
    if chosen is None and said is None:
        raise ForeignFormatError(
            f"{run.name} does not say which activation is between its layers",
            expected=f"{AGENT} of the run, or source.activation",
            found=f"neither (looked in {settings.looked_in})",
            fix="source.activation=elu if that is what it was trained with (the library's default), "
            f"or source.params=<folder of {AGENT}>",
        )
    word = str(chosen or said).lower()
    name = _WORDS.get(word) or (word if word in ACTIVATIONS else "")
    if not name:
        known = sorted({*_WORDS, *ACTIVATIONS})
        near = closest(word, known)
        kind = ConfigError if chosen else ForeignFormatError
        raise kind(
            "source.activation is no activation" if chosen else f"{AGENT} names an unknown activation",
            expected=", ".join(known),
            found=word[:80],
            fix=f"did you mean {near[0]}?" if near else "",
        )
    if word == "crelu" and chosen and run.may_be_first:
        raise ConfigError(
            "source.activation=crelu says two things",
            expected="relu (what version 1 of rsl_rl made of it) or celu (since version 2)",
            found=word,
        )
    departs = chosen is not None and said is not None and _WORDS.get(said.lower(), said.lower()) != name
    return name, f"source.activation={name} was taken, though {AGENT} says {said}" if departs else ""
