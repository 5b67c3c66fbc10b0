"""Snapshots that are taken to see what there is, not to be kept: nothing has to be proven for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_GLANCING: ContextVar[bool] = ContextVar("glance", default=False)


@contextmanager
def glancing() -> Iterator[None]:
    """Inside, components are asked for their keys, shapes and numbers, and may leave out what proves them right.

    A proof costs more than a snapshot. It belongs to what is saved; what is about to be overwritten needs none.
    """
    token = _GLANCING.set(True)
    try:
        yield
    finally:
        _GLANCING.reset(token)


def is_glance() -> bool:
    """Whether a snapshot is taken that nobody keeps."""
    return _GLANCING.get()
