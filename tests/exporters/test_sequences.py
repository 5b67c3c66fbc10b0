from __future__ import annotations

import numpy as np
import pytest

from rlpipe.exporters.sequences import ROWS, STEPS, drawn, play
from tests.exporters.memory_graphs import counter, lstm, masked_choices


def test_every_row_begins_early_anew_and_all_is_the_same_each_time() -> None:
    example = lstm()
    one, other = (drawn(example.chosen()) for _ in range(2))
    assert list(one) == ["obs", "episode_start"]
    assert one["obs"].shape == (STEPS, ROWS, 5)
    assert all((one[name] == other[name]).all() for name in one)
    starts = one["episode_start"]
    assert starts[0].all()
    assert starts[1:20].any(axis=0).all()
    assert 20 < starts.sum() < 100
    assert np.abs(one["obs"][:, ::2]).max() < 10 < np.abs(one["obs"][:, 1::2]).max()


def test_the_memory_of_a_step_is_that_of_the_step_before_or_none() -> None:
    example = counter()
    run = example.reference().episodes
    assert run is not None
    steps = run.outputs["state.0.next"]
    expected = np.zeros(ROWS, int)
    for step in range(STEPS):
        expected = np.where(run.starts[step], 0, expected) + 1
        np.testing.assert_array_equal(steps[step], expected)
    assert run.defined.all()


def test_a_row_does_not_depend_on_the_others() -> None:
    example = lstm()
    run = example.reference().episodes
    assert run is not None
    alone = play(example.compute, example.signature, {name: array[:30, 3:4] for name, array in run.inputs.items()})
    for name, array in alone.items():
        np.testing.assert_allclose(array[:, 0], run.outputs[name][:30, 3], atol=1e-5)


def test_single_steps_hold_states_that_the_policy_comes_to() -> None:
    truth = lstm().reference()
    assert truth.episodes is not None
    met = truth.episodes.outputs["state.1.next"].reshape(-1, 8)
    rows = truth.observations.arrays["state.1"][2::4, 0]
    assert (rows[:, None] == met).all(axis=2).any(axis=1).all()


def test_without_memory_there_are_no_sequences() -> None:
    assert masked_choices().reference().episodes is None


@pytest.mark.parametrize("pixels", [84, 400])
def test_large_states_take_fewer_rows_and_steps(pixels: int) -> None:
    from rlpipe.exporters.observations import observations
    from rlpipe.exporters.signature import Signature, signature_of
    from rlpipe.snapshot.spaces import Box, Discrete
    from tests.exporters.memory_graphs import START, states

    space = Box.uniform(0, 255, (pixels, pixels, 1), "uint8")
    before, after = states((pixels, pixels, 4), dtype="uint8")
    plain = signature_of(space, Discrete(2))
    signature = Signature(inputs=(*plain.inputs, *before, START), outputs=(*plain.outputs, *after))
    inputs = drawn(observations(space, signature))
    steps, rows = inputs["obs"].shape[:2]
    assert rows >= 2
    assert steps >= 40
    assert steps * rows * 9 * pixels**2 <= (64 << 20) * 2 or (steps, rows) == (40, 2)
