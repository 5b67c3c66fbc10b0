from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rllib.constructors import Constructor
from rlpipe.importers.libraries.rllib.reshaping import module_stages, reshaping
from rlpipe.policies.stages import prepared_space
from rlpipe.snapshot.spaces import Box, Discrete, Space

FRAME = Box.uniform(0, 255, (6, 5, 1), np.uint8)


def piece(name: str, **kwargs: Any) -> Constructor:
    return Constructor(f"ray.rllib.connectors.common.x.{name}", (), kwargs)


def test_images_come_with_their_channels_first() -> None:
    made = prepared_space(FRAME, module_stages(FRAME))
    assert isinstance(made, Box)
    assert (made.shape, made.dtype) == ((1, 6, 5), np.dtype(np.float32))


@pytest.mark.parametrize("space", [Discrete(3), Box.uniform(-1, 1, (2, 3)), Box.uniform(-1, 1, ())])
def test_what_no_default_module_takes_is_refused(space: Space) -> None:
    with pytest.raises(ForeignFormatError, match="cannot be imported"):
        module_stages(space)


def test_frames_are_stacked_along_the_channels() -> None:
    made = prepared_space(FRAME, reshaping(piece("FrameStacking", num_frames=4), FRAME))
    assert isinstance(made, Box)
    assert made.shape == (6, 5, 4)
    assert reshaping(piece("FrameStacking"), FRAME) == ()


@pytest.mark.parametrize(
    ("space", "count"), [(Box.uniform(-1, 1, (3,)), 2), (FRAME, 0), (FRAME, "4"), (Discrete(3), 2)]
)
def test_frames_that_are_none_are_refused(space: Space, count: Any) -> None:
    with pytest.raises(ForeignFormatError, match="FrameStacking"):
        reshaping(piece("FrameStacking", num_frames=count), space)


def test_a_filter_reshapes_nothing() -> None:
    assert reshaping(piece("MeanStdFilter"), FRAME) == ()


@pytest.mark.parametrize("kwargs", [{"keys_to_remove": ["a"]}, {"agent_ids": ["left"]}])
def test_flattening_that_leaves_parts_out_is_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ForeignFormatError, match="leaves out parts"):
        reshaping(piece("FlattenObservations", **kwargs), FRAME)
