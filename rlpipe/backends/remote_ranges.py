"""Ranges of one file in a store: each request is for what is wanted, and for no byte more."""

from __future__ import annotations

from threading import Lock
from typing import Self

from rlpipe.backends.ranges import Ranges, damage
from rlpipe.backends.remote import Url

_AT_ONCE = 64 * 2**20
"""Files of at most this many bytes that are wanted whole come by one request."""


class RemoteRanges(Ranges):
    """A file in a store, with the questions of `Ranges`.

    Args:
        path: Its URL.
        size: Its bytes.
    """

    __slots__ = ("_is_sized", "_lock", "_size", "_url", "_whole")

    piece = 8 * 2**20

    def __init__(self, path: str, size: int) -> None:
        self.path, self._url, self._size = path, Url(path), size
        self._whole, self._is_sized, self._lock = b"", False, Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        return

    def again(self) -> Ranges:
        """Itself: a store is asked anew each time."""
        return self

    def want_all(self) -> None:
        """Fetch the whole file, unless that takes too much memory."""
        if self._size <= _AT_ONCE and not self._whole:
            # One byte more tells a file that goes on, without a question of its own.
            self._whole = self._require_size(self._get(0, self._size + 1))

    def read(self, start: int, end: int) -> bytes:
        """See `Ranges`."""
        if end - start == self._size:
            self.want_all()
        if self._whole:
            return self._whole[start:end]
        self._check_size()
        data = self._get(start, end) if end > start else b""
        if len(data) != end - start:
            raise damage(self.path, "its end, before the last array", expected="more bytes")
        return data

    def _read_at(self, buffer: memoryview, position: int) -> int:
        data = self.read(position, position + len(buffer))
        buffer[:] = data
        return len(data)

    def _get(self, start: int, end: int) -> bytes:
        try:
            return self._url.read(start, end)
        except FileNotFoundError:
            raise damage(self.path, "nothing", expected=f"a file of {self._size} bytes") from None

    def _check_size(self) -> None:
        """Ask for the file's size, once."""
        with self._lock:
            if self._is_sized:
                return
            try:
                found = self._url.size()
            except FileNotFoundError:
                raise damage(self.path, "nothing", expected=f"a file of {self._size} bytes") from None
            if found != self._size:
                raise damage(self.path, f"{found} bytes", expected=f"{self._size} bytes")
            self._is_sized = True

    def _require_size(self, data: bytes) -> bytes:
        if len(data) != self._size:
            found = "more bytes" if len(data) > self._size else f"{len(data)} bytes"
            raise damage(self.path, found, expected=f"{self._size} bytes")
        return data
