"""Array files: each backend says which bytes make up its file, one writer and one reader serve them all.

A backend is a file in this package; its name is the backend's id.
"""

from rlpipe.backends.backend import Backend, ids, resolve
from rlpipe.backends.layout import Layout, Slot

__all__ = ["Backend", "Layout", "Slot", "ids", "resolve"]
