"""Checking every byte of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlpipe.backends.extents import damaged_parts
from rlpipe.checkpoint.attachments import damaged_attachments, unlisted_attachments
from rlpipe.checkpoint.authenticity import require_sha256, sha256_of
from rlpipe.checkpoint.component import Component, open_manifest, require_listed, require_present, unlisted
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.identical import identical_notes
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.steady import steadily
from rlpipe.errors import CheckpointError
from rlpipe.snapshot.snapshot import below


@dataclass(frozen=True, slots=True)
class Finding:
    """One damaged thing.

    Attributes:
        component: Path of its component; "" for the root.
        file: Path of the file from the component's directory.
        key: Array key, or "" where no array, or not only one, is damaged.
        message: What is wrong.
    """

    component: str
    file: str
    key: str
    message: str

    def __str__(self) -> str:
        """One line."""
        place = below(self.component, self.file)
        return f"{place}, {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of every byte found.

    Attributes:
        path: The checkpoint.
        findings: All damage, by component.
        notes: What is there and was not checked, because no manifest lists it; and which policies are the same.
        components: How many components were checked.
        nbytes: How many bytes of array files and attachments were checked.
    """

    path: Path
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    components: int
    nbytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class _Checked:
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    nbytes: int = 0


def verify_checkpoint(path: str | os.PathLike[str], *, sha256: str | None = None) -> VerifyReport:
    """Check every byte of a checkpoint and of all components in it. Damage is reported, not raised.

    Args:
        path: A checkpoint's directory, or that of any component in one.
        sha256: What `sha256_of` must give for it. Hashes inside a checkpoint show damage; only a value that was kept
            elsewhere shows that somebody put another one in its place.

    Raises:
        CheckpointNotFoundError: There is nothing, a file, or an empty directory at the path.
        ConfigError: `sha256` is none.
    """
    expected = None if sha256 is None else require_sha256(sha256)
    return steadily(Path(path), lambda found: _verify(Path(path), found, expected), is_sound=lambda report: report.ok)


def _verify(path: Path, directory: Path, sha256: str | None) -> VerifyReport:
    if not directory.is_dir() or not any(directory.iterdir()):
        open_manifest(directory)
    checked = list(_check(str(directory), "", ""))
    findings = [finding for each in checked for finding in each.findings]
    findings = findings or list(_check_as_one(directory))
    findings = findings or list(_check_whole(directory, sha256))
    notes = [note for each in checked for note in each.notes]
    if not findings:
        notes += identical_notes(inspect_checkpoint(directory))
    return VerifyReport(path, tuple(findings), tuple(notes), len(checked), sum(each.nbytes for each in checked))


def _check(directory: str, path: str, expected: str) -> Iterator[_Checked]:
    """Check a component and those inside; a damaged one stops nothing but itself."""
    try:
        require_present(directory, path)
        manifest, digest = open_manifest(directory)
        if expected:
            require_listed(Component(path, directory, manifest, digest), expected)
    except CheckpointError as error:
        yield _Checked((Finding(path, MANIFEST_NAME, "", _line(error)),))
        return
    strange = [*unlisted(directory, manifest), *unlisted_attachments(directory, manifest.attachments)]
    notes = tuple(f"{below(path, name)} is not listed, and was ignored" for name in strange)
    file = manifest.table.file
    nbytes = (file.size if file else 0) + sum(each.size for each in manifest.attachments.values())
    attached = (
        Finding(path, name, "", message) for name, message in damaged_attachments(directory, manifest.attachments)
    )
    yield _Checked((*_check_arrays(directory, path, manifest), *attached), notes, nbytes)
    for name, child in sorted(manifest.children.items()):
        yield from _check(f"{directory}/{name}", below(path, name), child)


def _check_arrays(directory: str, path: str, manifest: Manifest) -> Iterator[Finding]:
    file = manifest.table.file
    if file is None:
        return
    try:
        for key, message in damaged_parts(directory, file, manifest.digests):
            yield Finding(path, file.name, key, message)
    except CheckpointError as error:
        yield Finding(path, file.name, "", _line(error))


def _check_as_one(directory: Path) -> Iterator[Finding]:
    """What only shows when all manifests are taken together: ties and identities."""
    try:
        read_checkpoint(directory, arrays="none")
    except CheckpointError as error:
        yield Finding("", MANIFEST_NAME, "", _line(error))


def _check_whole(directory: Path, expected: str | None) -> Iterator[Finding]:
    """Whether it is the very checkpoint that is meant."""
    found = expected and sha256_of(directory)
    if found != expected:
        yield Finding("", MANIFEST_NAME, "", f"this is another checkpoint: SHA-256 {found}, expected {expected}")


def _line(error: CheckpointError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if not line.startswith("  fix"))
