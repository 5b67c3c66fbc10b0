"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# One thread for each process: tests run side by side on small machines.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No time limit for one example: the first one of a test may import torch. Nothing is written into the tree. Checks
# before a change lands always see the same examples; people see new ones.
settings.register_profile("rlpipe", deadline=None, database=None, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("rlpipe")
