"""Arrays of a snapshot that are still in their files: straight into live memory, or read into memory of their own.

Live memory is written to only after every byte that will go there was read once and found whole. Its files stay open
from the first look to the second, so that a checkpoint that goes meanwhile is still there. An object that was just
built needs no such care: it is thrown away if what it reads is damaged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from rlpipe.backends.array_reader import check_arrays, open_file, read_all_arrays, read_arrays, read_into
from rlpipe.backends.ranges import Ranges
from rlpipe.backends.remote import in_store, is_url
from rlpipe.checkpoint.array_info import StoredArray
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.snapshot.state import Array, State, arrays, map_arrays

Age: TypeAlias = Literal["live", "new"]

_MOST_OPEN = 128
"""Files kept open at a time; a process may have 256 and more. Those beyond are opened anew."""


class OpenFiles(ExitStack):
    """The files of a restore, some of them kept open while the block runs: what removes one changes nothing then."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Ranges] = {}

    def open(self, of: StoredArray) -> Ranges:
        """The file that an array is in, for a block of its own.

        Raises:
            IntegrityError: See `open_file`.
        """
        kept = self._kept.get(of.directory)
        return open_file(of.directory, of.file) if kept is None else kept.again()

    def keep(self, directory: str, ranges: Ranges) -> None:
        """Let later blocks read this very file, if there is room."""
        if len(self._kept) < _MOST_OPEN:
            with suppress(OSError):
                self._kept[directory] = kept = ranges.again()
                self.callback(kept.__exit__, None, None, None)


@dataclass(frozen=True, slots=True)
class Filling:
    """A state that is about to be put into an object.

    Attributes:
        target: The object.
        state: The state; for arrays that go straight into the object's memory their descriptions stand there.
        memory: Identity of such a description -> the memory.
        files: Where they are read from.
    """

    target: Restorable
    state: State
    memory: Mapping[int, Array]
    files: OpenFiles

    def filled(self) -> State:
        """The state after reading what goes straight into the object's memory; that memory is part of it.

        Raises:
            IntegrityError: A file is no longer what it was. The memory may hold damaged numbers.
        """
        waiting = {id(each): each for each in placed(self.state)}
        for group in _by_file(waiting.values()):
            targets = {each.extent.key: self.memory[id(each)] for each in group}
            with self.files.open(group[0]) as ranges:
                read_into(ranges, group[0].file, *_places(group), targets)
        return _replaced(self.state, self.memory)


def filling(target: Restorable, state: State, age: Age, files: OpenFiles) -> Filling:
    """Prepare to put a state into an object: read what does not go straight there, and check what does.

    Args:
        target: The object.
        state: Exactly its entries.
        age: "live" spares the object's memory all damage; "new" does not care.
        files: Opens the files, and keeps open what was looked at.

    Raises:
        IntegrityError: Bytes that were read are not the ones that were saved.
    """
    found = {key: each for key, each in arrays(state).items() if isinstance(each, StoredArray)}
    places = target.get_own_memory() if found else {}
    memory = {id(each): places[key] for key, each in found.items() if key in places and _can_take(places[key], each)}
    direct = {id(each): each for each in found.values() if id(each) in memory}
    if age == "live":
        for group in _by_file(direct.values()):
            with files.open(group[0]) as ranges:
                check_arrays(ranges, group[0].file, *_places(group))
                files.keep(group[0].directory, ranges)
    rest = {id(each): each for each in found.values() if id(each) not in memory}
    return Filling(target, _replaced(state, loaded(rest.values())), memory, files)


def loaded(waiting: Iterable[StoredArray]) -> dict[int, Array]:
    """Read arrays into memory of their own: identity of each -> array, read-only.

    Raises:
        IntegrityError: Bytes that were read are not the ones that were saved.
    """
    groups = _by_file(waiting)
    is_remote = any(is_url(group[0].directory) for group in groups)
    read = in_store(_loaded, groups) if is_remote else map(_loaded, groups)
    return {name: array for found in read for name, array in found.items()}


def _loaded(group: list[StoredArray]) -> dict[int, Array]:
    """The arrays of one file."""
    directory, file = group[0].directory, group[0].file
    extents, digests = _places(group)
    is_whole = len(extents) == len(file.extents)
    read = read_all_arrays(directory, file, digests) if is_whole else read_arrays(directory, file, extents, digests)
    return {id(each): read[each.extent.key] for each in group}


def placed(state: State) -> list[StoredArray]:
    """The arrays of a state that are still in their files."""
    return [each for each in arrays(state).values() if isinstance(each, StoredArray)]


def _by_file(waiting: Iterable[StoredArray]) -> list[list[StoredArray]]:
    groups: dict[str, list[StoredArray]] = {}
    for each in sorted(waiting, key=lambda each: each.extent.offset):
        groups.setdefault(each.directory, []).append(each)
    return list(groups.values())


def _places(group: list[StoredArray]) -> tuple[list[Any], dict[str, str]]:
    """Extents in the order of the file, each once, and their digests."""
    extents = {each.extent.key: each.extent for each in group}
    return list(extents.values()), {each.extent.key: each.digest for each in group}


def _can_take(place: Array, info: StoredArray) -> bool:
    """Whether the bytes of the file are those of the array in memory."""
    is_same = isinstance(place, np.ndarray) and (place.dtype, place.shape) == (info.dtype, info.shape)
    return is_same and place.flags.c_contiguous and place.flags.writeable and sys.byteorder == "little"


def _replaced(state: State, found: Mapping[int, Array]) -> State:
    return {name: map_arrays(value, lambda leaf: found.get(id(leaf), leaf)) for name, value in state.items()}
