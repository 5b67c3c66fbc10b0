"""Zip files are checked before anything in them is used."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers.restricted.archive import Archive, is_zip


def zipped(members: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def opened(data: bytes) -> Archive:
    return Archive(io.BytesIO(data), subject="it")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read(compression: int, tmp_path: Path) -> None:
    data = zipped({"a/b": b"one", "c": b"two" * 100}, compression=compression)
    (tmp_path / "file").write_bytes(data)
    for archive in (opened(data), Archive(tmp_path / "file", subject="it")):
        assert archive.names == {"a/b", "c"}
        assert archive.read("c") == b"two" * 100


def test_zips_are_told_by_their_first_bytes() -> None:
    assert is_zip(zipped({}))
    assert is_zip(zipped({"a": b""}))
    assert not is_zip(b"PK")
    assert not is_zip(b"")


def test_a_missing_member_is_named_with_what_there_is() -> None:
    with pytest.raises(ForeignFormatError) as caught:
        opened(zipped({"a": b""})).read("b")
    assert (caught.value.expected, caught.value.found) == ("b", "a")


def test_a_flipped_byte_is_found() -> None:
    data = bytearray(zipped({"a": b"contents"}))
    data[data.index(b"contents")] ^= 1
    with pytest.raises(ForeignFormatError, match="the member a of it is damaged"):
        opened(bytes(data)).read("a")


def test_an_encrypted_member_is_refused() -> None:
    data = bytearray(zipped({"a": b"contents"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UnsafePayloadError, match="encrypted"):
        opened(bytes(data))


def test_no_zip_is_an_error() -> None:
    with pytest.raises(ForeignFormatError, match="damaged zip"):
        opened(b"PK\x03\x04 and no more")
