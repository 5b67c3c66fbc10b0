"""Spaces of the old stack, as pickles and as plain data, give what gymnasium has."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.old_spaces import original_space, read_space
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


def packed(array: Any) -> str:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return base64.b64encode(zlib.compress(stream.getvalue())).decode()


BOX = {
    "space": "box",
    "low": packed(np.zeros(2, np.float32)),
    "high": packed([1.0, 2.0]),
    "shape": (2,),
    "dtype": "<f4",
}
ROW = Box(np.zeros(2, np.float32), np.array([1, 2], np.float32), np.dtype(np.float32))


@pytest.mark.parametrize(
    ("plain", "space"),
    [
        (BOX, ROW),
        ({"space": "discrete", "n": 3}, Discrete(3)),
        ({"space": "discrete", "n": np.int64(3), "start": 2}, Discrete(3, 2)),
        ({"space": "multi-discrete", "nvec": packed([2, 3]), "dtype": "<i8"}, MultiDiscrete(np.array([2, 3]))),
        ({"space": "multi-binary", "n": 4}, MultiBinary((4,))),
        ({"space": "dict", "spaces": {"a": BOX}}, Dict({"a": ROW})),
        ({"space": "tuple", "spaces": [BOX, {"space": "discrete", "n": 3}]}, Tuple((ROW, Discrete(3)))),
    ],
)
def test_plain_spaces_are_read(plain: Any, space: Any) -> None:
    assert read_space(plain, subject="it") == space
    assert read_space({"space": plain}, subject="it") == space


@pytest.mark.parametrize(
    "plain", [None, {}, {"space": "graph"}, {"space": "box"}, {**BOX, "low": "###"}, {"space": "dict", "spaces": [BOX]}]
)
def test_what_is_no_space_is_refused(plain: Any) -> None:
    with pytest.raises(ForeignFormatError):
        read_space(plain, subject="it")


def test_a_few_parts_do_not_stand_for_endlessly_many() -> None:
    plain: Any = BOX
    for _ in range(60):
        plain = {"space": "tuple", "spaces": [plain, plain]}
    with pytest.raises(ForeignFormatError, match="parts"):
        read_space(plain, subject="it")


def test_the_environment_s_own_space_goes_before_what_a_preprocessor_made() -> None:
    made = read_space(BOX, subject="it")
    assert original_space({"space": BOX}, made, subject="it") == made
    given = {"space": BOX, "original_space": {"space": {"space": "discrete", "n": 2}}}
    assert original_space(given, made, subject="it") == Discrete(2)
