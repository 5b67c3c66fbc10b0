"""What a thing is and what it has learnt: pure values, no I/O, no framework.

The value is `Snapshot`; the four functions over it are `select`, `merge`, `rename` and `diff`.
"""

from rlpipe.snapshot.diff import StateDiff, diff
from rlpipe.snapshot.identity import content_hash, fingerprint, inference_hash
from rlpipe.snapshot.key_map import KeyMap, rename
from rlpipe.snapshot.merge import merge
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.snapshot import ROLES, Role, Snapshot, below, component, ties, walk
from rlpipe.snapshot.spec import Spec

__all__ = [
    "ROLES",
    "KeyMap",
    "Role",
    "Selection",
    "Snapshot",
    "Spec",
    "StateDiff",
    "below",
    "component",
    "content_hash",
    "diff",
    "fingerprint",
    "inference_hash",
    "merge",
    "rename",
    "select",
    "ties",
    "walk",
]
