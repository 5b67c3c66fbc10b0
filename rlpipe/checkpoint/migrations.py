"""From what an older manifest says to what it would say today.

A migration is a pure function over the JSON of a manifest of version n, its hash left out, and gives that of version
n + 1. It is given what nobody has checked yet: what it gives is checked like any manifest, and it may fail on what
version n never said with a `LookupError`, `TypeError`, `ValueError` or `AttributeError`.

It may change how a manifest says something, never what the component is: its content and inference hash stay as they
are, as artifacts and people remember them. What the config of a spec means is for the class that reads it to keep
(spaces have a version of their own), and old names of classes are for `rlpipe.snapshot.moved`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from rlpipe.checkpoint.strict_json import Json, Strict

Migration: TypeAlias = Callable[[dict[str, Json]], dict[str, Json]]


def _with_attachments(manifest: dict[str, Json]) -> dict[str, Json]:
    """From version 0, the store before it was final: components had no attachments."""
    return {"attachments": {}, **manifest}


MIGRATIONS: Mapping[int, Migration] = MappingProxyType({0: _with_attachments})
"""Version n -> how it becomes n + 1; none is ever taken out."""


def migrated(
    manifest: dict[str, Json], version: int, target: int, migrations: Mapping[int, Migration], strict: Strict
) -> dict[str, Json]:
    """What a manifest of an older version would say in a newer one.

    Raises:
        ManifestError: It is not what its version says.
    """
    for step in range(version, target):
        if step not in migrations:
            strict.fail("version", f"format version {step + 1} or newer", value=version)
        try:
            manifest = {**migrations[step](dict(manifest)), "version": step + 1}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            strict.fail("", f"a manifest of version {step}", found=f"{type(error).__name__}: {error}")
    return manifest
