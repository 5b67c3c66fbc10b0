"""Files of a former checkpoint that a save need not write again.

Nothing is taken on trust: a file is linked only after every byte of it was compared with what is to be saved, so that
damage to an old checkpoint does not spread to a new one. Checkpoints never change files, so that two may share one.
"""

from __future__ import annotations

import os
from functools import cached_property

from rlpipe.backends.array_file import Durability
from rlpipe.backends.extents import damaged_parts
from rlpipe.checkpoint.format import MANIFEST_NAME
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
        try:
            with open(f"{self.directory}/{MANIFEST_NAME}", "rb") as file:  # noqa: PTH123
                return file.read()
        except OSError:
            return b""

    def has_table(self, table: Table) -> bool:
        """Whether its arrays are of the same architecture, so that comparing them can pay."""
        return table.text.encode() in self._manifest

    def link_arrays(self, directory: str, table: Table, digests: dict[str, str]) -> bool:
        """Link its array file into a directory, if it is byte for byte what would be written there."""
        if table.file is None or not all(digest.encode() in self._manifest for digest in digests.values()):
            return False
        try:
            if damaged_parts(self.directory, table.file, digests):
                return False
        except IntegrityError:
            return False
        return self._link(table.file.name, directory)

    def link_manifest(self, directory: str, text: str) -> bool:
        """Link its manifest into a directory, if it has this text."""
        return self._manifest == text.encode() and self._link(MANIFEST_NAME, directory)

    def _link(self, name: str, directory: str) -> bool:
        """Link a file; False where the system cannot: another file system, too many links, or none at all."""
        target = f"{directory}/{name}"
        try:
            os.link(f"{self.directory}/{name}", target)
        except OSError:
            return False
        if self.durability == "fsync":
            # Whoever wrote it may not have waited for the disk.
            descriptor = os.open(target, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return True
