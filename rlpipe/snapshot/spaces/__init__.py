"""rlpipe's own spaces: frozen values with an exact JSON form.

A checkpoint names its spaces without gymnasium, and no file can bring a class or a random generator with them.
"""

from rlpipe.snapshot.spaces.box import Box
from rlpipe.snapshot.spaces.composite import Dict, Tuple
from rlpipe.snapshot.spaces.convert import (
    describe,
    flat_batch,
    flat_items,
    from_gymnasium,
    from_json,
    nested_batch,
    to_gymnasium,
    to_json,
)
from rlpipe.snapshot.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from rlpipe.snapshot.spaces.space import Finding, Leaf, Space, compare
from rlpipe.snapshot.spaces.text import Text

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "Finding",
    "Leaf",
    "MultiBinary",
    "MultiDiscrete",
    "Space",
    "Text",
    "Tuple",
    "compare",
    "describe",
    "flat_batch",
    "flat_items",
    "from_gymnasium",
    "from_json",
    "nested_batch",
    "to_gymnasium",
    "to_json",
]
