"""The state of any torch optimizer by the names of its parameters, so that their order means nothing.

    {"moments": {"encoder": {"0": {"weight": ({"step": ..., "exp_avg": ..., "exp_avg_sq": ...},)}}},
     "groups": ([{"names": ["encoder.0.weight"], "lr": 0.001, "betas": (0.9, 0.999), ...}],)}

What an optimizer keeps for a parameter is one entry, whatever it is, and empty before the first step: hence the tuples
of one, which a state takes whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from rlpipe.algorithms.kept_values import given_back, kept
from rlpipe.errors import StateMismatchError
from rlpipe.modules.torch.slimming import clean
from rlpipe.snapshot.state import State, equal, from_dotted, join, to_dotted

Named: TypeAlias = Mapping[str, torch.Tensor]
"""Dotted name -> parameter; of tied parameters the first name alone."""

Keeps: TypeAlias = Callable[[State, torch.Tensor], AbstractSet[str]]
"""Settings of a group, and a parameter -> names of what an optimizer keeps for it."""

_NAMES = "names"
_PARAMS = "params"


def named_parameters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of a module by name, without the wrappers of torch.compile in the names."""
    return {clean(name): parameter for name, parameter in module.named_parameters()}


def optimizer_state(optimizer: torch.optim.Optimizer, named: Named) -> State:
    """The state of an optimizer.

    Args:
        optimizer: Any torch optimizer.
        named: All parameters of what it trains; those that it does not train have an empty entry.

    Raises:
        UnsupportedStateError: It keeps something that no checkpoint can hold.
    """
    moments = {name: (_moments(optimizer, name, parameter),) for name, parameter in named.items()}
    names = {id(parameter): name for name, parameter in named.items()}
    groups = [_group(group, names, index) for index, group in enumerate(optimizer.param_groups)]
    return {"moments": from_dotted(moments), "groups": (groups,)}


def _moments(optimizer: torch.optim.Optimizer, name: str, parameter: torch.Tensor) -> State:
    value: State = kept(optimizer.state.get(parameter, {}), f"the optimizer's state of {name}")
    return value


def _group(group: Mapping[str, Any], names: Mapping[int, str], index: int) -> State:
    values = {name: kept(value, f"groups[{index}].{name}") for name, value in group.items() if name not in _OF_TORCH}
    return {**values, _NAMES: [names[id(parameter)] for parameter in group[_PARAMS]]}


_OF_TORCH = frozenset({_PARAMS, "param_names"})
_OF_SCHEDULES = frozenset({"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum"})


def check_optimizer_state(optimizer: torch.optim.Optimizer, named: Named, state: State, keeps: Keeps) -> None:
    """Check that a state can be put into an optimizer; nothing is changed.

    Args:
        optimizer: Any torch optimizer.
        named: See `optimizer_state`.
        state: See `optimizer_state`.
        keeps: Settings of a group, and a parameter -> what the optimizer keeps for that once it has made a step. It is
            asked where the state may be of another class.

    Raises:
        StateMismatchError: A group of the optimizer finds no settings, or different ones, or moments are of another
            kind or have a shape that their parameter cannot have given them.
    """
    moments = _moments_of(state)
    wrong = [text for name, parameter in named.items() for text in _misfits(name, parameter, moments.get(name, {}))]
    planned = _planned(optimizer, named, state)
    missing = list(planned.unsettled)
    for group, settings, names in zip(optimizer.param_groups, planned.settings, planned.names, strict=True):
        for name in sorted(names):
            own, found = optimizer.state.get(named[name], {}), moments.get(name, {})
            is_doubtful = _settings_of(group) != _settings_of(settings) or (own and own.keys() - found.keys())
            lacking = keeps(settings, named[name]) - found.keys() if found and is_doubtful else ()
            missing += [f"{_key(name)}/0/{key}" for key in sorted(lacking)]
    if wrong or missing:
        raise StateMismatchError(
            f"the state does not fit the optimizer {type(optimizer).__qualname__}",
            missing=missing,
            mismatched=wrong,
            fix="restore it into an optimizer of the same class and groups over the same parameters",
        )


def _settings_of(group: Mapping[str, Any]) -> set[str]:
    """The names of a group's own settings, without those of schedules."""
    return group.keys() - _OF_TORCH - _OF_SCHEDULES


