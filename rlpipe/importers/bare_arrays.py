"""What becomes of a file that holds arrays and does not say what they are for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.errors import ForeignFormatError
from rlpipe.importers.importer import ImportedFile, ImportReport
from rlpipe.snapshot.state import arrays, entries

NO_NETWORK = "the file says nothing of what computes with these arrays: they can be saved and compared, not exported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a file of bare arrays is read.

    Attributes:
        policy_id: Id that the arrays get where they are put among policies.
    """

    policy_id: str = "p0"


def imported(
    path: Path,
    library: str,
    state: Mapping[str, Any],
    *,
    skipped: tuple[tuple[str, str], ...] = (),
    notes: tuple[str, ...] = (),
) -> ImportedFile:
    """The snapshot of bare arrays with the report of how they came.

    Args:
        path: The file.
        library: Id of the importer.
        state: What was read: nested dicts, lists and tuples of arrays and plain values.
        skipped: (name in the file, why it was left out).
        notes: Sentences for people.

    Raises:
        ForeignFormatError: There are no arrays in the state.
        UnsupportedStateError: There is something in it that no checkpoint can hold.
    """
    source = {"library": library, "file": path.name, "sha256": file_sha256(path)}
    snapshot = snapshot_of(Arrays(state, metadata={"source": source}))
    if not arrays(snapshot.state):
        raise ForeignFormatError(f"{path.name} holds no arrays", expected="at least one array", found="none")
    beside = path.parent / MANIFEST_NAME
    if beside.is_file():
        notes = (f"{beside.name} lies beside {path.name}: name the directory to have the policy itself", *notes)
    report = ImportReport(imported=tuple(entries(snapshot.state)), skipped=skipped, notes=(NO_NETWORK, *notes))
    return ImportedFile(snapshot, report)


def count_bytes(state: Mapping[str, Any]) -> int:
    """Bytes of all arrays in a state, one that is there under several names counted once."""
    distinct = {id(array): array for array in arrays(dict(state)).values()}
    return sum(array.dtype.itemsize * math.prod(array.shape) for array in distinct.values())


def require_file(path: Path) -> None:
    """Check that there is a regular file.

    Raises:
        ForeignFormatError: There is none.
    """
    if not path.is_file():
        raise ForeignFormatError(f"there is no file {path}", expected="a file of arrays", fix="check the path")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_only(array: Any) -> Any:
    """The same array, which cannot be written to."""
    array = np.asarray(array)
    array.flags.writeable = False
    return array
