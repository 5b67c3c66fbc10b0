from __future__ import annotations

import math

import numpy as np
import pytest

from rlpipe.errors import ConfigError
from rlpipe.exporters.labels import Labels, plain, recorded_labels
from rlpipe.exporters.signature import signature_of
from rlpipe.snapshot.spaces import Box, Discrete

SIGNATURE = signature_of(Box.uniform(-1, 1, (3,)), Discrete(2))


def test_names_that_fit() -> None:
    Labels(names={"obs": ("a", "b", "c"), "action": ("push",)}).require_fit(SIGNATURE, "p")
    Labels().require_fit(SIGNATURE, "p")


@pytest.mark.parametrize("names", [{"obs": ("a", "b")}, {"obs.x": ("a", "b", "c")}])
def test_names_that_do_not(names: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ConfigError, match="3 for obs, 1 for action"):
        Labels(names=names).require_fit(SIGNATURE, "p")


@pytest.mark.parametrize("value", [None, 1, 0.5, "x", True, [1, {"a": []}], {"kp": [1.0]}])
def test_plain_values(value: object) -> None:
    assert plain(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: 2}, object(), np.float32(1), [math.nan]])
def test_other_values(value: object) -> None:
    assert not plain(value)


def test_nothing_given_is_nothing_recorded() -> None:
    assert Labels().to_json() == {}


def test_what_is_given_comes_before_what_was_recorded() -> None:
    recorded = recorded_labels({"names": {"obs": ["a"], "action": ["b"]}, "deployment": {"rate_hz": 50, "kp": [1.0]}})
    merged = Labels(names={"obs": ("x",)}, metadata={"rate_hz": 20}).over(recorded)
    assert merged == Labels(names={"obs": ("x",), "action": ("b",)}, metadata={"rate_hz": 20, "kp": [1.0]})


@pytest.mark.parametrize(
    "metadata", [{}, {"names": 3, "deployment": []}, {"names": {"obs": 3}, "deployment": {"x": math.inf}}]
)
def test_metadata_of_another_kind_names_nothing(metadata: dict[str, object]) -> None:
    assert recorded_labels(metadata) == Labels()


def test_recorded_names_of_other_tensors_are_left_aside() -> None:
    labels = Labels(names={"obs": ("a", "b", "c"), "action": ("x", "y"), "features": ("z",)}, metadata={"rate_hz": 50})
    assert labels.fitting(SIGNATURE) == Labels(names={"obs": ("a", "b", "c")}, metadata={"rate_hz": 50})
