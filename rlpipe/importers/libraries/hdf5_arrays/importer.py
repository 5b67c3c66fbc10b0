"""An HDF5 file as bare arrays: another process finds out what lies where; the numbers are read here, by position."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.errors import UnsafePayloadError, listed
from rlpipe.importers.bare_arrays import Options, imported, read_only, require_file
from rlpipe.importers.importer import ImportedFile
from rlpipe.importers.libraries.hdf5_arrays.process import damaged, surveyed
from rlpipe.importers.libraries.hdf5_arrays.superblock import objection
from rlpipe.importers.libraries.hdf5_arrays.survey import NUMBERS
from rlpipe.snapshot.dtypes import is_countable
from rlpipe.snapshot.state import Array, State, join

_KINDS = frozenset([order + number for number in NUMBERS for order in "<>|"] + ["|b1"])
_MAX_RANK = 32


@dataclass(frozen=True, slots=True)
class _Dataset:
    """Where an array lies, as the survey says; `checked` believes it only if it can be true."""

    names: tuple[str, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    address: int

    @property
    def length(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def recognise(path: Path) -> bool:
    """Whether the file begins as an HDF5 file of its length does, whatever it is called."""
    return not objection(path)


def read(path: Path, options: Options) -> ImportedFile:
    """The arrays in a file, under the names of their groups.

    Raises:
        ForeignFormatError: It is damaged, or no HDF5 file, or holds no arrays.
        UnsafePayloadError: It holds links, filters, other files' numbers, or anything else but plain arrays; all such
            places are named. Or it takes more time or memory than an honest file.
    """
    del options
    require_file(path)
    if why := objection(path):
        raise damaged(path, why)
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        answer = surveyed(path, size)
        _refuse(path, answer["refused"])
        datasets = [_checked(path, entry, size) for entry in answer["arrays"]]
        _require_apart(path, datasets)
        state = _state(stream, path, datasets, answer["empty"])
    skipped = tuple((f"attributes of {join(*names) or '/'}", "only arrays are read") for names in answer["attributes"])
    return imported(path, "hdf5_arrays", state, skipped=skipped)


def _refuse(path: Path, refused: Iterable[Any]) -> None:
    if findings := [f"{'/'.join(names)}: {why}" for names, why in refused]:
        raise UnsafePayloadError(
            f"{path.name} is not read",
            expected="groups, and datasets of plain numbers that each lie in one piece in this file",
            found=listed(findings),
            fix="write its arrays into a new file with h5py; h5repack -l CONTI -f NONE takes chunks and filters away",
        )


def _checked(path: Path, entry: Any, size: int) -> _Dataset:
    names, kind, shape, offset, address = entry
    is_shape = len(shape) <= _MAX_RANK and all(type(length) is int and length >= 0 for length in shape)
    if kind in _KINDS and is_shape:
        found = _Dataset(tuple(names), np.dtype(kind), tuple(shape), 0 if offset is None else offset, address)
        is_inside = not found.length or (found.offset > 0 and found.offset + found.length <= size)
        if is_inside and is_countable(found.shape, found.dtype.itemsize):
            return found
    raise damaged(path, f"an array at {offset} that no file holds: {'/'.join(names)} {kind} {shape}")


def _require_apart(path: Path, datasets: Iterable[_Dataset]) -> None:
    """Check that no two datasets share bytes: a small file could hold any number of large arrays."""
    distinct = {each.address: each for each in datasets if each.length}
    end, before = 0, ""
    for each in sorted(distinct.values(), key=lambda each: each.offset):
        if each.offset < end:
            raise damaged(path, f"arrays over each other: {before} and {'/'.join(each.names)}")
        end, before = each.offset + each.length, "/".join(each.names)


def _state(stream: BufferedReader, path: Path, datasets: Iterable[_Dataset], empty: Iterable[list[str]]) -> State:
    """The nested state; a dataset under two names is one array."""
    state: State = {}
    arrays: dict[int, Array] = {}
    for each in datasets:
        if each.address not in arrays:
            arrays[each.address] = _read(stream, path, each)
        _put(state, each.names, arrays[each.address])
    for names in empty:
        _put(state, names, {})
    return state


def _put(state: State, names: Iterable[str], value: Any) -> None:
    *groups, last = names
    for name in groups:
        state = state.setdefault(name, {})
    state[last] = value


def _read(stream: BufferedReader, path: Path, dataset: _Dataset) -> Array:
    raw = np.empty(dataset.length, np.uint8)
    stream.seek(dataset.offset)
    if stream.readinto(raw.data) != dataset.length:
        raise damaged(path, "its end, before the last array")
    array = raw.view(dataset.dtype).reshape(dataset.shape) if raw.size else np.empty(dataset.shape, dataset.dtype)
    return read_only(array.astype(dataset.dtype.newbyteorder("="), copy=False))
