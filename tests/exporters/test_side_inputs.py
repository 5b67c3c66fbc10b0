"""Memory, episode starts, masks and noise that show what is done with them."""

from __future__ import annotations

import numpy as np
import pytest

from rlpipe.exporters.side_inputs import mask_parts, masks, noise, reached, side_inputs
from rlpipe.exporters.signature import ACTION_MASK, NOISE, Signature, TensorSpec, signature_of
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from tests.exporters.memory_graphs import STEPPING, lstm, masked_choices

ROWS = 512


@pytest.mark.parametrize("name", STEPPING)
def test_every_input_is_filled_in_its_dtype(name: str) -> None:
    example = STEPPING[name]()
    found = example.chosen()
    assert list(found.arrays) == [spec.name for spec in example.signature.inputs]
    for spec in example.signature.inputs:
        array = found.arrays[spec.name]
        assert (array.dtype, array.shape) == (np.dtype(spec.dtype), (len(found), *spec.shape))
        assert array.dtype.kind != "f" or np.isfinite(array).all()


def test_a_memory_is_fresh_drawn_or_reached_and_anything_where_it_is_put_back() -> None:
    signature = lstm().signature
    made = side_inputs(signature, ROWS)
    starts, state = made["episode_start"], made["state.0"].reshape(ROWS, -1)
    assert 0.15 < starts.mean() < 0.35
    assert not state[::4][~starts[::4]].any()
    assert (np.abs(state[starts]).max(axis=1) > 1e29).sum() > 10
    assert np.abs(state[~starts]).max() < 30
    met = {name: np.full((5, 1, 8), 7 + index, "f4") for index, name in enumerate(("state.0", "state.1"))}
    filled = reached(made, met)
    assert (filled["state.0"][2::4] == 7).all()
    assert (filled["state.1"][3::4] == 8).all()
    np.testing.assert_array_equal(filled["state.0"][:2], made["state.0"][:2])


def test_a_mask_allows_all_one_some_or_nothing_of_each_part() -> None:
    assert mask_parts(masked_choices().signature) == (2, 3)
    mask = masks((2, 3), ROWS, np.random.default_rng(0))
    counts = np.stack([mask[:, :2].sum(axis=1), mask[:, 2:].sum(axis=1)], axis=1)
    none = ~mask.any(axis=1)
    assert none.sum() == ROWS // 64
    assert counts[~none].min() == 1
    assert (counts == [2, 3]).all(axis=1).sum() >= ROWS // 4
    assert (counts == 1).all(axis=1).sum() >= ROWS // 5
    assert mask[~none].any(axis=0).all()


@pytest.mark.parametrize(
    ("space", "width", "parts"),
    [
        (Discrete(4, start=2), 4, (4,)),
        (MultiDiscrete(np.array([[2, 3], [4, 5]])), 14, (2, 3, 4, 5)),
        (Tuple((Discrete(3), Box.uniform(-1, 1, (2,)), MultiBinary((2,)))), 3, (3,)),
        (Discrete(4), 9, (9,)),
    ],
)
def test_the_parts_of_a_mask_are_those_of_the_actions(space: Space, width: int, parts: tuple[int, ...]) -> None:
    plain = signature_of(Box.uniform(-1, 1, (2,)), space)
    mask = TensorSpec(name=ACTION_MASK, dtype="bool", shape=(width,))
    assert mask_parts(Signature(inputs=(*plain.inputs, mask), outputs=plain.outputs)) == parts


@pytest.mark.parametrize(("distribution", "low", "high"), [("normal", -5, 5), ("uniform", 2.0**-24, 1 - 2.0**-24)])
def test_noise_has_its_distribution_and_its_ends(distribution: str, low: float, high: float) -> None:
    spec = TensorSpec(name=NOISE, dtype="float32", shape=(3,), distribution=distribution)  # type: ignore[arg-type]
    values = noise(spec, ROWS, np.random.default_rng(0))
    assert (values.min(), values.max()) == (np.float32(low), np.float32(high))
    assert values.dtype == np.float32
    mean = 0 if distribution == "normal" else 0.5
    assert abs(values.mean() - mean) < 0.1
