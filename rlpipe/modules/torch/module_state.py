"""The state of a torch module: its state dict with nested names, as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import torch
from torch import nn

from rlpipe.errors import TieError
from rlpipe.modules.inference_only_api import is_under
from rlpipe.modules.torch.slimming import COMPILED, clean
from rlpipe.modules.torch.tensors import (
    Arrays,
    is_over,
    is_written_apart,
    memory_of,
    repeats_as,
    tensor_of,
    ties,
    write,
)
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.state import Array, State, entries, equal, from_dotted, join, split

StateDict: TypeAlias = Mapping[str, Any]
"""A torch module's state dict, or some of it."""

Aliases: TypeAlias = Mapping[str, str]
"""Dotted names that a slim module no longer has -> the dotted name of the same tensor that it has."""


def state_of(state_dict: StateDict, aliases: Aliases) -> State:
    """The state of a state dict: read-only views on the CPU, copies from other devices, no numbers of meta tensors.

    Raises:
        UnsupportedStateError: A tensor that no checkpoint can hold.
    """
    arrays = Arrays()
    flat = {clean(name): _value(value, name, arrays) for name, value in state_dict.items()}
    return from_dotted(flat | {alias: flat[name] for alias, name in aliases.items()})


def _value(value: Any, name: str, arrays: Arrays) -> Any:
    return arrays.of(value, name) if isinstance(value, torch.Tensor) else value


def check_ties(state_dict: StateDict, state: State, aliases: Aliases) -> None:
    """Check that what is one in memory gets one value: names of one tensor, and places of an element that is repeated.

    Raises:
        TieError: Two names of one tensor have different values, or one that is expanded has different numbers.
    """
    groups = ties((clean(name), value) for name, value in state_dict.items())
    for first, *others in [*groups, *([kept, alias] for alias, kept in aliases.items())]:
        for other in others:
            if not equal(_at(state, first), _at(state, other)):
                raise TieError(
                    f"{first} and {other} are one tensor in the module",
                    expected="the same values for both",
                    found="different values",
                    fix="build a module that does not tie them, or give both the same values",
                )
    for name, value in state_dict.items():
        if isinstance(value, torch.Tensor) and not repeats_as(_at(state, clean(name)), value):
            raise TieError(
                f"{clean(name)} has one number in the module for several places, as expand() makes it",
                expected="the same number in all of them",
                found="different numbers",
                fix="build a module whose tensor is not expanded: expand(...).clone()",
            )


def load_state(module: nn.Module, state_dict: StateDict, state: State) -> None:
    """Write a state into the entries of a module's state dict; keys, dtypes and shapes were checked before."""
    given = {name: _at(state, clean(name)) for name, _ in state_dict.items()}
    there = {
        name for name, value in state_dict.items() if isinstance(value, torch.Tensor) and is_over(given[name], value)
    }
    for name in there:
        # The numbers came past torch, which must know all the same that they changed.
        torch.autograd.graph.increment_version(state_dict[name])
    left = {name: _loaded(value, given[name]) for name, value in state_dict.items() if name not in there}
    apart = {name for name in left if isinstance(state_dict[name], torch.Tensor) and is_written_apart(state_dict[name])}
    for name in apart:
        write(state_dict[name], left[name])
    # Not strict: the state dict may be a part of the module's, and all its names are there.
    module.load_state_dict({name: value for name, value in left.items() if name not in apart}, strict=False)


def _loaded(current: Any, value: Any) -> Any:
    return tensor_of(value) if isinstance(current, torch.Tensor) else value


def memory_in(state_dict: StateDict) -> dict[str, Array]:
    """Array key -> writable array over the tensor of that name, for those that can be filled from outside."""
    found = {
        join(*clean(name).split(".")): memory_of(value)
        for name, value in state_dict.items()
        if isinstance(value, torch.Tensor)
    }
    return {key: array for key, array in found.items() if array is not None}


def _at(state: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        state = state[name]
    return state


def aliases_of(state_dict: StateDict, attributes: Collection[str]) -> dict[str, str]:
    """Dotted names under the attributes -> a name outside them of the same tensor.

    Such a name stays part of the state when the attributes are removed: a tie with one inference name is inference.
    """
    found = {}
    for names in ties((clean(name), value) for name, value in state_dict.items()):
        kept = [name for name in names if not is_under(name, attributes)]
        found.update({name: kept[0] for name in names if kept and name not in kept})
    return found


def roles_of(state_dict: StateDict, aliases: Aliases, attributes: Collection[str]) -> dict[str, Role]:
    """Entry key -> role: what lies under the attributes is training, unless it is tied to something that does not."""
    inference = {*aliases, *aliases_of(state_dict, attributes)}
    plain = {clean(name): None if isinstance(value, torch.Tensor) else value for name, value in state_dict.items()}
    keys = entries(from_dotted(plain | dict.fromkeys(aliases)))
    return {key: _role(".".join(split(key)), attributes, inference) for key in keys}


def _role(name: str, attributes: Collection[str], inference: Collection[str]) -> Role:
    return "training" if is_under(name, attributes) and name not in inference else "inference"


def versions_of(tensors: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """A value that changes when a named tensor is replaced or written to in place."""
    return [(name, id(value), _version(value)) for name, value in tensors.items()]


def _version(value: Any) -> Any:
    is_counted = isinstance(value, torch.Tensor) and not value.is_inference()
    return value._version if is_counted else object()


def own_tensor(module: nn.Module, key: str) -> torch.Tensor:
    """The parameter or buffer of an array key, itself and not a copy."""
    owner, name = _owner(module, key)
    tensor: torch.Tensor = getattr(owner, name)
    return tensor


def share_tensor(module: nn.Module, key: str, tensor: torch.Tensor) -> None:
    """Let the module use this parameter or buffer at an array key, so that both are one from now on."""
    owner, name = _owner(module, key)
    holders: dict[str, Any] = owner._parameters if name in owner._parameters else owner._buffers
    holders[name] = tensor
    if isinstance(owner, nn.RNNBase):
        # It keeps a second list of its parameters.
        setattr(owner, name, tensor)


def _owner(module: nn.Module, key: str) -> tuple[nn.Module, str]:
    *parents, name = split(key)
    for parent in parents:
        module = _inside(module)._modules[parent]  # type: ignore[assignment]
    return _inside(module), name


def _inside(module: nn.Module) -> nn.Module:
    inner: Any = module._modules.get(COMPILED)
    return module if inner is None else inner
