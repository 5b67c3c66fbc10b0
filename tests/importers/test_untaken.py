from __future__ import annotations

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.untaken import Untaken


class Weights(Untaken):
    thing = "policy"
    networks = "one layer"
    fix = "take another"


def test_what_is_left_becomes_less_and_is_told_in_order() -> None:
    weights = Weights({"a.w": np.ones((2, 3)), "ab": np.ones(1)}, subject="it")
    assert weights.has("a")
    assert weights.has("a.w")
    assert not weights.has("b")
    assert (weights.dimensions("a.w"), weights.dimensions("none")) == (2, 0)
    assert weights.found("a.w") == "shape (2, 3)"
    assert weights.found("b") == "only a.w, ab"
    weights.take("ab")
    assert not weights.has("ab")
    with pytest.raises(ForeignFormatError, match="its kind of policy") as caught:
        weights.require_empty()
    assert (caught.value.expected, caught.value.found) == ("one layer and nothing else", "a.w")
    weights.take("a.w")
    weights.require_empty()
    assert weights.taken == ["ab", "a.w"]
