"""Spaces of every kind, and hypothesis strategies for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

INF = float("inf")

OBSERVATIONS: dict[str, Space] = {
    "row": Box.uniform(-INF, INF, (4,)),
    "float64": Box.uniform(-1, 1, (3,), np.float64),
    "float16": Box.uniform(-1, 1, (3,), np.float16),
    "scalar": Box.uniform(-1, 1, ()),
    "matrix": Box.uniform(-1, INF, (2, 3)),
    "int32": Box.uniform(-5, 5, (2, 2), np.int32),
    "uint8_row": Box.uniform(0, 255, (6,), np.uint8),
    "bool": Box.uniform(0, 1, (2,), np.bool_),
    "hwc": Box.uniform(0, 255, (12, 10, 3), np.uint8),
    "chw": Box.uniform(0, 255, (3, 12, 10), np.uint8),
    "discrete": Discrete(4, start=-2),
    "multi_discrete": MultiDiscrete(np.array([[2, 3], [1, 4]]), start=np.array([[0, 1], [-1, 5]])),
    "multi_binary": MultiBinary((2, 3)),
    "dict": Dict({"b": Box.uniform(-1, 1, (2,)), "a": Discrete(3), "c": Box.uniform(0, 255, (8, 8, 1), np.uint8)}),
    "tuple": Tuple((MultiBinary((2,)), Box.uniform(-1, 1, (2,), np.float64))),
    "nested": Dict({"x": Tuple((Discrete(2), Dict({"y": Box.uniform(-1, 1, (1,))}))), "w": Box.uniform(-1, 1, ())}),
}

ACTIONS: dict[str, Space] = {
    "discrete": Discrete(3, start=5),
    "discrete_int32": Discrete(3, 0, np.dtype(np.int32)),
    "multi_discrete": MultiDiscrete(np.array([3, 2]), start=np.array([1, -1])),
    "multi_discrete_matrix": MultiDiscrete(np.array([[3, 2], [2, 2]])),
    "multi_binary": MultiBinary((4,)),
    "multi_binary_matrix": MultiBinary((2, 2)),
    "box": Box(np.array([-1.0, 0.1, -INF]), np.array([2.0, 0.3, INF]), np.dtype(np.float32)),
    "box_float64": Box(np.array([-0.1, 0.1]), np.array([0.3, 0.7]), np.dtype(np.float64)),
    "box_float16": Box.uniform(-0.1, 0.3, (2,), np.float16),
    "box_scalar": Box.uniform(-2, 2, ()),
    "box_matrix": Box.uniform(-2, 2, (2, 3)),
    "box_int": Box(np.array([0, -3]), np.array([9, 3]), np.dtype(np.int64)),
    "box_uint8": Box.uniform(0, 255, (2,), np.uint8),
    "free": Box.uniform(-INF, INF, (2,)),
}


def batch(space: Space, n: int = 6, seed: int = 0) -> Any:
    """`n` values of a space."""
    return space.sample(n, np.random.default_rng(seed))


sizes = st.integers(1, 4)
floats = st.floats(-1e6, 1e6, width=32)


@st.composite
def leaf_spaces(draw: st.DrawFn) -> Space:
    """Spaces without parts."""
    kind = draw(st.sampled_from(["box", "discrete", "multi_discrete", "multi_binary"]))
    shape = tuple(draw(st.lists(sizes, max_size=3)))
    if kind == "discrete":
        return Discrete(draw(st.integers(1, 9)), draw(st.integers(-9, 9)))
    if kind == "multi_discrete":
        counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
        return MultiDiscrete(np.array(counts), np.array([draw(st.integers(-3, 3)) for _ in counts]))
    if kind == "multi_binary":
        return MultiBinary(shape or (1,))
    low, high = sorted((draw(floats), draw(floats)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Box.uniform(draw(st.sampled_from([low, -INF])), draw(st.sampled_from([high, INF])), shape, dtype)


def any_space() -> st.SearchStrategy[Space]:
    """Spaces of every kind, nested ones among them."""
    names = st.text("abcxyz", min_size=1, max_size=3)
    return st.recursive(
        leaf_spaces(),
        lambda inner: st.one_of(
            st.dictionaries(names, inner, min_size=1, max_size=3).map(Dict),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Tuple(tuple(parts))),
        ),
        max_leaves=5,
    )
