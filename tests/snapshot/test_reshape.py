from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpecError, StateMismatchError
from rlpipe.snapshot import Snapshot, Spec, merge
from rlpipe.snapshot.reshape import reshaped
from rlpipe.snapshot.state import entries, equal


def snapshot(spec: int = 0, **state: Any) -> Snapshot:
    return Snapshot(Spec("a.B", {"size": spec}), state, dict.fromkeys(entries(state), "inference"))


def numbers(*shape: int, start: int = 0) -> Any:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


SHAPES = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(SHAPES, SHAPES)
def test_what_both_reach_is_the_patchs_and_the_rest_the_bases(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    base, patch = snapshot(0, w=numbers(*ours, start=100), n=1), snapshot(1, w=numbers(*theirs), n=2)
    fitted = reshaped(base, patch, "copy_overlap")
    found = merge(base, fitted.patch).state
    rows, columns = min(ours[0], theirs[0]), min(ours[1], theirs[1])
    assert found["w"].shape == ours
    assert np.array_equal(found["w"][:rows, :columns], patch.state["w"][:rows, :columns])
    assert np.array_equal(found["w"][rows:], base.state["w"][rows:])
    assert np.array_equal(found["w"][:, columns:], base.state["w"][:, columns:])
    assert found["n"] == 2
    assert (fitted.changed == {}) == (ours == theirs)


@given(SHAPES, SHAPES)
def test_what_is_skipped_stays(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    base, patch = snapshot(0, w=numbers(*ours, start=100)), snapshot(1, w=numbers(*theirs))
    found = merge(base, reshaped(base, patch, "skip").patch).state
    assert equal(found["w"], patch.state["w"] if ours == theirs else base.state["w"])


def test_error_changes_nothing() -> None:
    base, patch = snapshot(w=numbers(2, 2)), snapshot(w=numbers(3, 2))
    assert reshaped(base, patch, "error").patch is patch


@pytest.mark.parametrize("other", [numbers(2), numbers(2, 2).astype(np.float64), 3])
def test_more_than_sizes_is_refused(other: Any) -> None:
    base, patch = snapshot(0, w=numbers(2, 2)), snapshot(1, w=other)
    with pytest.raises(StateMismatchError):
        merge(base, reshaped(base, patch, "copy_overlap").patch)


@pytest.mark.parametrize(
    "config", [{"hidden": [3], "activation": "relu"}, {"hidden": [3], "activation": "tanh", "norm": True}]
)
@pytest.mark.parametrize("on_shape", ["copy_overlap", "skip"])
@pytest.mark.parametrize("size", [2, 3])
def test_another_network_is_refused_whatever_its_sizes(config: dict[str, Any], on_shape: Any, size: int) -> None:
    base, patch = snapshot(0, w=numbers(2, 2)), snapshot(1, w=numbers(size, 2))
    base = replace(base, spec=Spec("a.B", {"hidden": [2], "activation": "tanh"}))
    patch = replace(patch, spec=Spec("a.B", config))
    with pytest.raises(SpecError):
        merge(base, reshaped(base, patch, on_shape).patch)


def test_a_neighbour_of_other_sizes_changes_nothing_for_those_that_fit() -> None:
    def tree(size: int, **config: Any) -> Snapshot:
        second = replace(snapshot(0, w=numbers(2)), spec=Spec("a.B", config))
        return replace(snapshot(), children={"a": snapshot(size, w=numbers(size)), "b": second})

    fitted = reshaped(tree(2), tree(3), "copy_overlap").patch
    assert not fitted.children["a"].whole
    assert fitted.children["b"].whole
    with pytest.raises(SpecError):
        merge(tree(2, kind="x"), reshaped(tree(2, kind="x"), tree(3, kind="y"), "copy_overlap").patch)


def test_neither_side_is_changed() -> None:
    base, patch = snapshot(0, w=numbers(2, 2)), snapshot(1, w=numbers(3, 3, start=50))
    reshaped(base, patch, "copy_overlap")
    assert equal(base.state["w"], numbers(2, 2))
    assert equal(patch.state["w"], numbers(3, 3, start=50))
