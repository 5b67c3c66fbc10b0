"""Files of a former checkpoint that a save need not write again.

Nothing is taken on trust: a file that was linked stays only if every byte of it is what is to be saved, so that damage
to an old checkpoint does not spread to a new one. Checkpoints never change files, so that two may share one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import cached_property

from rlpipe.backends.array_file import Durability
from rlpipe.backends.array_reader import damaged_parts
from rlpipe.checkpoint.format import MANIFEST_NAME, MAX_MANIFEST_SIZE
from rlpipe.checkpoint.table import Table
from rlpipe.errors import IntegrityError


class Former:
    """A component of a former checkpoint, which may be missing or damaged.

    Args:
        directory: Where it would lie.
        durability: As of the save.
    """

    def __init__(self, directory: str, durability: Durability) -> None:
        self.directory, self.durability = directory, durability

    def child(self, name: str) -> Former:
        """The component of this name inside."""
        return Former(f"{self.directory}/{name}", self.durability)

    @cached_property
    def _manifest(self) -> bytes:
        """The text of its manifest; empty if there is none."""
        return _read(f"{self.directory}/{MANIFEST_NAME}")

    def has_table(self, table: Table) -> bool:
        """Whether its arrays are of the same architecture, so that comparing them can pay."""
        return table.text.encode() in self._manifest

    def link_arrays(self, directory: str, table: Table, digests: dict[str, str]) -> bool:
        """Link its array file into a directory, if it is byte for byte what would be written there."""
        if table.file is None or '",\n"'.join(digests.values()).encode() not in self._manifest:
            return False
        file = table.file
        return self._link(file.name, directory, lambda: not damaged_parts(directory, file, digests))

    def link_manifest(self, directory: str, text: str) -> bool:
        """Link its manifest into a directory, if it has this text."""
        expected = text.encode()
        place = f"{directory}/{MANIFEST_NAME}"
        return self._manifest == expected and self._link(MANIFEST_NAME, directory, lambda: _read(place) == expected)

    def _link(self, name: str, directory: str, is_right: Callable[[], bool]) -> bool:
        """Link a file and look at it, in this order: under its own name it may be replaced in between.

        Returns:
            False where it is not right, or the system cannot link it: another file system, too many links, none at all.
        """
        target = f"{directory}/{name}"
        try:
            os.link(f"{self.directory}/{name}", target)
        except OSError:
            return False
        if not (stat.S_ISREG(os.lstat(target).st_mode) and _holds(is_right)):
            os.unlink(target)  # noqa: PTH108
            return False
        if self.durability == "fsync":
            _sync(target)
        return True


def _read(file: str) -> bytes:
    """The bytes of a file; none if it cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return b""
    try:
        # What is larger than any manifest is none, and what is no regular file has no size.
        size = os.fstat(descriptor).st_size
        return os.read(descriptor, size) if size <= MAX_MANIFEST_SIZE else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _holds(is_right: Callable[[], bool]) -> bool:
    try:
        return is_right()
    except IntegrityError:
        return False


def _sync(file: str) -> None:
    """Bring a file to the disk: whoever wrote it may not have waited for that."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
