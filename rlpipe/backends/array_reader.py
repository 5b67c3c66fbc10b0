"""The one reader: arrays out of any file whose manifest says where they lie.

It knows no HDF5 and no pickle. It opens the file once, reads the ranges that are wanted and no others, and hashes each
byte once: an array's with its digest, all others with that of the frame. Nothing that a file says is believed; only
its manifest is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np
import xxhash

from rlpipe.backends.array_file import SMALL, bytes_of, in_parallel
from rlpipe.backends.extents import ArrayFile, Cuts, Extent, cuts_of
from rlpipe.backends.ranges import Ranges, damage, open_ranges, read_whole
from rlpipe.errors import listed
from rlpipe.snapshot.dtypes import DType, storage_dtype
from rlpipe.snapshot.state import Array

_SMALL_GAP = 4096
"""Ranges with at most this many bytes between them are read in one go."""

_array_at: Callable[[tuple[int, ...], DType, bytes | memoryview, int], Array] = np.ndarray

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def read_arrays(
    directory: str, file: ArrayFile, extents: Sequence[Extent], digests: Mapping[str, str]
) -> dict[str, Array]:
    """Read some arrays of a file.

    Args:
        directory: The component's directory.
        file: What its manifest says of the file.
        extents: The arrays of it that are wanted, in the order of the file.
        digests: Key of each -> xxh3-128 of its bytes in hex.

    Returns:
        Key -> array in native byte order, read-only.

    Raises:
        IntegrityError: The file is missing, of another size, no regular file, a Git LFS pointer, or an array's hash is
            wrong; all damaged keys are named.
    """
    found: dict[str, Array] = {}
    damaged: list[str] = []
    path = f"{directory}/{file.name}"
    with open_ranges(path, file.size) as ranges:
        for run in _runs(extents, _SMALL_GAP):
            start = run[0].offset
            buffer, wrong = _read_run(ranges, start, run[-1].offset + run[-1].length, run, digests)
            damaged += wrong
            found |= _views(buffer, cuts_of(run, start))
    _require_whole(path, file, damaged, file.frame)
    return found


def read_all_arrays(directory: str, file: ArrayFile, digests: Mapping[str, str]) -> dict[str, Array]:
    """Read a whole file at once, and check every byte of it.

    Args:
        directory: The component's directory.
        file: What its manifest says of the file.
        digests: Key of each array -> xxh3-128 of its bytes in hex.

    Returns:
        Key -> array in native byte order, read-only.

    Raises:
        IntegrityError: As `read_arrays`; damage outside the arrays counts too.
    """
    path = f"{directory}/{file.name}"
    cuts = file.cuts
    if file.size <= SMALL:
        data = read_whole(path, file.size)
        found, frame = _hashes_of(data, cuts)
        _require_whole(path, file, _wrong(cuts.keys, found, digests), frame)
        return _views(data, cuts)
    with open_ranges(path, file.size) as ranges:
        ranges.want_all()
        buffer, damaged = _read_run(ranges, 0, file.size, file.extents, digests)
        frame = _frame(ranges, file)
    _require_whole(path, file, damaged, frame)
    return _views(buffer, cuts)


def read_into(
    ranges: Ranges, file: ArrayFile, extents: Sequence[Extent], digests: Mapping[str, str], targets: Mapping[str, Array]
) -> None:
    """Read arrays straight into memory that is there, checking them on the way.

    Where they are damaged, the memory holds damaged numbers when this raises. `check_arrays` before spares live memory
    that.

    Args:
        ranges: The file, open (see `open_file`).
        file: What its manifest says of the file.
        extents: The arrays to read.
        digests: Key of each -> xxh3-128 of its bytes in hex.
        targets: Key of each -> writable array of its dtype and shape, in C order and native byte order.

    Raises:
        IntegrityError: As `read_arrays`.
    """
    memory = {each.key: bytes_of(targets[each.key].view(storage_dtype(each.dtype))) for each in extents}
    found = _each(lambda each: ranges.read_hashed(memory[each.key], each.offset), extents, extents)
    _require_hashes(ranges, file, extents, found, digests)


def check_arrays(ranges: Ranges, file: ArrayFile, extents: Sequence[Extent], digests: Mapping[str, str]) -> None:
    """Read arrays of an open file in little memory, only to check them.

    Raises:
        IntegrityError: As `read_arrays`.
    """
    found = _each(lambda each: ranges.digest(each.offset, each.length), extents, extents)
    _require_hashes(ranges, file, extents, found, digests)


def _require_hashes(
    ranges: Ranges, file: ArrayFile, extents: Sequence[Extent], found: Sequence[str], digests: Mapping[str, str]
) -> None:
    frame = _frame(ranges, file) if len(extents) == len(file.extents) else file.frame
    _require_whole(ranges.path, file, _wrong(_keys(extents), found, digests), frame)


def open_file(directory: str, file: ArrayFile) -> Ranges:
    """An array file, open while its block runs: what takes its place, or removes it, changes nothing for the block.

    Raises:
        IntegrityError: It is missing, of another size, no regular file, or a Git LFS pointer.
    """
    return open_ranges(f"{directory}/{file.name}", file.size)


def damaged_parts(directory: str, file: ArrayFile, digests: Mapping[str, str]) -> list[tuple[str, str]]:
    """Read a whole file in little memory, and check every byte of it.

    Args:
        directory: The component's directory.
        file: What its manifest says of the file.
        digests: Key of each array -> xxh3-128 of its bytes in hex.

    Returns:
        Key and finding for each damaged array; "" and a finding if what lies between them is damaged.

    Raises:
        IntegrityError: The file is missing, of another size, no regular file, or a Git LFS pointer.
    """
    path = f"{directory}/{file.name}"
    if file.size <= SMALL:
        found, frame = _hashes_of(read_whole(path, file.size), file.cuts)
    else:
        with open_ranges(path, file.size) as ranges:
            ranges.want_all()
            found = _each(lambda each: ranges.digest(each.offset, each.length), file.extents, file.extents)
            frame = _frame(ranges, file)
    findings = [(key, "its bytes have changed") for key in _wrong(_keys(file.extents), found, digests)]
    if frame != file.frame:
        findings.append(("", "bytes outside the arrays have changed"))
    return findings


def _views(buffer: bytes | memoryview, cuts: Cuts) -> dict[str, Array]:
    """The arrays in a read-only buffer; big-endian machines get copies."""
    arrays = map(_array_at, cuts.shapes, cuts.dtypes, repeat(buffer), cuts.offsets)
    found: dict[str, Array] = dict(zip(cuts.keys, arrays, strict=True))
    for key, native in cuts.natives:
        found[key] = _converted(found[key], native)
    return found


def _converted(array: Array, native: DType) -> Array:
    converted = array.astype(array.dtype.newbyteorder("="), copy=False).view(native)
    converted.setflags(write=False)
    return converted


def _require_whole(path: str, file: ArrayFile, damaged: Sequence[str], frame: str) -> None:
    if damaged:
        raise damage(path, f"the bytes of {listed(damaged)} have changed")
    if frame != file.frame:
        raise damage(path, "the bytes of what lies between the arrays have changed")


def _hashes_of(data: bytes, cuts: Cuts) -> tuple[list[str], str]:
    """The hash of each array, and that of all that is in none, of a whole file in memory."""
    hashed, memory = xxhash.xxh3_128_hexdigest, memoryview(data)
    frame = b"".join(map(data.__getitem__, cuts.gaps))
    return [*map(hashed, map(memory.__getitem__, cuts.places))], hashed(frame)


def _frame(ranges: Ranges, file: ArrayFile) -> str:
    """The hash of all that is in no array."""
    digest = xxhash.xxh3_128()
    for start, end in file.gaps:
        for position in range(start, end, SMALL):
            digest.update(ranges.read(position, min(position + SMALL, end)))
    return digest.hexdigest()


def _keys(extents: Iterable[Extent]) -> list[str]:
    return [each.key for each in extents]


def _wrong(keys: Sequence[str], found: Sequence[str], digests: Mapping[str, str]) -> list[str]:
    """The keys of which another digest was found."""
    expected = [*map(digests.__getitem__, keys)]
    if found == expected:
        return []
    return [key for key, right, digest in zip(keys, expected, found, strict=True) if digest != right]


def _each(function: Callable[[_Job], _Result], jobs: Sequence[_Job], extents: Sequence[Extent]) -> list[_Result]:
    """The function's results, by two threads if there is enough to read."""
    is_small = sum(each.length for each in extents) <= SMALL
    return list(map(function, jobs)) if is_small else in_parallel(function, jobs)