def _misfits(name: str, parameter: torch.Tensor, moments: State) -> list[str]:
    """Moments as large as no parameter of this shape makes them: elementwise, or reduced along some axes."""
    return [
        f"{_key(name)}/0/{key} (at most {tuple(parameter.shape)} expected, {value.shape} found)"
        for key, value in moments.items()
        if hasattr(value, "shape") and len(value.shape) == parameter.ndim and not _within(value.shape, parameter.shape)
    ]


def _key(name: str) -> str:
    return join("moments", *name.split("."))


def _within(shape: Sequence[int], limit: Sequence[int]) -> bool:
    return all(size in (1, most) for size, most in zip(shape, limit, strict=True))


def _moments_of(state: State) -> dict[str, State]:
    return {name: entry[0] for name, entry in to_dotted(state["moments"]).items()}


@dataclass(frozen=True, slots=True)
class _Planned:
    """The groups of an optimizer, with what is saved for them.

    Attributes:
        names: Names of the parameters of each group.
        settings: Of each group, without names.
        unsettled: Groups for which there are no settings, or several, in words.
    """

    names: list[list[str]]
    settings: list[State]
    unsettled: list[str]


def _planned(optimizer: torch.optim.Optimizer, named: Named, state: State) -> _Planned:
    """Groups over the parameters of saved ones come in the saved order, as do these; others stay as they are."""
    (saved,) = state["groups"]
    names = {id(parameter): name for name, parameter in named.items()}
    groups = [[names[id(parameter)] for parameter in group[_PARAMS]] for group in optimizer.param_groups]
    place = {name: (index, at) for index, group in enumerate(saved) for at, name in enumerate(group[_NAMES])}
    homes = [sorted({place[name][0] for name in group if name in place}) for group in groups]
    if all(len(places) == 1 for places in homes) and len({places[0] for places in homes}) == len(groups):
        last = (len(saved), 0)
        order = sorted(range(len(groups)), key=lambda index: homes[index])
        groups = [sorted(groups[index], key=lambda name: place.get(name, last)) for index in order]
        homes = [homes[index] for index in order]
    found = [_different([saved[index] for index in places]) for places in homes]
    unsettled = [
        f"groups of {', '.join(sorted(group)[:3])}"
        for group, settings in zip(groups, found, strict=True)
        if group and len(settings) != 1
    ]
    return _Planned(groups, [settings[0] if settings else {} for settings in found], unsettled)


def _different(groups: Sequence[State]) -> list[State]:
    """The settings of groups, those that are equal once."""
    found: list[State] = []
    for group in groups:
        settings = {name: value for name, value in group.items() if name != _NAMES}
        if not any(equal(settings, each) for each in found):
            found.append(settings)
    return found


def load_optimizer_state(optimizer: torch.optim.Optimizer, named: Named, state: State) -> None:
    """Put a checked state into an optimizer: moments to their parameters' devices, settings to their groups.

    Groups over the parameters of saved ones come in the saved order, as do these: schedules and some optimizers count
    by it. `step` stays on the CPU unless the group is fused or capturable, as torch wants it.
    """
    moments, planned = _moments_of(state), _planned(optimizer, named, state)
    groups = []
    found: dict[torch.Tensor, State] = defaultdict(dict)
    for group, settings, names in zip(optimizer.param_groups, planned.settings, planned.names, strict=True):
        # The list itself stays: LBFGS holds on to it.
        group[_PARAMS][:] = [named[name] for name in names]
        values = {name: given_back(value, _beside(group.get(name))) for name, value in settings.items()}
        groups.append({**group, **values})
        for name in names:
            if own := moments.get(name, {}):
                parameter = named[name]
                found[parameter] = {key: _moment(value, key, parameter, groups[-1]) for key, value in own.items()}
    optimizer.__setstate__({"state": found, "param_groups": groups})


def _beside(live: Any) -> Any:
    """Where a tensor among a group's settings belongs: with the one that it replaces."""
    device = live.device if isinstance(live, torch.Tensor) else torch.device("cpu")
    return lambda tensor: tensor.to(device)


def _moment(value: Any, name: str, parameter: torch.Tensor, group: Mapping[str, Any]) -> Any:
    is_count = name == "step" and not (group.get("capturable") or group.get("fused"))
    return given_back(value, (lambda tensor: tensor) if is_count else (lambda tensor: tensor.to(parameter.device)))
