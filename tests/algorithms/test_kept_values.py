from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.algorithms.kept_values import given_back, kept
from rlpipe.errors import UnsupportedStateError
from rlpipe.snapshot.state import canonical

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_values_come_back_with_their_types(value: Any) -> None:
    state = canonical({"value": kept(value, "value")})
    found = given_back(state["value"], lambda tensor: tensor)
    assert found == value
    assert repr(_sorted(found)) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return type(value)(map(_sorted, value)) if isinstance(value, (list, tuple)) else value


def test_a_counter_is_one_again() -> None:
    milestones = Counter({30: 1, 60: 2})
    found = given_back(canonical({"m": kept(milestones, "m")})["m"], lambda tensor: tensor)
    assert found == milestones
    assert type(found) is Counter


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_tensors_come_back_in_memory_of_their_own(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape, dtype=dtype)
    array = kept(tensor, "t")
    found = given_back(array, lambda tensor: tensor)
    assert torch.equal(found, tensor)
    assert found.dtype == dtype
    found.zero_()
    assert torch.equal(tensor, torch.ones(shape, dtype=dtype))


def test_numbers_of_numpy_become_pythons() -> None:
    assert type(kept(np.float64(0.5), "lr")) is float
    assert type(kept(np.int32(3), "n")) is int


def test_anything_else_is_named_by_its_place() -> None:
    with pytest.raises(UnsupportedStateError, match=r"scheduler\.fn\[1\]"):
        kept({"fn": [1, print]}, "scheduler")
