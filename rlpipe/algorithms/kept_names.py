"""What an optimizer keeps for each parameter, found by a step of another one of its kind."""

from __future__ import annotations

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
