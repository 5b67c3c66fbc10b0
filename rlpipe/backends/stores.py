"""fsspec's stores, and their errors in rlpipe's words: the only file that knows fsspec."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlpipe.errors import CheckpointError, ConfigError, MissingDependencyError, StoreError

_OF_EXTRA = frozenset({"fsspec", "s3fs"})
"""Packages that rlpipe's extra `remote` brings."""


def create_unguarded(files: Any, path: str, data: bytes) -> None:
    """For stores that do not know "if it is not there yet": another writer may come between the two calls."""
    if files.exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    files.pipe_file(path, data)


def opened(text: str) -> tuple[Any, str]:
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
def told(text: str) -> Iterator[None]:
    """Errors of stores as those of files, and anything else as one error that says what kind it is.

    Raises:
        FileNotFoundError: There is nothing.
        FileExistsError: There is something already.
        StoreError: The store cannot be reached, or refuses.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError) as error:
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EEXIST
        raise type(error)(number, os.strerror(number), text) from None
    except (CheckpointError, ConfigError, MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  each store has errors of its own, which may quote what they were given
        raise StoreError(
            f"{text} cannot be reached",
            expected="a store that answers, and that allows this",
            found=_in_words(error),
        ) from None


def _in_words(error: BaseException) -> str:
    """Its kind, and of what it says the first line without anything that may be a secret."""
    said = re.sub(r"://[^/@\s]*@|[?&][^\s'\"]*", "...", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
