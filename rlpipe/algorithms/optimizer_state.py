"""The state of any torch optimizer by the names of its parameters, so that their order means nothing.

    {"moments": {"encoder": {"0": {"weight": ({"step": ..., "exp_avg": ..., "exp_avg_sq": ...},)}}},
     "groups": ([{"names": ["encoder.0.weight"], "lr": 0.001, "betas": (0.9, 0.999), ...}],)}

What an optimizer keeps for a parameter is one entry, whatever it is, and empty before the first step: hence the tuples
of one, which a state takes whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from rlpipe.algorithms.kept_values import given_back, kept
from rlpipe.errors import StateMismatchError
from rlpipe.modules.torch.slimming import clean
from rlpipe.snapshot.state import State, equal, from_dotted, join, to_dotted

Named: TypeAlias = Mapping[str, torch.Tensor]
"""Dotted name -> parameter; of tied parameters the first name alone."""

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


def check_optimizer_state(optimizer: torch.optim.Optimizer, named: Named, state: State) -> None:
    """Check that a state can be put into an optimizer; nothing is changed.

    Raises:
        StateMismatchError: A group of the optimizer finds no settings, or different ones, or moments have a shape that
            their parameter cannot have given them.
    """
    moments = _moments_of(state)
    wrong = [text for name, parameter in named.items() for text in _misfits(name, parameter, moments.get(name, {}))]
    names = {id(parameter): name for name, parameter in named.items()}
    unsettled = [
        f"groups of {', '.join(sorted(own)[:3])}"
        for own in ([names[id(parameter)] for parameter in group[_PARAMS]] for group in optimizer.param_groups)
        if own and len(_settings(own, state)) != 1
    ]
    if wrong or unsettled:
        raise StateMismatchError(
            f"the state does not fit the optimizer {type(optimizer).__qualname__}",
            missing=unsettled,
            mismatched=wrong,
            fix="restore it into an optimizer of the same groups over the same parameters",
        )


def _misfits(name: str, parameter: torch.Tensor, moments: State) -> list[str]:
    """Moments as large as no parameter of this shape makes them: elementwise, or reduced along some axes."""
    return [
        f"{join('moments', *name.split('.'))}/0/{key} (at most {tuple(parameter.shape)} expected, {value.shape} found)"
        for key, value in moments.items()
        if hasattr(value, "shape") and len(value.shape) == parameter.ndim and not _within(value.shape, parameter.shape)
    ]


def _within(shape: Sequence[int], limit: Sequence[int]) -> bool:
    return all(size in (1, most) for size, most in zip(shape, limit, strict=True))


def _moments_of(state: State) -> dict[str, State]:
    return {name: entry[0] for name, entry in to_dotted(state["moments"]).items()}


def _settings(names: Sequence[str], state: State) -> list[State]:
    """The different settings of the saved groups that hold some of these parameters."""
    (groups,) = state["groups"]
    found: list[State] = []
    for group in groups:
        settings = {name: value for name, value in group.items() if name != _NAMES}
        if not set(names).isdisjoint(group[_NAMES]) and not any(equal(settings, each) for each in found):
            found.append(settings)
    return found


def load_optimizer_state(optimizer: torch.optim.Optimizer, named: Named, state: State) -> None:
    """Put a checked state into an optimizer: moments to their parameters' devices, settings to their groups.

    `step` stays on the CPU unless the group is fused or capturable, as torch wants it.
    """
    names = {id(parameter): name for name, parameter in named.items()}
    moments = _moments_of(state)
    groups = [_restored(group, names, state) for group in optimizer.param_groups]
    found: dict[torch.Tensor, State] = defaultdict(dict)
    for group in groups:
        for parameter in group[_PARAMS]:
            own = moments.get(names[id(parameter)], {})
            if own:
                found[parameter] = {name: _moment(value, name, parameter, group) for name, value in own.items()}
    optimizer.__setstate__({"state": found, "param_groups": groups})


def _restored(group: dict[str, Any], names: Mapping[int, str], state: State) -> dict[str, Any]:
    settings = _settings([names[id(parameter)] for parameter in group[_PARAMS]], state)
    saved = settings[0] if settings else {}
    values = {name: given_back(value, _beside(group.get(name))) for name, value in saved.items()}
    return {**group, **values}


def _beside(live: Any) -> Any:
    """Where a tensor among a group's settings belongs: with the one that it replaces."""
    device = live.device if isinstance(live, torch.Tensor) else torch.device("cpu")
    return lambda tensor: tensor.to(device)


def _moment(value: Any, name: str, parameter: torch.Tensor, group: Mapping[str, Any]) -> Any:
    is_count = name == "step" and not (group.get("capturable") or group.get("fused"))
    return given_back(value, (lambda tensor: tensor) if is_count else (lambda tensor: tensor.to(parameter.device)))
