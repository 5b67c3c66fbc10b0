"""Places that fsspec reaches, such as s3:// and memory://, and what can be done there: the only file that knows fsspec.

Nothing is changed in place and nothing is remembered: each question is asked of the store. What a store refuses is
told without credentials, whatever its library says.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from rlpipe.errors import CheckpointError, ConfigError, MissingDependencyError

LOCAL_SCHEMES = ("file", "local")
"""Schemes of places that the system itself reaches."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
"""One letter is a drive of Windows."""

_SECRET = re.compile(r"(?<=://)[^/@]*:[^/@]*@|(?<=^https://)[^?]*\?.*|(?<=^http://)[^?]*\?.*")
"""A password, or the query of a link, which may be a signature."""

_OF_EXTRA = frozenset({"fsspec", "s3fs"})
"""Packages that rlpipe's extra `remote` brings."""


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

    def size(self) -> int:
        """Bytes of the file.

        Raises:
            FileNotFoundError: There is no file.
        """
        return int(self._info()["size"])

    def total_size(self) -> int:
        """Bytes of all files below it."""
        with _told(self.text):
            files, path = _opened(self.text)
            files.invalidate_cache()
            return int(files.du(path))

    def read(self, start: int, end: int) -> bytes:
        """What stands from one position to another, or to the file's end.

        Raises:
            FileNotFoundError: There is no file.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            return bytes(files.cat_file(path, start=start, end=end))

    def read_each(self, names: Sequence[str], limit: int) -> dict[str, bytes]:
        """The bytes of files below it, asked for at once where the store can do that.

        Args:
            names: Their paths from here.
            limit: Files with more bytes are left out, as are those that cannot be read.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            paths = [f"{path.rstrip('/')}/{name}" for name in names]
            found = files.cat_ranges(paths, [0] * len(paths), [limit + 1] * len(paths), on_error="return")
        read = zip(names, found, strict=True)
        return {name: data for name, data in read if isinstance(data, bytes) and len(data) <= limit}

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """The file, for reading from start to end.

        Raises:
            FileNotFoundError: There is no file.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            with files.open(path, "rb", cache_type="readahead") as stream:
                yield stream

    def create(self, data: bytes) -> None:
        """Write a new file, whole or not at all.

        Raises:
            FileExistsError: There is one, and the store can tell.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            try:
                files.pipe_file(path, data, mode="create")
            except (TypeError, ValueError, NotImplementedError):
                _create_unguarded(files, path, data)

    def upload(self, file: str) -> None:
        """Write a file of this machine there."""
        with _told(self.text):
            files, path = _opened(self.text)
            files.put_file(file, path)

    def download(self, file: str) -> None:
        """Write the file to this machine.

        Raises:
            FileNotFoundError: There is no file.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            files.get_file(path, file)

    def remove(self) -> None:
        """Remove the file.

        Raises:
            FileNotFoundError: There is no file.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            files.rm_file(path)

    def remove_all(self) -> None:
        """Remove everything below it.

        Raises:
            FileNotFoundError: There is nothing.
        """
        with _told(self.text):
            files, path = _opened(self.text)
            files.rm(path, recursive=True)

    def _kinds(self) -> dict[str, str]:
        """Name -> "file" or "directory", of what is directly below it, sorted."""
        with _told(self.text):
            files, path = _opened(self.text)
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
        with _told(self.text):
            files, path = _opened(self.text)
            files.invalidate_cache()
            found: dict[str, Any] = files.info(path)
            return found


def _create_unguarded(files: Any, path: str, data: bytes) -> None:
    """For stores that do not know "if it is not there yet": another writer may come between the two calls."""
    if files.exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    files.pipe_file(path, data)


def _opened(text: str) -> tuple[Any, str]:
    """The store of a URL, and the path there.

    Raises:
        MissingDependencyError: The package for its scheme is not installed.
        ConfigError: Nobody knows its scheme.
    """
    scheme = text.partition(":")[0].lower()
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise _missing("fsspec", scheme) from None
    try:
        files, path = url_to_fs(text)
    except ImportError:
        raise _missing(_package_of(scheme), scheme) from None
    except ValueError as error:
        if "not known" not in str(error):
            raise
        raise ConfigError(
            f"nobody knows the scheme {scheme}://",
            expected="a folder, or a URL such as s3://bucket/run or memory://run",
            found=text,
            fix="check the scheme; fsspec.available_protocols() lists those that it knows",
        ) from None
    return files, path


def _package_of(scheme: str) -> str:
    from fsspec.registry import known_implementations

    home = str(known_implementations.get(scheme, {}).get("class", scheme)).partition(".")[0]
    return scheme if home == "fsspec" else home


def _missing(package: str, scheme: str) -> MissingDependencyError:
    error = MissingDependencyError(package, extra="remote", purpose=f"{scheme}://")
    if package not in _OF_EXTRA:
        error.fix = f"install what fsspec needs for {scheme}://, such as: pip install {package}"
    return error


@contextmanager
def _told(text: str) -> Iterator[None]:
    """Errors of stores as those of files, and anything else as one error that says what kind it is.

    Raises:
        FileNotFoundError: There is nothing.
        FileExistsError: There is something already.
        CheckpointError: The store cannot be reached, or refuses.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError) as error:
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EEXIST
        raise type(error)(number, os.strerror(number), text) from None
    except (CheckpointError, ConfigError, MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  each store has errors of its own, which may quote what they were given
        raise CheckpointError(
            f"{text} cannot be reached",
            expected="a store that answers, and that allows this",
            found=_in_words(error),
            fix="check the URL, the network, and the credentials that the store's library finds",
        ) from None


def _in_words(error: BaseException) -> str:
    """Its kind, and of what it says the first line without anything that may be a secret."""
    said = re.sub(r"://[^/@\s]*@|[?&][^\s'\"]*", "...", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
