"""Checking every byte of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rlpipe.backends.array_reader import damaged_parts
from rlpipe.backends.remote import Url, in_store
from rlpipe.checkpoint.attachments import damaged_attachments, unlisted_attachments
from rlpipe.checkpoint.authenticity import require_sha256, sha256_of
from rlpipe.checkpoint.component import (
    Component,
    fetch_manifests,
    open_manifest,
    require_listed,
    require_present,
    unlisted,
)
from rlpipe.checkpoint.foreign import unlisted_in
from rlpipe.checkpoint.format import MANIFEST_NAME
from rlpipe.checkpoint.identical import identical_policies
from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.manifest import Manifest
from rlpipe.checkpoint.place import Place, place_of
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
        notes: What is there and was not checked, because no manifest lists it.
        components: How many components were checked.
        nbytes: How many bytes of array files and attachments were checked.
        identical: Policies whose weights are the same; not told where there is damage.
        sha256: What `sha256_of` gives, where every byte is sound and it is not the value that was expected; else "".
    """

    path: Place
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    components: int
    nbytes: int
    identical: tuple[tuple[str, ...], ...] = ()
    sha256: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged, and it is the one that is meant."""
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
    return steadily(path, lambda found: _verify(place_of(path), found, expected), is_sound=lambda report: report.ok)


def _verify(path: Place, directory: Place, sha256: str | None) -> VerifyReport:
    if not directory.is_dir() or not any(directory.iterdir()):
        open_manifest(directory)
    names = list(directory.sizes_below()) if isinstance(directory, Url) else None
    parts = _parts(str(directory), "", "")
    # Manifests can be large, so each is let go of after its component.
    checked = (
        [_check(each, None) for each in parts]
        if names is None
        else in_store(lambda each: _check(each, names), list(parts))
    )
    findings = [finding for each in checked for finding in each.findings]
    findings = findings or list(_check_as_one(directory))
    other = "" if findings or sha256 is None else _other(directory, sha256)
    if other:
        found = f"this is another checkpoint: SHA-256 {other}, expected {sha256}"
        findings = [Finding("", MANIFEST_NAME, "", found)]
    notes = [note for each in checked for note in each.notes]
    identical = () if findings else identical_policies(inspect_checkpoint(directory))
    nbytes = sum(each.nbytes for each in checked)
    return VerifyReport(path, tuple(findings), tuple(notes), len(checked), nbytes, identical, other)


def _parts(directory: str, path: str, expected: str, data: bytes | None = None) -> Iterator[Component | Finding]:
    """A component and those inside, or what is wrong with its manifest; a damaged one stops nothing but itself."""
    try:
        if path and data is None:
            require_present(directory, path)
        found = Component(path, directory, *open_manifest(directory, data))
        if expected:
            require_listed(found, expected)
    except CheckpointError as error:
        yield Finding(path, MANIFEST_NAME, "", _line(error))
        return
    yield found
    children = found.manifest.children
    fetched = fetch_manifests(directory, children)
    for name, digest in sorted(children.items()):
        yield from _parts(f"{directory}/{name}", below(path, name), digest, fetched.get(name))


def _check(part: Component | Finding, names: Collection[str] | None) -> _Checked:
    """Check the files of a component; the names are those of all files, where the component lies in a store."""
    if isinstance(part, Finding):
        return _Checked((part,))
    directory, path, manifest = part.directory, part.path, part.manifest
    if names is None:
        strange = [*unlisted(directory, manifest), *unlisted_attachments(directory, manifest.attachments)]
    else:
        strange = unlisted_in(names, path, manifest)
    notes = tuple(f"{below(path, name)} is not listed, and was ignored" for name in strange)
    file = manifest.table.file
    nbytes = (file.size if file else 0) + sum(each.size for each in manifest.attachments.values())
    attached = (
        Finding(path, name, "", message) for name, message in damaged_attachments(directory, manifest.attachments)
    )
    return _Checked((*_check_arrays(directory, path, manifest), *attached), notes, nbytes)


def _check_arrays(directory: str, path: str, manifest: Manifest) -> Iterator[Finding]:
    file = manifest.table.file
    if file is None:
        return
    try:
        for key, message in damaged_parts(directory, file, manifest.digests):
            yield Finding(path, file.name, key, message)
    except CheckpointError as error:
        yield Finding(path, file.name, "", _line(error))


def _check_as_one(directory: Place) -> Iterator[Finding]:
    """What only shows when all manifests are taken together: ties and identities."""
    try:
        read_checkpoint(directory, arrays="none")
    except CheckpointError as error:
        yield Finding("", MANIFEST_NAME, "", _line(error))


def _other(directory: Place, expected: str) -> str:
    """The SHA-256 of another checkpoint than the very one that is meant; else ""."""
    found = sha256_of(directory)
    return "" if found == expected else found


def _line(error: CheckpointError) -> str:
    """The error on one line; what to do about it only where that is not what helps against all damage."""
    parts = (("expected", error.expected), ("found", error.found), ("fix", error.fix))
    told = (f"{name}: {text}" for name, text in parts if text and text != error.usual_fix)
    return " ".join("; ".join([error.subject, *told]).split("\n"))
