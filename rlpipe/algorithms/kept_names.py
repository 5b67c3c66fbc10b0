"""What an optimizer takes, and what it keeps for each parameter, found by another one of its kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from rlpipe.algorithms.kept_values import given_back
from rlpipe.algorithms.random_states import random_states, set_random_states
from rlpipe.algorithms.training_spec import TrainingSpec


def kept_names(
    training: TrainingSpec, settings: Mapping[str, Any], like: torch.Tensor, *, trust: tuple[str, ...]
) -> frozenset[str]:
    """Names of what the optimizer keeps for a parameter after its first step; none of one that fails in the trial.

    Args:
        training: How it is built.
        settings: Those of the group, as a state keeps them.
        like: A parameter of the size and device in question.
        trust: See `TrainingSpec.build_optimizer`.
    """
    parameter = torch.nn.Parameter(torch.zeros_like(like))
    before = random_states()
    try:
        optimizer = replace(training, groups={}).build_optimizer({"none": parameter}, trust=trust)
        optimizer.param_groups[0].update(deepcopy(given_back(dict(settings), lambda tensor: tensor)))
        parameter.grad = torch.ones_like(parameter)
        optimizer.step(lambda: torch.zeros(()))  # type: ignore[arg-type, return-value]
        return frozenset(optimizer.state[parameter])
    except Exception:  # noqa: BLE001 - any class may refuse the trial in any way; then nothing is known
        return frozenset()
    finally:
        set_random_states(before)


def require_accepted(
    training: TrainingSpec, optimizer: torch.optim.Optimizer, values: Mapping[str, Any], *, trust: tuple[str, ...]
) -> None:
    """Let the class of an optimizer look at settings that take the place of those that it was built with.

    Args:
        training: How it was built.
        optimizer: It.
        values: Name -> value.
        trust: See `TrainingSpec.build_optimizer`.

    Raises:
        SpecError: It refuses them.
    """
    taken = inspect.signature(type(optimizer).__init__).parameters
    kwargs = {**training.optimizer_kwargs, **{name: value for name, value in values.items() if name in taken}}
    like = optimizer.param_groups[0]["params"][0]
    other = replace(training, groups={}, optimizer_kwargs=kwargs)
    other.build_optimizer({"none": torch.nn.Parameter(torch.zeros_like(like))}, trust=trust)
