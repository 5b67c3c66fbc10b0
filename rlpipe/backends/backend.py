"""What a backend is, and how one is found by its id."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from rlpipe.backends.layout import Layout, Slot
from rlpipe.errors import ConfigError, closest

_SHARED = frozenset(
    ("array_file", "array_reader", "backend", "extents", "layout", "ranges", "remote", "remote_ranges", "stores")
)
"""The files of this package that are no backend."""


class Backend(Protocol):
    """A way to store arrays in one file of a standard format.

    A backend only says what stands where; it reads and writes no file.
    """

    def __hash__(self) -> int:
        """Backends are values: what they say may be remembered."""

    @property
    def id(self) -> str:
        """The name of its file in this package; stored in every manifest."""

    @property
    def file_name(self) -> str:
        """Name of the array file in a component's directory."""

    def layout(self, slots: Sequence[Slot]) -> Layout:
        """The file that holds these arrays: the same for the same slots, in whatever order they come.

        Raises:
            UnsupportedStateError: Something that the format cannot hold, named by its key.
        """


@cache
def ids() -> tuple[str, ...]:
    """The ids of all backends, sorted."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in names if name not in _SHARED))


@cache
def resolve(backend_id: str) -> Backend:
    """The backend of an id, imported only now.

    Raises:
        ConfigError: There is no such backend.
    """
    if backend_id not in ids():
        near = closest(backend_id, ids())
        raise ConfigError(
            f"there is no backend {backend_id!r}",
            expected=f"one of {', '.join(ids())}",
            found=repr(backend_id),
            fix=f"did you mean {near[0]}?" if near else "choose one of these: checkpoint=hdf5",
        )
    return cast(Backend, import_module(f"rlpipe.backends.{backend_id}").BACKEND)
