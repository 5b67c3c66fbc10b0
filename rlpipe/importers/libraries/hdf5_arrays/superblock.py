"""The first bytes of an HDF5 file: enough to tell a whole one from a cut one and from anything else.

Format: HDF5 File Format Specification, "Disk Format: Level 0A - Format Signature and Superblock".
"""

from __future__ import annotations

from pathlib import Path

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FIRST_PLACE = 512
_SIZE_OF_OFFSETS = {0: 13, 1: 13, 2: 9, 3: 9}
_END_OF_FILE = {0: 40, 1: 44, 2: 28, 3: 28}
"""Version -> position of the field in the superblock."""


def objection(path: Path) -> str:
    """Why a regular file cannot be a whole HDF5 file, or ""."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        place = 0
        while place < size:
            stream.seek(place)
            block = stream.read(64)
            if block.startswith(_SIGNATURE):
                return _objection(block, size)
            place = max(_FIRST_PLACE, 2 * place)
    return "no signature of HDF5"


def _objection(block: bytes, size: int) -> str:
    version = block[8] if len(block) > 8 else -1
    if version not in _END_OF_FILE or len(block) < _END_OF_FILE[version] + 8:
        return f"a superblock of version {version}, or a part of one"
    if block[_SIZE_OF_OFFSETS[version]] != 8 or block[_SIZE_OF_OFFSETS[version] + 1] != 8:
        return "addresses of another width than 8 bytes"
    start = _END_OF_FILE[version]
    end = int.from_bytes(block[start : start + 8], "little")
    return f"{size} bytes of a file of {end}" if end > size else ""
