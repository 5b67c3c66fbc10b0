from __future__ import annotations

import numpy as np
import pytest

from rlpipe.backends import ids, resolve
from rlpipe.backends.backend import block
from rlpipe.errors import ConfigError, UnsupportedStateError


def test_backends_are_listed_by_the_names_of_their_files() -> None:
    assert ids() == ("hdf5", "pickle")


def test_an_unknown_backend_is_named_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean hdf5") as caught:
        resolve("hdf")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("backend_id", ["extents", "backend", "image", "os", "../hdf5"])
def test_what_is_no_backend_is_not_imported_as_one(backend_id: str) -> None:
    with pytest.raises(ConfigError):
        resolve(backend_id)


def test_a_block_of_a_contiguous_array_is_its_memory() -> None:
    array = np.arange(10)
    assert np.shares_memory(np.frombuffer(block("a", array).data, np.uint8), array)


def test_a_block_of_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(UnsupportedStateError):
        block("a", np.array(["text"]))
