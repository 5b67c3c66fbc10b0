"""Every stage against numpy, written from its description."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import NormalizerError
from rlpipe.policies.stage import build_chain, initial_states
from rlpipe.policies.stages import (
    Affine,
    Argmax,
    Cast,
    Clip,
    Concat,
    Flatten,
    Layout,
    MultiArgmax,
    Normalize,
    OneHot,
    PerKey,
    Reshape,
    Round,
    Scale,
    Stage,
    Tanh,
    Threshold,
    Unscale,
)
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from rlpipe.snapshot.state import State

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
FREE = Box.uniform(-np.inf, np.inf, (6,))


def run(stage: Stage, space: Space, given: Any, state: State | None = None) -> Array:
    """What the stage's torch module makes of a batch; its shape and dtype are those that the stage promises."""
    chain = build_chain((stage,), space, {stage.type: state or {}})
    found: Array = chain(_tensors(given)).numpy()
    promised = stage.output_space(space)
    assert isinstance(promised, Box)
    assert (found.shape[1:], found.dtype) == (promised.shape, promised.dtype)
    return found


def _tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tensors(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_tensors, value))
    return torch.from_numpy(np.ascontiguousarray(value))


def rows(*shape: int, dtype: Any = np.float32, scale: float = 1) -> Array:
    values: Array = (scale * RNG.normal(size=(7, *shape))).astype(dtype)
    return values


def test_cast() -> None:
    x = rows(2, 3, dtype=np.float64, scale=1e3)
    found = run(Cast("float32"), Box.uniform(-np.inf, np.inf, (2, 3), np.float64), x)
    np.testing.assert_array_equal(found, x.astype(np.float32))


def test_flatten_layout_and_reshape_move_elements() -> None:
    space = Box.uniform(-np.inf, np.inf, (2, 3, 4))
    x = rows(2, 3, 4)
    np.testing.assert_array_equal(run(Flatten(), space, x), x.reshape(7, 24))
    np.testing.assert_array_equal(run(Layout((2, 0, 1)), space, x), np.moveaxis(x, 3, 1))
    np.testing.assert_array_equal(run(Reshape((4, 6)), space, x), x.reshape(7, 4, 6))
    scalar = rows()
    np.testing.assert_array_equal(run(Flatten(), Box.uniform(-9, 9, ()), scalar), scalar[:, None])
    np.testing.assert_array_equal(run(Reshape(()), Box.uniform(-9, 9, (1,)), scalar[:, None]), scalar)


def test_one_hot() -> None:
    x = np.array([-2, 1, 0, -1])
    expected = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(run(OneHot((4,), (-2,)), Discrete(4, -2), x), expected)
    space = MultiDiscrete(np.array([[2, 1], [3, 2]]), np.array([[0, 5], [-1, 0]]))
    x = np.array([[[0, 5], [1, 1]], [[1, 5], [-1, 0]]])
    expected = np.array([[1, 0, 1, 0, 0, 1, 0, 1], [0, 1, 1, 1, 0, 0, 1, 0]])
    np.testing.assert_array_equal(run(OneHot((2, 1, 3, 2), (0, 5, -1, 0)), space, x), expected)


def test_scale_is_a_division() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(-1, 1)
    found = run(Scale(255.0), Box.uniform(0, 255, (1,), np.uint8), x)
    np.testing.assert_array_equal(found, x.astype(np.float32) / np.float32(255))
    wide = rows(3, dtype=np.float64, scale=1e3)
    found = run(Scale(7.0, 3.0), Box.uniform(-np.inf, np.inf, (3,), np.float64), wide)
    np.testing.assert_array_equal(found, ((wide - 3) / 7).astype(np.float32))


def statistics(mean: Array, second: Array, formula: str) -> State:
    return {"mean": mean, formula.removesuffix("_eps"): second}


def standard(x: Array, mean: Array, second: Array, formula: str, eps: float, clip: float | None) -> Array:
    """The formula in float64, as trainers compute it."""
    wide = x.astype(np.float64)
    deviation = np.sqrt(second + eps) if formula == "var_eps" else second + eps
    found: Array = (wide - mean) / deviation
    return found if clip is None else np.clip(found, -clip, clip)


@pytest.mark.parametrize("formula", ["var_eps", "std_eps"])
@pytest.mark.parametrize("clip", [None, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.float16])
def test_normalize(formula: str, clip: float | None, dtype: Any) -> None:
    x = np.abs(rows(6, scale=20)).astype(dtype)
    mean, second = RNG.uniform(0, 20, 6), RNG.uniform(1, 9, 6)
    found = run(Normalize(formula, 1e-2, clip), _space(dtype, 6), x, statistics(mean, second, formula))
    np.testing.assert_allclose(found, standard(x, mean, second, formula, 1e-2, clip), rtol=2e-7, atol=1e-6)


