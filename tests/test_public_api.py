from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import rlpipe

NAMES = sorted(rlpipe.__all__)


def test_the_public_list_is_sorted_and_without_repeats() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert dir(rlpipe) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(rlpipe, name)
    home = getattr(value, "__module__", None)
    if home is not None:
        assert home.startswith("rlpipe.")
        assert getattr(import_module(home), name) is value


def test_type_checkers_see_every_public_name() -> None:
    assert set(rlpipe._HOME) | {"__version__", "errors"} == set(NAMES)


def test_every_public_name_is_documented() -> None:
    undocumented = [name for name in NAMES if name != "__version__" and not getattr(rlpipe, name).__doc__]
    assert undocumented == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Polcy"):
        _ = rlpipe.Polcy


def test_star_import_gives_the_public_names() -> None:
    code = "from rlpipe import *; import rlpipe; print(sorted(set(rlpipe.__all__) - set(globals())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
