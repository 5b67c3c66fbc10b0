"""The name and the version of the format on disk, and the names of its files."""

from __future__ import annotations

FORMAT = "rlpipe-checkpoint"
"""What every manifest calls itself."""

VERSION = 0
"""The version written, and the newest one read.

Before you raise it: keep a golden checkpoint of the old version under tests/golden, write a pure migration from the
old version's JSON to the new one's, and let `parse_manifest` run it. Old checkpoints stay readable for good. Version 0
is the store before it is final; nothing is promised for it.
"""

MANIFEST_NAME = "manifest.json"
"""Its presence makes a directory a checkpoint; it is written last."""

MAX_MANIFEST_SIZE = 64 * 2**20
"""Bytes; larger manifests are neither written nor read."""
