from __future__ import annotations

import numpy as np
import pytest

from rlpipe.errors import ObservationError
from rlpipe.exporters.observations import observations
from rlpipe.exporters.signature import signature_of
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, Space
from tests.exporters.graphs import unbounded

MIXED = Dict({"image": Box.uniform(0, 255, (4, 4), np.uint8), "mode": Discrete(3, start=5), "vector": unbounded(6)})


def groups_of(space: Space, **kwargs: object) -> dict[str, dict[str, np.ndarray]]:
    found = observations(space, signature_of(space, Discrete(2)), **kwargs)  # type: ignore[arg-type]
    ends = np.cumsum(list(found.groups.values()))[:-1]
    parts = {name: np.split(array, ends) for name, array in found.arrays.items()}
    return {group: {name: split[index] for name, split in parts.items()} for index, group in enumerate(found.groups)}


def test_they_are_the_same_every_time() -> None:
    first, second = (observations(MIXED, signature_of(MIXED, Discrete(2))) for _ in range(2))
    assert first.groups == second.groups
    assert all((first.arrays[name] == second.arrays[name]).all() for name in first.arrays)


def test_there_are_at_least_512_with_the_right_dtypes() -> None:
    signature = signature_of(MIXED, Discrete(2))
    found = observations(MIXED, signature)
    assert len(found) >= 512
    for spec in signature.inputs:
        array = found.arrays[spec.name]
        assert (array.dtype, array.shape) == (np.dtype(spec.dtype), (len(found), *spec.shape))
        assert np.isfinite(array).all()


def test_samples_and_corners_of_whole_numbers_are_in_the_space() -> None:
    groups = groups_of(MIXED)
    for group in ("samples", "scales", "corners"):
        assert set(groups[group]["obs.mode"].tolist()) <= {5, 6, 7}
    assert {0, 255} <= set(groups["corners"]["obs.image"].reshape(-1).tolist())
    assert {5, 7} == set(groups["corners"]["obs.mode"].tolist())


def test_scales_go_from_a_thousandth_to_a_thousand_and_hold_zero() -> None:
    sizes = np.abs(groups_of(unbounded(6))["scales"]["obs"])
    assert not sizes[0].any()
    rows = sizes[1:].max(axis=1)
    assert rows.min() < 0.02
    assert rows.max() > 500
    each = sizes[1::2].max(axis=1) / np.sort(sizes[1::2], axis=1)[:, 1]
    assert np.median(each) > 100, "large and small numbers side by side"


def test_corners_hold_the_bounds_and_what_is_far_outside() -> None:
    values = groups_of(Box.uniform(-2, 3, (4,)))["corners"]["obs"]
    assert {-2.0, 3.0, -1e6, 1e6} == set(values.reshape(-1).tolist())


def test_huge_bounds_are_no_sizes() -> None:
    top = float(np.finfo(np.float32).max)
    values = groups_of(Box.uniform(-top, top, (4,)))["samples"]["obs"]
    assert np.abs(values).max() < 100


def test_statistics_put_observations_where_the_policy_has_been() -> None:
    mean, deviation = np.full(6, 1000.0), np.full(6, 0.1)
    values = groups_of(unbounded(6), statistics={"obs": (mean, deviation)})["statistics"]["obs"]
    assert np.abs(values - 1000).max() < 10
    assert np.abs(values - 1000).std() > 0.1


def test_recorded_ones_are_taken_evenly() -> None:
    recorded = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    values = groups_of(unbounded(4), recorded=recorded)["recorded"]["obs"]
    assert len(values) == 256
    assert (values[0], values[-1]) == (pytest.approx(recorded[0]), pytest.approx(recorded[-1]))


def test_recorded_ones_have_to_fit() -> None:
    with pytest.raises(ObservationError, match=r"float64 \[3, 4\]"):
        groups_of(unbounded(4), recorded=np.zeros((3, 4)))


def test_large_observations_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlpipe.exporters.observations._MEMORY", 4 << 20)
    space = Box.uniform(0, 1, (3, 100, 100))
    found = observations(space, signature_of(space, Discrete(2)))
    assert 2 << 20 < found.arrays["obs"].nbytes < 5 << 20
    assert min(found.groups.values()) >= 2


def test_switches() -> None:
    assert set(groups_of(MultiBinary((3,)))["samples"]["obs"].reshape(-1).tolist()) == {0, 1}
