from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpipe.algorithms.algorithm import Algorithm
from rlpipe.algorithms.random_states import (
    SOURCES,
    check_random_states,
    fresh_random_states,
    random_states,
    set_random_states,
)
from rlpipe.errors import StateMismatchError
from rlpipe.modules.multi_rl_module import MultiRLModule
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.state import canonical, equal
from tests.algorithms.training import policy


def draw() -> list[float]:
    return [random.random(), random.gauss(0, 1), *np.random.normal(size=3), *torch.randn(3).tolist()]  # noqa: NPY002


def test_what_is_drawn_after_a_restore_is_drawn_again() -> None:
    draw()
    state = canonical(random_states())
    first = draw()
    set_random_states(state)
    assert draw() == first


def test_equal_seeds_give_equal_states_and_leave_the_process_alone() -> None:
    before = random_states()
    one, other = fresh_random_states(3), fresh_random_states(3)
    assert equal(one, other)
    assert not equal(one, fresh_random_states(4))
    assert equal(random_states(), before)
    assert tuple(one) == tuple(before) == SOURCES
    check_random_states(one)


@pytest.mark.parametrize("name", ["python", "numpy", "torch"])
def test_a_state_that_a_generator_refuses_changes_nothing(name: str) -> None:
    before = random_states()
    bad = {**before, name: (np.zeros(2, np.uint8),) if name == "torch" else ({"words": np.zeros(2)},)}
    with pytest.raises(StateMismatchError, match="random number"):
        check_random_states(bad)
    assert equal(random_states(), before)


def test_states_of_devices_that_are_not_here_are_left_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    count = torch.cuda.device_count()
    state = {**random_states(), "cuda": ([np.zeros(16, np.uint8)] * (count + 1),)}
    if count:
        pytest.skip("this machine has devices whose states would be set")
    set_random_states(state)
    assert "this machine has 0" in caplog.text


def test_what_is_loaded_beside_a_training_draws_nothing(tmp_path: Path) -> None:
    made = Algorithm({"p0": policy()})
    path = Path(made.save_to_path(tmp_path / "a"))
    before = random_states()
    Algorithm.from_checkpoint(path)
    Policy.from_checkpoint(path, ["p0"])
    MultiRLModule.from_checkpoint(path / "policies")
    RLModule.from_checkpoint(path / "policies/p0", inference_only=True)
    made.restore_from_path(path)
    made.get_state()
    assert equal(random_states(), before)
