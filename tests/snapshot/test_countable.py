"""Which shapes numpy takes, told without asking it."""

from __future__ import annotations

import numpy as np
import pytest

from rlpipe.snapshot.dtypes import is_countable

SHAPES = [(), (0,), (0, 2**60 - 1), (0, 2**60), (2**31, 0, 2**29), (2**31, 0, 2**28), (0, 2**63)]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_numpy_can_count(shape: tuple[int, ...]) -> None:
    try:
        np.ndarray(shape, np.float64, bytes(8))
    except ValueError:
        assert not is_countable(shape, 8)
    else:
        assert is_countable(shape, 8)
