"""Foreign zip files, with their names, sizes and checksums checked before anything of them is used."""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from rlpipe.errors import ForeignFormatError, UnsafePayloadError, listed

_FREE_BYTES = 16 * 2**20
_RATIO = 4
"""Members may be so much larger than the zip file: trainers store them as they are, and weights hardly shrink."""

_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, RuntimeError)
"""What the zipfile module raises for damaged bytes; NotImplementedError is a RuntimeError."""

_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")


def is_zip(start: bytes) -> bool:
    """Whether bytes begin as a zip file does."""
    return start[:4] in _SIGNATURES


class Archive:
    """A zip file whose directory has been checked.

    Args:
        source: Path of the file, or its bytes as a stream.
        subject: How errors name it.

    Raises:
        ForeignFormatError: It is no zip file, or its directory is damaged.
        UnsafePayloadError: It has names that leave its folder, names twice, or sizes that cannot be true.
    """

    def __init__(self, source: Path | IO[bytes], *, subject: str) -> None:
        self.subject = subject
        try:
            self._zip = zipfile.ZipFile(source)
            members = self._zip.infolist()
        except _BROKEN as error:
            raise ForeignFormatError(
                f"{subject} is a damaged zip file",
                expected="a whole zip file with its directory at the end",
                found=str(error) or type(error).__name__,
                fix="copy or download it again; a cut file has lost its directory",
            ) from None
        self.names = frozenset(member.filename for member in members)
        self._check(members)

    def _check(self, members: list[zipfile.ZipInfo]) -> None:
        findings = [f"{member.filename!r}: {why}" for member in members if (why := _objection(member))]
        packed, unpacked = _size(self._zip), sum(member.file_size for member in members)
        if unpacked > _FREE_BYTES + _RATIO * packed:
            largest = max(members, key=lambda member: member.file_size).filename
            findings.append(f"{unpacked} bytes out of {packed}, most of them in {largest!r}")
        if sum(member.compress_size for member in members) > packed:
            findings.append("members over each other")
        findings += [f"{name!r}: twice" for name in _twice([member.filename for member in members])]
        if findings:
            raise UnsafePayloadError(
                f"{self.subject} is not read",
                expected="members with plain relative names, each once, and true sizes",
                found=listed(findings),
                fix="get the file from its author anew; no honest trainer writes it so",
            )

    def size(self, name: str) -> int:
        """Bytes of a member."""
        return self._zip.getinfo(name).file_size

    def read(self, name: str) -> bytes:
        """The bytes of a member, checked against its CRC.

        Raises:
            ForeignFormatError: There is no such member, or it is damaged.
        """
        if name not in self.names:
            raise ForeignFormatError(
                f"{self.subject} has no member {name}", expected=name, found=listed(self.names) or "an empty zip file"
            )
        try:
            return self._zip.read(name)
        except _BROKEN as error:
            raise ForeignFormatError(
                f"the member {name} of {self.subject} is damaged",
                expected="bytes that fit their checksum",
                found=str(error) or type(error).__name__,
                fix="copy or download the file again",
            ) from None


def _size(archive: zipfile.ZipFile) -> int:
    stream: Any = archive.fp
    return int(stream.seek(0, os.SEEK_END))


def _objection(member: zipfile.ZipInfo) -> str:
    """What is wrong with a member of a zip directory, or ""."""
    name = member.orig_filename
    if "\\" in name or "\0" in name or name.startswith("/") or ":" in name.split("/", maxsplit=1)[0]:
        return "not a plain relative name"
    if ".." in name.split("/"):
        return "leaves its folder"
    if member.flag_bits & 1:
        return "encrypted"
    if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
        return f"{member.file_size} bytes stored in {member.compress_size}"
    return ""


def _twice(names: list[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
