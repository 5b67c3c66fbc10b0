"""What an optimizer keeps is found by a trial that changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlpipe.algorithms.kept_names import kept_names
from rlpipe.algorithms.random_states import random_states
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.snapshot.state import equal
from tests.algorithms.training import loss


class Noisy(torch.optim.Optimizer):
    """Draws a number at each step."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        self.state[self.param_groups[0]["params"][0]]["drawn"] = torch.rand(())
        return closure()


@pytest.mark.parametrize(
    ("kind", "settings", "names"),
    [
        (torch.optim.Adam, {"amsgrad": False}, {"step", "exp_avg", "exp_avg_sq"}),
        (torch.optim.Adam, {"amsgrad": True}, {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        (torch.optim.SGD, {"momentum": 0.9}, {"momentum_buffer"}),
        (torch.optim.SGD, {}, set()),
        (Noisy, {}, {"drawn"}),
        (torch.optim.Muon, {}, set()),  # which takes matrices alone, so that nothing is known
    ],
)
def test_names_are_those_of_a_first_step(kind: Any, settings: dict[str, Any], names: set[str]) -> None:
    before = random_states()
    found = kept_names(TrainingSpec(loss=loss, optimizer=kind), settings, torch.zeros(3), trust=())
    assert found == names
    assert equal(random_states(), before)
