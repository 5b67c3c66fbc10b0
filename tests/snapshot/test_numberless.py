from __future__ import annotations

import gc

import numpy as np
import pytest

from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.numberless import any_numberless, is_numberless, numberless
from rlpipe.snapshot.snapshot import tied
from rlpipe.snapshot.state import Array, canonical


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (10**6, 10**6)])
def test_it_is_known_again_in_every_view(name: str, shape: tuple[int, ...]) -> None:
    array = numberless(DTYPES[name], shape)
    assert (array.dtype, array.shape) == (DTYPES[name], shape)
    view = canonical({"a": array.view()})["a"]
    del array
    gc.collect()
    assert is_numberless(view)
    assert any_numberless()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(()),
        np.zeros((2, 3)),
        np.zeros(0),
        np.broadcast_to(np.zeros(()), (2, 3)),
        numberless(DTYPES["bool"], (0,)),
    ],
)
def test_numbers_are_none_of_it(array: Array) -> None:
    assert not is_numberless(array)
    assert not is_numberless(np.array(numberless(DTYPES["float32"], (3,))))


def test_two_are_never_one() -> None:
    one, other = numberless(DTYPES["float32"], (3,)), numberless(DTYPES["float32"], (3,))
    assert tied({"a": one, "b": other, "c": one.view()}) == (("a", "c"),)
