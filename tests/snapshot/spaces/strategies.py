"""Random spaces, as gymnasium makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from([*INTEGERS, *FLOATS, "bool"])))
    elements = st.booleans() if dtype.kind == "b" else hnp.from_dtype(dtype, allow_nan=False)
    shape = draw(SHAPES)
    if draw(st.booleans()):
        ends = [np.full(shape, draw(elements), dtype) for _ in range(2)]
    else:
        ends = [draw(hnp.arrays(dtype, shape, elements=elements)) for _ in range(2)]
    low, high = np.asarray(np.minimum(*ends)), np.asarray(np.maximum(*ends))
    assume(not (low == np.inf).any() and not (high == -np.inf).any())
    return spaces.Box(low, high, dtype=dtype.type)


@st.composite
def discretes(draw: st.DrawFn) -> spaces.Discrete:
    dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from(INTEGERS)))
    limits = np.iinfo(dtype)
    start = draw(st.integers(int(limits.min), int(limits.max) - 1))
    most = min(int(limits.max) - start, int(limits.max))
    return spaces.Discrete(draw(st.integers(1, most)), start=start, dtype=dtype.type)


@st.composite
def multi_discretes(draw: st.DrawFn) -> spaces.MultiDiscrete:
    dtype = draw(st.sampled_from(INTEGERS))
    shape = draw(hnp.array_shapes(max_dims=2, max_side=3))
    nvec, start = (draw(hnp.arrays(dtype, shape, elements=st.integers(low, 60))) for low in (1, 0))
    return spaces.MultiDiscrete(nvec, dtype=np.dtype(dtype).type, start=start)


multi_binaries = st.one_of(st.integers(1, 5), st.lists(st.integers(1, 3), min_size=2, max_size=3)).map(
    spaces.MultiBinary
)


@st.composite
def texts(draw: st.DrawFn) -> spaces.Text:
    charset = draw(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8))
    shortest = draw(st.integers(0, 3))
    longest = draw(st.integers(max(1, shortest), 6))
    return spaces.Text(longest, min_length=shortest, charset=charset)


leaves: st.SearchStrategy[Any] = st.one_of(boxes(), discretes(), multi_discretes(), multi_binaries, texts())
gymnasium_spaces: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.dictionaries(st.text(max_size=3), inner, max_size=3).map(spaces.Dict),
        st.lists(inner, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=5,
)