def _space(dtype: Any, size: int) -> Box:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return Box.uniform(-np.inf, np.inf, (size,), kind)
    return Box.uniform(0, 200, (size,), kind)


@pytest.mark.parametrize("mean", [1e3, 12345.678, -1e6, 0.1])
def test_a_large_mean_costs_no_digits_in_float32(mean: float) -> None:
    centre = mean + RNG.normal(size=200)
    x = (centre + RNG.uniform(-0.5, 0.5, size=(50, 200))).astype(np.float32)
    variance = np.full(200, 0.01)
    found = run(Normalize("var_eps", 1e-8, None), _space(np.float32, 200), x, statistics(centre, variance, "var_eps"))
    np.testing.assert_allclose(found, standard(x, centre, variance, "var_eps", 1e-8, None), rtol=2e-7, atol=5e-7)
    naive = (x - centre.astype(np.float32)) / np.float32(0.1)
    if abs(mean) >= 1e3:
        assert np.abs(naive - standard(x, centre, variance, "var_eps", 1e-8, None)).max() > 1e-5


def test_float64_observations_are_normalised_before_the_cast() -> None:
    x = 1e8 + RNG.normal(size=(20, 6))
    mean, variance = np.full(6, 1e8), np.ones(6)
    found = run(Normalize("var_eps", 0.0, None), _space(np.float64, 6), x, statistics(mean, variance, "var_eps"))
    np.testing.assert_array_equal(found, (x - mean).astype(np.float32))


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_normalize_agrees_with_float64_for_any_statistics(mean: float, deviation: float, seed: int) -> None:
    x = (mean + deviation * np.random.default_rng(seed).normal(size=(5, 6))).astype(np.float32)
    state = statistics(np.full(6, mean), np.full(6, deviation), "std_eps")
    found = run(Normalize("std_eps", 1e-8, 10.0), FREE, x, state)
    np.testing.assert_allclose(found, standard(x, state["mean"], state["std"], "std_eps", 1e-8, 10.0), atol=1e-6)


@pytest.mark.parametrize(
    ("mean", "var", "eps", "named"),
    [
        (np.nan, 1.0, 1e-8, "mean"),
        (np.inf, 1.0, 1e-8, "mean"),
        (0.0, np.nan, 1e-8, "var"),
        (0.0, np.inf, 1e-8, "var"),
        (0.0, -1.0, 2.0, "var"),
        (0.0, 0.0, 0.0, "var"),
        (0.0, 1e-100, 0.0, "var"),
    ],
)
def test_statistics_that_cannot_normalise_are_named(mean: float, var: float, eps: float, named: str) -> None:
    state = {"mean": np.zeros(6), "var": np.ones(6)}
    state["mean"][2], state["var"][2] = mean, var
    with pytest.raises(NormalizerError, match=f"observation/normalize/{named}") as caught:
        run(Normalize("var_eps", eps, None), FREE, rows(6), state)
    assert "1 of 6" in caught.value.found
    assert "[2]" in caught.value.found


def test_statistics_start_at_nothing() -> None:
    state = initial_states((Normalize("std_eps", 0.01, None),), FREE)
    assert state.keys() == {"normalize"}
    np.testing.assert_array_equal(state["normalize"]["mean"], np.zeros(6))
    np.testing.assert_array_equal(state["normalize"]["std"], np.ones(6))
    assert state["normalize"]["std"].dtype == np.float64


