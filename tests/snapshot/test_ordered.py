from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import SpecError
from rlpipe.snapshot.ordered import from_order, in_order
from rlpipe.snapshot.spec import canonical_json

MAPPINGS = st.dictionaries(st.text(max_size=4), st.integers() | st.none() | st.text(max_size=3), max_size=5)


@given(MAPPINGS)
def test_order_survives_json_that_sorts_names(mapping: dict[str, Any]) -> None:
    written = json.loads(canonical_json(in_order(mapping, mapping)))
    assert list(from_order(written, where="it").items()) == list(mapping.items())


@given(MAPPINGS)
def test_sorted_names_are_a_plain_object(mapping: dict[str, Any]) -> None:
    assert isinstance(in_order(dict(sorted(mapping.items())), sorted(mapping)), dict)
    assert isinstance(in_order(mapping, []), dict)


@pytest.mark.parametrize("value", [None, 3, "a", [1], [["a"]], [["a", 1], ["a", 2]], [[1, 2]], [[["a"], 2]]])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match="is no mapping"):
        from_order(value, where="it")
