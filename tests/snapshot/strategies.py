"""Hypothesis strategies for states and snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from rlpipe.snapshot import ROLES, Snapshot, Spec
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.state import State, canonical, entries

names = st.text(max_size=6) | st.sampled_from(["", ".", "..", "a/b", "%", "a\0b", "%2F", "weight", "0"])
ids = st.text("abcxyz019", min_size=1, max_size=3)


@st.composite
def any_array(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Arrays of every storable dtype from random bytes, so that nan payloads and -0.0 occur."""
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(shape)
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    return np.frombuffer(bytearray(raw), dtype).reshape(shape)


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5) | any_array()
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=8,
)
states: st.SearchStrategy[State] = st.dictionaries(names, values, max_size=4).map(canonical)


@st.composite
def components(draw: st.DrawFn, children: st.SearchStrategy[Any] = st.just({})) -> Snapshot:
    """One component with random roles."""
    state = draw(states)
    roles = {key: draw(st.sampled_from(ROLES)) for key in entries(state)}
    spec = Spec(draw(ids), {"n": draw(st.integers(0, 2))}, {"inference_only": False})
    return Snapshot(spec, state, roles, draw(children))


snapshots = components(st.dictionaries(ids, components(st.dictionaries(ids, components(), max_size=2)), max_size=3))