def _read_run(
    ranges: Ranges, start: int, end: int, extents: Sequence[Extent], digests: Mapping[str, str]
) -> tuple[bytes | memoryview, list[str]]:
    """A read-only buffer of a range, and the keys of damaged arrays in it; of a long one only the arrays are read."""
    if end - start <= SMALL:
        data = ranges.read(start, end)
        return data, _wrong(_keys(extents), _hashes(memoryview(data), start, extents), digests)
    memory = np.empty(end - start, np.uint8).data

    def fill(group: Sequence[Extent]) -> list[str]:
        first, last = group[0].offset, group[-1].offset + group[-1].length
        place = memory[first - start : last - start]
        if len(group) == 1:
            return [ranges.read_hashed(place, first)]
        ranges.read_into(place, first)
        return _hashes(place, first, group)

    filled = [each for each in extents if each.length]
    found = [digest for group in _each(fill, list(_groups(filled)), extents) for digest in group]
    return memory.toreadonly(), _wrong(_keys(filled), found, digests)


def _hashes(memory: memoryview, start: int, extents: Sequence[Extent]) -> list[str]:
    hashed = xxhash.xxh3_128_hexdigest
    return [hashed(memory[at - start : at - start + length]) for _, _, _, at, length in extents]


def _runs(extents: Sequence[Extent], gap: int) -> Iterator[list[Extent]]:
    """The extents grouped where at most so many bytes lie between them."""
    run: list[Extent] = []
    for each in extents:
        if run and each.offset - run[-1].offset - run[-1].length > gap:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _groups(extents: Sequence[Extent]) -> Iterator[list[Extent]]:
    """The extents grouped so that each group is one extent, or is read at once."""
    group: list[Extent] = []
    for each in extents:
        if group and each.offset + each.length - group[0].offset > SMALL:
            yield group
            group = []
        group.append(each)
    if group:
        yield group
