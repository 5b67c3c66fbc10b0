"""Places that fsspec reaches, such as s3:// and memory://, and what can be done there.

Nothing is changed in place and nothing is remembered: each question is asked of the store. What a store refuses is
told without credentials, whatever its library says.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from rlpipe.backends.array_file import Job, Result, in_parallel
from rlpipe.backends.stores import create_unguarded, opened, told
from rlpipe.errors import ConfigError

LOCAL_SCHEMES = ("file", "local")
"""Schemes of places that the system itself reaches."""

_AT_A_TIME = 16
"""Requests on their way at once: a store answers slowly, and many at once."""

_CREATING = threading.Lock()
"""Held while a file is created, since some stores look and write in two steps. What other processes do is theirs."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
"""One letter is a drive of Windows."""

_SECRET = re.compile(r"(?<=://)[^/@]*:[^/@]*@|(?<=^https://)[^?]*\?.*|(?<=^http://)[^?]*\?.*")
"""A password, or the query of a link, which may be a signature."""


def is_url(text: str) -> bool:
    """Whether a text names a place by a scheme, such as s3://bucket/run."""
    return "://" in text and _URL.match(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class Url(os.PathLike[str]):
    """A place in a store, with what is needed of `pathlib.Path`.

    Attributes:
        text: The URL, without a slash at the end.
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse what may be a secret: it would end up in messages and records.

        Raises:
            ConfigError: There is a password, or the query of a link.
        """
        if _SECRET.search(self.text):
            raise ConfigError(
                "a URL that holds a password or a signature",
                expected="a URL without one",
                found=f"{self.scheme}://...",
                fix="give it to the store's library: by its environment variables, or fsspec's own config",
            )

    def __fspath__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self.text}/{name}") if name else self

    @property
    def scheme(self) -> str:
        """What stands before the colon, in lower case."""
        return self.text.partition(":")[0].lower()

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> Url:
        """The place around it; of a bucket or host itself, that."""
        above = self.text.rpartition("/")[0]
        return self if above.endswith("/") else Url(above)

    def as_posix(self) -> str:
        """The URL."""
        return self.text

    def exists(self) -> bool:
        """Whether there is a file, or anything below it."""
        return self._kind() is not None

    def is_file(self) -> bool:
        """Whether there is a file."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Whether there is anything below it."""
        return self._kind() == "directory"

    def is_symlink(self) -> bool:
        """Never: stores have no links."""
        return False

    def holds_files(self) -> bool:
        """Whether there is a file, here or anywhere below; some stores have folders without any."""
        kind = self._kind()
        if kind != "directory":
            return kind is not None
        inside = self._kinds()
        return "file" in inside.values() or any((self / name).holds_files() for name in inside)

    def iterdir(self) -> Iterator[Url]:
        """What is directly below it, sorted.

        Raises:
            FileNotFoundError: There is nothing.
        """
        return (self / name for name in self._kinds())

    def folders(self) -> Iterator[Url]:
        """The folders directly below it, sorted.

        Raises:
            FileNotFoundError: There is nothing.
        """
        return (self / name for name, kind in self._kinds().items() if kind == "directory")

    def sizes_below(self) -> dict[str, int]:
        """Path from here -> bytes, of all files below it, sorted; empty if there is nothing."""
        with told(self.text):
            files, path = opened(self.text)
            files.invalidate_cache()
            inside = f"{path.strip('/')}/"
            found = {str(name).strip("/"): int(each["size"]) for name, each in files.find(path, detail=True).items()}
        return {name.removeprefix(inside): found[name] for name in sorted(found) if name.startswith(inside)}

    def size(self) -> int:
        """Bytes of the file.

        Raises:
            FileNotFoundError: There is no file.
        """
        return int(self._info()["size"])

    def total_size(self) -> int:
        """Bytes of all files below it."""
        with told(self.text):
            files, path = opened(self.text)
            files.invalidate_cache()
            return int(files.du(path))

    def read(self, start: int, end: int) -> bytes:
        """What stands from one position to another, or to the file's end.

        Raises:
            FileNotFoundError: There is no file.
        """
        with told(self.text):
            files, path = opened(self.text)
            return bytes(files.cat_file(path, start=start, end=end))

    def read_bytes(self) -> bytes:
        """All of the file.

        Raises:
            FileNotFoundError: There is no file.
        """
        with told(self.text):
            files, path = opened(self.text)
            return bytes(files.cat_file(path))

    def read_each(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        """The bytes of files below it, asked for at once where the store can do that.

        Args:
            names: Their paths from here.
            limit: Files with more bytes are left out, as are those that cannot be read.
        """
        with told(self.text):
            files, path = opened(self.text)
            paths = [f"{path.rstrip('/')}/{name}" for name in names]
            found = _ranges(files, paths, limit + 1)
        read = zip(names, found, strict=True)
        return {name: data for name, data in read if isinstance(data, bytes) and len(data) <= limit}

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """The file, for reading from start to end.

        Raises:
            FileNotFoundError: There is no file.
        """
        with told(self.text):
            files, path = opened(self.text)
            with files.open(path, "rb", cache_type="readahead") as stream:
                yield stream

    def create(self, data: bytes) -> None:
        """Write a new file, whole or not at all.

        Raises:
            FileExistsError: There is one, and the store can tell.
        """
        with told(self.text), _CREATING:
            files, path = opened(self.text)
            try:
                files.pipe_file(path, data, mode="create")
            except (TypeError, ValueError, NotImplementedError):
                create_unguarded(files, path, data)

    def upload(self, file: str) -> None:
        """Write a file of this machine there."""
        with told(self.text):
            files, path = opened(self.text)
            files.put_file(file, path)

    def download(self, file: str) -> None:
        """Write the file to this machine.

        Raises:
            FileNotFoundError: There is no file.
        """
        with told(self.text):
            files, path = opened(self.text)
            files.get_file(path, file)

    def remove(self) -> None:
        """Remove the file.

        Raises:
            FileNotFoundError: There is no file.
        """
        with told(self.text):
            files, path = opened(self.text)
            files.rm_file(path)

    def remove_all(self) -> None:
        """Remove everything below it.

        Raises:
            FileNotFoundError: There is nothing.
        """
        with told(self.text):
            files, path = opened(self.text)
            files.rm(path, recursive=True)

    def _kinds(self) -> dict[str, str]:
        """Name -> "file" or "directory", of what is directly below it, sorted."""
        with told(self.text):
            files, path = opened(self.text)
            files.invalidate_cache()
            found = files.ls(path, detail=True)
        named = {str(each["name"]).rstrip("/").rpartition("/")[2]: str(each["type"]) for each in found}
        return {name: named[name] for name in sorted(named) if name}

    def _kind(self) -> str | None:
        try:
            return str(self._info()["type"])
        except FileNotFoundError:
            return None

    def _info(self) -> dict[str, Any]:
        with told(self.text):
            files, path = opened(self.text)
            files.invalidate_cache()
            found: dict[str, Any] = files.info(path)
            return found


def in_store(function: Callable[[Job], Result], jobs: Sequence[Job]) -> list[Result]:
    """The results of a function that waits for a store, several at a time.

    Raises:
        Exception: Whatever the function raises first.
    """
    return in_parallel(function, jobs, threads=min(_AT_A_TIME, len(jobs)))


def _ranges(files: Any, paths: Sequence[str], end: int) -> list[Any]:
    """The first bytes of files, or why there are none; most stores' libraries ask for them one by one."""
    if files.async_impl:
        return list(files.cat_ranges(paths, [0] * len(paths), [end] * len(paths), on_error="return"))

    def read(path: str) -> Any:
        try:
            return files.cat_file(path, start=0, end=end)
        except Exception as error:  # noqa: BLE001  each store has errors of its own
            return error

    return in_store(read, paths)
