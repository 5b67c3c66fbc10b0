"""Where a checkpoint lies: a path of this machine, or a URL that fsspec reaches.

The two have the few questions in common that reading needs, so that there is one reader. Telling them apart is a look
at the text: local paths cost no call to the system more than they would without URLs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from rlpipe.backends.remote import LOCAL_SCHEMES, Url, is_url
from rlpipe.errors import ConfigError

Place: TypeAlias = Path | Url

Location: TypeAlias = str | os.PathLike[str]
"""A path or a URL as callers give it."""


def place_of(path: Location) -> Place:
    """The place that a path or a URL names.

    A URL of this machine (file:///data/run) is a path; nothing in it is decoded, as in fsspec. In a path `~` is the
    home, as in a shell.

    Raises:
        ConfigError: A URL that holds a password; a text that no file can be called.
    """
    if isinstance(path, Url):
        return path
    text = os.fspath(path)
    if "\0" in text or not text.isascii():
        _require_name(text)
    if is_url(text):
        scheme, _, rest = text.partition("://")
        url = Url(f"{scheme}://{rest.rstrip('/')}")
        return url if url.scheme not in LOCAL_SCHEMES else _at_home(rest)
    if text.startswith("~"):
        return _at_home(text)
    return path if isinstance(path, Path) else Path(text)


def _require_name(text: str) -> None:
    """Check a path here, as what the system says of it is no OSError."""
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ConfigError("this is no path", expected="what a file can be called", found=repr(text)[:200])


def _at_home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user: a file may well be called ~x
        return Path(text)


def size_of(place: Place) -> int:
    """Bytes of the file at a place.

    Raises:
        FileNotFoundError: There is none.
    """
    return place.size() if isinstance(place, Url) else place.stat().st_size


def total_size(place: Place) -> int:
    """Bytes of all files below a place."""
    if isinstance(place, Url):
        return place.total_size()
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def own_name(place: Place) -> str:
    """The name of what lies at a place; of a link, that of what it leads to."""
    return place.name if isinstance(place, Url) else place.resolve().name
