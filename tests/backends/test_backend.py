from __future__ import annotations

import pytest

from rlpipe.backends import ids, resolve
from rlpipe.errors import ConfigError


def test_backends_are_listed_by_the_names_of_their_files() -> None:
    assert ids() == ("hdf5", "pickle")


def test_an_unknown_backend_is_named_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean hdf5") as caught:
        resolve("hdf")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("backend_id", ["array_file", "backend", "extents", "layout", "ranges", "os", "../hdf5"])
def test_what_is_no_backend_is_not_imported_as_one(backend_id: str) -> None:
    with pytest.raises(ConfigError):
        resolve(backend_id)
