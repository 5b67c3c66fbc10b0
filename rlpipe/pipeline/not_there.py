"""What is said of a path where nothing is that could be read, and what may have been meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.errors import ArtifactError, CheckpointNotFoundError, closest, listed
from rlpipe.exporters.record import RECORD_NAME
from rlpipe.importers import importer as importers


def nothing_there(path: Path) -> CheckpointNotFoundError:
    """The error for a path where nothing is, with the name that may be meant."""
    if path.is_symlink():
        return CheckpointNotFoundError(
            f"{path} is a link to nothing",
            expected="a checkpoint, a model file or an artifact",
            found=f"a link to {path.readlink().name}",
            fix="restore what it points to, or name it directly",
        )
    missing = path
    while not missing.parent.exists():
        missing = missing.parent
    near = closest(missing.name, (child.name for child in missing.parent.iterdir())) if missing.parent.is_dir() else ()
    fix = f"did you mean {' or '.join(str(missing.parent / name) for name in near)}?" if near else "check the path"
    return CheckpointNotFoundError(
        f"there is nothing at {path}",
        expected="a checkpoint, a model file or an artifact",
        found="no such path" if missing == path else f"no such path, from {missing} on",
        fix=fix,
    )


def refuse_damaged_records(path: Path) -> None:
    """Refuse a folder of artifacts whose record cannot be read.

    Raises:
        ArtifactError: It is one.
    """
    damaged = [place / RECORD_NAME for place in (path, *_directories(path)) if (place / RECORD_NAME).exists()]
    if damaged:
        raise ArtifactError(
            f"{listed(map(str, damaged))}: no readable record of artifacts",
            expected=f"{RECORD_NAME} as task=export writes it",
            found=", ".join("an empty file" if not file.stat().st_size else "something else" for file in damaged[:3]),
            fix="take another copy of the folder, or export again",
        )


def no_checkpoint(path: Path) -> CheckpointNotFoundError:
    """The error for a directory that is no checkpoint, with what in it may be meant."""
    names = sorted(child.name for child in path.iterdir())
    inside = [child.name for child in _directories(path) if _is_source(child)]
    if inside:
        has_own = any((path / name / MANIFEST_NAME).is_file() for name in inside)
        way = "choose: source.which=latest, or name" if has_own else "name"
        fix = f"{way} one of the checkpoints in it: {', '.join(str(path / name) for name in inside[:3])}"
    elif models := _models(path):
        fix = f"name the model file in it: {', '.join(str(path / name) for name in models[:3])}"
    elif names:
        fix = "write the checkpoint again: manifest.json is written last, so that a save that was stopped leaves none"
    else:
        fix = "name a checkpoint directory"
    found = f"a directory without it, with {', '.join(names[:5])}" if names else "an empty directory"
    expected = f"a directory with {MANIFEST_NAME}"
    return CheckpointNotFoundError(f"{path} is no checkpoint", expected=expected, found=found, fix=fix)


def _is_source(folder: Path) -> bool:
    return (folder / MANIFEST_NAME).is_file() or importers.recognise_folder(folder) is not None


def _models(folder: Path) -> list[str]:
    """Names of the files in a folder that an importer takes; of those of one name the highest number first."""
    known = [importers.resolve(importer_id) for importer_id in importers.ids()]
    files = sorted((child for child in folder.iterdir() if child.is_file()), key=lambda file: _by_number(file.name))
    return [file.name for file in files if any(importer.recognise(file) for importer in known)]


def _by_number(name: str) -> tuple[str, int, str]:
    """`model_1000.pt` before `model_900.pt`."""
    text, number = re.fullmatch(r"(.*?)(\d{0,18})(?:\.[^.]*)?", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return text, -int(number or 0), name


def _directories(folder: Path) -> Iterator[Path]:
    """Directories in a folder that are no hidden or staging ones, sorted."""
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