def test_per_key_and_concat() -> None:
    space: Space = Dict(
        {"b": MultiBinary((2, 2)), "a": Discrete(2), "t": Tuple((Box.uniform(0, 1, (2,)), Discrete(2)))}
    )
    x: dict[str, Any] = {
        "b": RNG.integers(0, 2, (3, 2, 2)).astype(np.int8),
        "a": np.array([0, 1, 1]),
        "t": (rows(2)[:3], np.array([1, 1, 0])),
    }
    inner = (PerKey({"0": (), "1": (OneHot((2,), (0,)),)}), Concat(("1", "0")))
    stages = (PerKey({"b": (Cast("float32"),), "a": (OneHot((2,), (0,)),), "t": inner}), Concat(("t", "a", "b")))
    found = build_chain(stages, space, {})(_tensors(x)).numpy()
    expected = np.concatenate([np.eye(2)[x["t"][1]], x["t"][0], np.eye(2)[x["a"]], x["b"].reshape(3, 4)], axis=1)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_statistics_of_a_key_are_its_own() -> None:
    space = Dict({"a": Box.uniform(-9, 9, (2,)), "b": Box.uniform(-9, 9, (2,))})
    normalize = Normalize("var_eps", 0.0, None)
    stages = (PerKey({"a": (normalize,), "b": (normalize,)}), Concat(("a", "b")))
    state = initial_states(stages, space)
    assert state["per_key"].keys() == {"a", "b"}
    state["per_key"]["b"]["normalize"]["mean"] += 3
    x = {"a": rows(2), "b": rows(2)}
    found = build_chain(stages, space, state)(_tensors(x)).numpy()
    np.testing.assert_allclose(found, np.concatenate([x["a"], x["b"] - 3], axis=1), rtol=1e-6)


def test_argmax_and_multi_argmax() -> None:
    x = rows(6)
    np.testing.assert_array_equal(run(Argmax(5), FREE, x), 5 + x.argmax(1))
    found = run(MultiArgmax((1, 3, 2), (7, 0, -1)), FREE, x)
    expected = [x[:, :1].argmax(1) + 7, x[:, 1:4].argmax(1), x[:, 4:].argmax(1) - 1]
    np.testing.assert_array_equal(found, np.stack(expected, 1))


def test_threshold_is_above_not_at() -> None:
    x = np.array([[0.0, 0.5, -0.5, 1e-30, -0.0, 3]], np.float32)
    np.testing.assert_array_equal(run(Threshold(), FREE, x), [[0, 1, 0, 1, 0, 1]])
    np.testing.assert_array_equal(run(Threshold(0.5), FREE, x), [[0, 0, 0, 0, 0, 1]])


def test_clip_with_a_bound_on_one_side() -> None:
    low, high = (-0.5, -np.inf, 0, 0, 0, 0.1), (0.5, 0, np.inf, 0, 1, 0.1)
    x = rows(6, scale=2)
    np.testing.assert_array_equal(
        run(Clip(low, high), FREE, x), np.clip(x, np.array(low, np.float32), np.array(high, np.float32))
    )
    np.testing.assert_array_equal(run(Clip(-0.1, 0.1), FREE, x), np.clip(x, np.float32(-0.1), np.float32(0.1)))


def test_bounds_keep_the_shape_of_the_action() -> None:
    x = rows(2, 3)
    space = Box.uniform(-np.inf, np.inf, (2, 3))
    high = np.arange(6.0) / 10
    np.testing.assert_array_equal(
        run(Clip(0, tuple(high)), space, x), np.clip(x, 0, high.reshape(2, 3).astype(np.float32))
    )


def test_tanh_and_unscale() -> None:
    x = rows(6, scale=3)
    np.testing.assert_allclose(run(Tanh(), FREE, x), np.tanh(x.astype(np.float64)), atol=1e-6)
    low, high = np.arange(6) - 3.0, np.arange(6) * 2.0
    unit = np.clip(x / 3, -1, 1)
    expected = low + 0.5 * (unit.astype(np.float64) + 1) * (high - low)
    np.testing.assert_allclose(run(Unscale(tuple(low), tuple(high)), FREE, unit), expected, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unscale_never_leaves_the_bounds(dtype: Any) -> None:
    low, high = RNG.uniform(-1, 0, 300).astype(dtype), RNG.uniform(0, 1, 300).astype(dtype)
    space = Box.uniform(-1, 1, (300,), dtype)
    ends = np.stack([np.full(300, -1), np.full(300, 1), np.full(300, 2)]).astype(dtype)
    found = run(Unscale(tuple(map(float, low)), tuple(map(float, high))), space, ends)
    assert (found >= low).all()
    assert (found <= high).all()
    np.testing.assert_array_equal(found[0], low)
    np.testing.assert_allclose(found[1], high, atol=1e-6)
    np.testing.assert_array_equal(found[2], high)


def test_affine_and_round() -> None:
    x = rows(6)
    found = run(Affine(tuple(np.arange(6.0)), -1.5), FREE, x)
    np.testing.assert_allclose(found, x * np.arange(6) - 1.5, atol=1e-6)
    halves = np.array([[0.5, 1.5, 2.5, -0.5, 0.49, -2.51]], np.float32)
    np.testing.assert_array_equal(run(Round(), FREE, halves), [[0, 2, 2, 0, 0, -3]])
