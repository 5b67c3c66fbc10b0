from __future__ import annotations

import math

import numpy as np
import pytest

from rlpipe.errors import ConfigError
from rlpipe.exporters.labels import Labels, plain
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
