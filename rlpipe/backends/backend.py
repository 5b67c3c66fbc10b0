"""What a backend is, what it is given, and how one is found by its id."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from rlpipe.backends.image import Buffer, Image
from rlpipe.errors import ConfigError, closest
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.identity import stored
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.state import Array

_SHARED = frozenset({"backend", "image", "extents"})
"""The files of this package that are no backend."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One array to be stored.

    Attributes:
        key: Its array key: percent-escaped names joined with "/".
        dtype: Name of its dtype (see `rlpipe.snapshot.dtypes`).
        shape: Its shape.
        data: Its bytes in C order, little endian.
        role: Blocks of role inference are laid out before those of role training.
        aliases: Other keys of the same array.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    data: Buffer
    role: Role = "inference"
    aliases: tuple[str, ...] = ()


def block(key: str, array: Array, *, role: Role = "inference", aliases: tuple[str, ...] = ()) -> Block:
    """The block of an array; its bytes are copied only where they do not lie in C order, little endian."""
    raw = stored(array)
    data = raw.reshape(-1).view(np.uint8).data if raw.size else memoryview(b"")
    return Block(key, logical_name(array.dtype), tuple(array.shape), data, role, aliases)


def by_role(blocks: Sequence[Block]) -> list[Block]:
    """The blocks in the order of the file: inference before training, each sorted by key."""
    return sorted(blocks, key=lambda each: (each.role, each.key))


class Backend(Protocol):
    """A way to store arrays in one file of a standard format.

    A backend only says what the bytes are; it reads and writes no file.
    """

    @property
    def id(self) -> str:
        """The name of its file in this package; stored in every manifest."""

    @property
    def file_name(self) -> str:
        """Name of the array file in a component's directory."""

    def image(self, blocks: Sequence[Block]) -> Image:
        """The file that holds these blocks: equal blocks give equal bytes, in whatever order they come.

        Raises:
            UnsupportedStateError: Something that the format cannot hold, named by its key.
        """


@cache
def ids() -> tuple[str, ...]:
    """The ids of all backends, sorted."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in names if name not in _SHARED))


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
