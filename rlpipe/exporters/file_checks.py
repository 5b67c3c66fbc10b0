"""What is inside an artifact's files: nothing of the author's machine, nothing that only training needs."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlpipe.exporters.levels import FILE, Level
from rlpipe.exporters.report import FileFacts
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.state import arrays, split

_SHORTEST = 6
"""Shorter names are found by chance among the bytes of weights."""


def facts_of(folder: Path, main: Path) -> tuple[FileFacts, ...]:
    """All files below a target's folder, the one that runs first, then sorted.

    Args:
        folder: The target's folder; paths count from its parent.
        main: The file that runs.
    """
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    ordered = sorted(found, key=lambda path: path != main)
    return tuple(
        FileFacts(
            path=path.relative_to(folder.parent).as_posix(),
            size=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in ordered
    )


def check_files(folder: Path, snapshot: Snapshot, *, without: Iterable[str]) -> Level:
    """The level of proof that looks at the bytes; that they open is shown where they are run.

    Args:
        folder: The target's folder.
        snapshot: The policy's, full or slim.
        without: Packages that running it does without.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    private, training = _private(folder), _training_names(snapshot)
    found = []
    for path in files:
        for name, data in _contents(path):
            found += [f"{name} names {text}" for text in private if text.encode() in data]
            found += [f"{name} holds {text}, which only training needs" for text in training if text.encode() in data]
    if found:
        return Level(name=FILE, status="failed", detail="; ".join(found[:3]))
    size = sum(path.stat().st_size for path in files)
    alone = f", opens without {', '.join(without)}" if tuple(without) else ""
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return Level(name=FILE, status="ok", detail=f"{count}, {size:,} bytes{alone}")


def _private(folder: Path) -> list[str]:
    """Texts that would name the machine or its user; what every machine has is no secret."""
    place = folder.resolve()
    places = {str(place), str(place.parent), str(Path.cwd()), sys.prefix, f"{Path.home()}/"}
    return sorted(text for text in places if len(text) >= _SHORTEST and not text.startswith(("/usr", "/opt")))


def _training_names(snapshot: Snapshot) -> list[str]:
    """Dotted names of parameters that have no place in an artifact."""
    kept = {".".join(split(key)) for key in arrays(snapshot.state) if snapshot.roles.get(key) != "training"}
    names = {".".join(split(key)) for key in arrays(snapshot.state) if snapshot.roles.get(key) == "training"}
    return sorted(name for name in names if len(name) >= _SHORTEST and not any(name in other for other in kept))


def _contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """The file, and what is packed in it."""
    yield file.name, file.read_bytes()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            for name in packed.namelist():
                yield f"{file.name}/{name}", packed.read(name)
