"""Array files: each backend says which bytes make up its file, one writer and one reader serve them all.

A backend is a file in this package; its name is the backend's id.
"""

from rlpipe.backends.backend import Backend, Block, ids, resolve
from rlpipe.backends.image import Image

__all__ = ["Backend", "Block", "Image", "ids", "resolve"]
