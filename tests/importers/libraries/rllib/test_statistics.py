"""Statistics of MeanStdFilter give RLlib's own formula, whatever form they come in."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from rlpipe.errors import NormalizerError
from rlpipe.importers.libraries.rllib.packed import unpacked
from rlpipe.importers.libraries.rllib.statistics import EPS, statistics_of
from rlpipe.importers.restricted.values import Record

Array = np.ndarray[Any, np.dtype[Any]]
numbers = st.floats(-1e3, 1e3, width=32)
samples = st_numpy.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=numbers)


def packed(array: Any) -> str:
    stream = io.BytesIO()
    np.save(stream, array)
    return base64.b64encode(zlib.compress(stream.getvalue())).decode()


def running(seen: Array, *, pack: Any = packed, **names: str) -> dict[str, Any]:
    mean = seen.mean(axis=0)
    return {
        names.get("count", "num_pushes"): len(seen),
        names.get("mean", "mean_array"): pack(mean),
        names.get("squares", "sum_sq_diff_array"): pack(np.square(seen - mean).sum(axis=0)),
    }


def state(seen: Array, **fields: Any) -> dict[str, Any]:
    flags = {"de_mean_to_zero": True, "de_std_to_one": True, "clip_by_value": 10.0}
    return {**flags, "running_stats": [running(seen)], **fields}


def rllib(seen: Array, x: Array) -> Array:
    """As ray/rllib/utils/filter.py: a deviation of float32, 1e-6 added in float32."""
    deviation = np.sqrt(np.maximum(0, seen.var(axis=0, ddof=1).astype(np.float32)))
    return np.clip((x - seen.mean(axis=0)) / (deviation + np.float32(1e-6)), -10, 10)


@given(seen=samples)
def test_the_formula_is_rllib_s(seen: Array) -> None:
    found = statistics_of(state(seen), subject="it")
    x = seen[:1] + 1
    given_here = np.clip((x - found.mean) / (found.std + EPS), -10, 10)
    np.testing.assert_allclose(given_here, rllib(seen, x), rtol=1e-6, atol=1e-9)
    assert (found.count, found.clip) == (len(seen), 10.0)


@given(array=st_numpy.arrays(st.sampled_from([np.float64, np.float32, np.int64]), st_numpy.array_shapes(max_dims=3)))
def test_packed_arrays_come_back(array: Array) -> None:
    np.testing.assert_array_equal(unpacked(packed(array)), array, strict=True)
    np.testing.assert_array_equal(unpacked(packed(np.asfortranarray(array))), array)


SEEN = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 13.0]])


def test_flags_turn_parts_off() -> None:
    found = statistics_of(state(SEEN, de_mean_to_zero=False, de_std_to_one=False, clip_by_value=None), subject="it")
    np.testing.assert_array_equal(found.mean, 0)
    np.testing.assert_allclose(found.std + EPS, 1, rtol=0, atol=1e-15)
    assert found.clip is None


def test_fewer_than_two_observations_have_no_deviation() -> None:
    found = statistics_of(state(SEEN[:1]), subject="it")
    np.testing.assert_allclose(found.std + EPS, 1e-6, rtol=1e-6)


def test_one_observation_once_had_its_mean_for_a_deviation() -> None:
    """RunningStat.var in ray/rllib/utils/filter.py, up to the versions that called the sum of squares std_array."""
    older = running(SEEN[:1], squares="std_array")
    found = statistics_of(state(SEEN, running_stats=[older]), subject="it")
    np.testing.assert_allclose(found.std + EPS, np.abs(SEEN[0]) + 1e-6, rtol=1e-6)


@pytest.mark.parametrize("names", [{}, {"squares": "std_array"}, {"count": "_n", "mean": "_M", "squares": "_S"}])
def test_filters_of_the_old_stack_are_read_as_they_were_pickled(names: dict[str, str]) -> None:
    inner = Record("ray.rllib.utils.filter.RunningStat", state=running(SEEN, pack=lambda array: array, **names))
    outer = {"demean": True, "destd": True, "clip": None, "running_stats": inner}
    old = statistics_of(Record("ray.rllib.utils.filter.MeanStdFilter", state=outer), subject="it")
    new = statistics_of(state(SEEN), subject="it")
    np.testing.assert_array_equal(old.std, new.std)
    np.testing.assert_array_equal(old.mean, new.mean)
    assert old.clip is None


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        {"running_stats": None},
        {"running_stats": [running(SEEN), running(SEEN)]},
        state(SEEN, running_stats=[{**running(SEEN), "num_pushes": -1}]),
        state(SEEN, running_stats=[{**running(SEEN), "num_pushes": "many"}]),
        state(SEEN, running_stats=[{**running(SEEN), "mean_array": packed(np.ones(3))}]),
        state(SEEN, running_stats=[{**running(SEEN), "mean_array": packed(np.array([1, np.nan]))}]),
        state(SEEN, running_stats=[{**running(SEEN), "sum_sq_diff_array": packed(np.array([True, False]))}]),
    ],
)
def test_what_is_no_statistics_is_refused(broken: Any) -> None:
    with pytest.raises(NormalizerError):
        statistics_of(broken, subject="it")
