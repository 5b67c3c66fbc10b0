"""What is inside an artifact's files: nothing of the author's machine, nothing that only training needs."""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rlpipe.exporters.levels import FILE, Level
from rlpipe.exporters.report import FileFacts
from rlpipe.exporters.signature import Signature
from rlpipe.exporters.target import Target
from rlpipe.snapshot.snapshot import Snapshot
from rlpipe.snapshot.state import arrays, split

_SHORTEST = 6
"""Shorter names are found by chance among the bytes of weights."""

_MOST = 3
"""So many findings are told."""

_DRAWING = re.compile(r"(?i)(?<![a-z])(rand|bernoulli|multinomial|dropout|normal(?![a-z])|poisson|exponential_)|random")
"""Of names of operators; `LayerNormalization` and `max` are none of them."""


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


def check_files(folder: Path, main: Path, snapshot: Snapshot, target: Target) -> Level:
    """The level of proof that looks at the bytes; that they open is shown where they are run, see `opened`.

    Args:
        folder: The target's folder.
        main: The file that runs.
        snapshot: The policy's, full or slim.
        target: The target.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    private, training = _private(folder), _training_names(snapshot)
    places, trained = [], []
    for path in files:
        for name, data in _contents(path):
            places += [f"{name} names {text}" for text in private if text.encode() in data]
            trained += [f"{name} holds {text}, which only training needs" for text in training if text.encode() in data]
    operators = target.operators(str(main)) if hasattr(target, "operators") else ()
    drawing = [f"{name} draws random numbers" for name in operators if _DRAWING.search(name)]
    if found := [*drawing, *trained, *places]:
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        return Level(name=FILE, status="failed", detail="; ".join(found[:_MOST]) + more)
    size = sum(path.stat().st_size for path in files)
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    facts = {
        "files": f"{count}, {size:,} bytes",
        "paths of the author's machine": "none",
        "parameters that only training needs": f"none of {len(training)}",
        "random and dropout operators": f"none of {len(operators)}"
        if operators
        else "none in the graph it was made of",
    }
    return Level(name=FILE, status="ok", detail=facts["files"], facts=facts)


def opened(level: Level, signature: Signature, batches: Iterable[int], without: Iterable[str]) -> Level:
    """The level of a file that was run in a fresh process, with what that showed.

    Args:
        level: What `check_files` says.
        signature: What the file took and gave.
        batches: Sizes that it took.
        without: Packages that the process did not have.
    """
    absent = ", ".join(("rlpipe", *without))
    facts = {
        "opens in a new process": f"without {absent}",
        "names, dtypes and shapes": f"{len(signature.inputs)} inputs, {len(signature.outputs)} outputs as promised",
        "batch": f"any: {', '.join(map(str, batches))}",
    }
    detail = f"{level.detail}, opens without {absent}, takes any batch"
    return replace(level, detail=detail, facts={**level.facts, **facts})


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
