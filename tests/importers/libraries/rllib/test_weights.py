from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.weights import Stack, Tensors, as_linear
from tests.importers.rllib_tensors import layers


def tensors(**named: Any) -> Tensors:
    return Tensors(named, subject="it")


def test_a_stack_is_taken_layer_by_layer() -> None:
    given = layers("net", 4, 3, 2)
    taken = Tensors(given, subject="it")
    stack = taken.stack("net", inputs=4, place=lambda index: str(2 * index))
    assert stack.widths == (3, 2)
    assert sorted(taken.taken) == sorted(given)
    taken.require_empty()
    entries = stack.entries("encoder", start=1)
    assert list(entries) == ["encoder/2/weight", "encoder/2/bias", "encoder/4/weight", "encoder/4/bias"]
    np.testing.assert_array_equal(entries["encoder/4/weight"], given["net.2.weight"])


@pytest.mark.parametrize(
    ("spoilt", "named"),
    [
        ({"net.0.bias": None}, "net of it"),
        ({"net.1.weight": np.ones(3, np.float32)}, "net of it"),
        ({"net.2.weight": np.ones((2, 4), np.float32)}, r"net\.2\.weight"),
        ({"net.0.weight": np.ones((3, 4, 1), np.float32)}, r"net\.0\.weight"),
    ],
)
def test_a_stack_that_is_not_whole_is_refused(spoilt: dict[str, Any], named: str) -> None:
    given = {key: value for key, value in {**layers("net", 4, 3, 2), **spoilt}.items() if value is not None}
    with pytest.raises(ForeignFormatError, match=named):
        Tensors(given, subject="it").stack("net", inputs=4, place=lambda index: str(2 * index))


def test_what_is_skipped_is_said_once() -> None:
    taken = Tensors({**layers("vf", 2, 1), "pi.bound": np.ones(1, np.float32)}, subject="it")
    taken.skip("vf", "not needed")
    taken.skip("v", "another")
    taken.skip_ending_in("bound", "a bound")
    assert taken.skipped == {"vf.0.weight": "not needed", "vf.0.bias": "not needed", "pi.bound": "a bound"}
    taken.require_empty()


def test_what_is_left_over_is_refused_by_name() -> None:
    with pytest.raises(ForeignFormatError, match="does not have") as caught:
        tensors(more=np.ones(1, np.float32)).require_empty()
    assert "more" in caught.value.found


def test_noisy_layers_become_their_means() -> None:
    noisy = {f"net.0.{name}_{kind}": array for name, array in (("weight", np.ones((2, 3))), ("bias", np.ones(2)))
             for kind in ("mu", "sigma", "epsilon")}  # fmt: skip
    taken = Tensors({key: value.astype(np.float32) for key, value in noisy.items()}, subject="it")
    taken.take_means("noise")
    assert taken.stack("net", inputs=3, place=str).widths == (2,)
    assert set(taken.skipped.values()) == {"noise"}
    taken.require_empty()


def test_filters_that_are_not_square_are_refused() -> None:
    oblong = {"c.weight": np.ones((4, 3, 2, 5), np.float32), "c.bias": np.ones(4, np.float32)}
    with pytest.raises(ForeignFormatError, match=r"c\.weight"):
        Tensors(oblong, subject="it").convolution("c", channels=3)


@pytest.mark.parametrize("named", [{}, {"x": [1.0]}, {"x": np.ones(2, np.int64)}, {3: np.ones(2, np.float32)}])
def test_what_is_no_state_of_a_module_is_refused(named: Any) -> None:
    with pytest.raises(ForeignFormatError, match="holds no weights"):
        Tensors(named, subject="it")


def test_sizes_of_what_is_not_there_are_nothing() -> None:
    taken = tensors(scalar=np.array(1, np.float32))
    assert taken.size_of("scalar") == taken.size_of("absent") == taken.dimensions("absent") == 0


def test_a_linear_layer_has_two_entries() -> None:
    assert list(as_linear((np.ones((1, 2)), np.ones(1)), "q")) == ["q/weight", "q/bias"]
    assert Stack(()).entries("q") == {}
