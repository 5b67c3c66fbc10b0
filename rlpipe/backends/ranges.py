"""Reading ranges of one file: regular, of the size that is expected, hashed on the way."""

from __future__ import annotations

import os
import stat
from typing import Self

import xxhash

from rlpipe.backends.array_file import PIECE
from rlpipe.errors import IntegrityError

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class Ranges:
    """A regular file of a known size, open for reading while its block runs.

    Args:
        path: The file.
        size: Its bytes.

    Raises:
        IntegrityError: It is missing, of another size, no regular file, or a Git LFS pointer.
    """

    __slots__ = ("_descriptor", "path")

    piece = PIECE
    """Bytes that are read at once where they are hashed on the way."""

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self._descriptor = _open(path, size)
        try:
            _require_size(self._descriptor, size, path)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        os.close(self._descriptor)
        if isinstance(error, OSError):
            raise damage(self.path, f"it cannot be read: {error.strerror}", expected="a readable file") from error

    def again(self) -> Ranges:
        """The same file, open once more, whatever has its name by now.

        Raises:
            OSError: The system has no room for one more open file.
        """
        found = object.__new__(Ranges)
        found.path, found._descriptor = self.path, os.dup(self._descriptor)
        return found

    def want_all(self) -> None:
        """Prepare for reading all of it: nothing to do, as the system reads ahead."""

    def read(self, start: int, end: int) -> bytes:
        """The bytes of a range.

        Raises:
            IntegrityError: The file ends before.
        """
        if hasattr(os, "pread"):
            data = os.pread(self._descriptor, end - start, start)
            if len(data) == end - start:
                return data
        buffer = bytearray(end - start)
        self.read_into(memoryview(buffer), start)
        return bytes(buffer)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """Fill a buffer with what stands at a position.

        Raises:
            IntegrityError: The file ends before.
        """
        while buffer:
            count = self._read_at(buffer, position)
            if not count:
                raise damage(self.path, "its end, before the last array", expected="more bytes")
            buffer, position = buffer[count:], position + count

    def read_hashed(self, buffer: memoryview, position: int) -> str:
        """Fill a buffer; returns the hash of what was read, each piece hashed while it is in the cache."""
        digest = xxhash.xxh3_128()
        for done in range(0, len(buffer), self.piece):
            piece = buffer[done : done + self.piece]
            self.read_into(piece, position + done)
            digest.update(piece)
        return digest.hexdigest()

    def digest(self, position: int, length: int) -> str:
        """The hash of a range, read in little memory."""
        digest = xxhash.xxh3_128()
        memory = memoryview(bytearray(min(length, self.piece)))
        for done in range(0, length, self.piece):
            piece = memory[: length - done]
            self.read_into(piece, position + done)
            digest.update(piece)
        return digest.hexdigest()

    def _read_at(self, buffer: memoryview, position: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [buffer], position)
        os.lseek(self._descriptor, position, os.SEEK_SET)  # Windows
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def open_ranges(path: str, size: int) -> Ranges:
    """The ranges of a file, by its path or URL.

    Raises:
        IntegrityError: It is missing, of another size, no regular file, or a Git LFS pointer; of a file in a store,
            this is told by the first read.
    """
    if "://" not in path:
        return Ranges(path, size)
    from rlpipe.backends.remote_ranges import RemoteRanges

    return RemoteRanges(path, size)


def read_whole(path: str, size: int) -> bytes:
    """The bytes of a small file, by its path or URL.

    Raises:
        IntegrityError: It is missing, of another size, no regular file, or a Git LFS pointer.
    """
    if "://" not in path and hasattr(os, "pread"):
        descriptor = _open(path, size)
        try:
            # One byte more tells a file that goes on, without a question about its size.
            data = os.pread(descriptor, size + 1, 0)
        except OSError:
            data = b""
        finally:
            os.close(descriptor)
        if len(data) == size:
            return data
    with open_ranges(path, size) as ranges:
        ranges.want_all()
        return ranges.read(0, size)


def _open(path: str, size: int) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        raise damage(path, "nothing", expected=f"a file of {size} bytes") from None
    except OSError as error:
        raise damage(path, f"it cannot be opened: {error.strerror}", expected="a readable file") from error


def _require_size(descriptor: int, size: int, path: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise damage(path, "something that is no regular file", expected="an array file")
    if status.st_size == size:
        return
    if os.read(descriptor, len(_LFS_POINTER)) == _LFS_POINTER:
        raise damage(path, "a Git LFS pointer in its place", expected="the array file", fix="fetch it: git lfs pull")
    raise damage(path, f"{status.st_size} bytes", expected=f"{size} bytes")


def damage(path: str, found: str, *, expected: str = "the bytes that were saved", fix: str = "") -> IntegrityError:
    """The error that a file is damaged."""
    return IntegrityError(
        f"{path} is damaged",
        expected=expected,
        found=found,
        fix=fix or "take another copy of the checkpoint; task=verify lists all damage",
    )
