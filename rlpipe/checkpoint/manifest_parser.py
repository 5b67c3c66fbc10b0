"""From the text of a manifest to a `Manifest`, believing nothing: what breaks the format is named by file and field.

A text is its description, which most components share with others, and hashes, which are its own. A description that
was read is remembered, so that of the next text with it only the hashes are read. What is not laid out as it is written
today, or is wrong, is read from its start to its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn

from rlpipe.checkpoint.description import SHA256_DIGITS, Description, describe
from rlpipe.checkpoint.format import FORMAT, MAX_LISTED, VERSION
from rlpipe.checkpoint.manifest import FIELDS, HEADS, Manifest, broken_seal, excess_of, table_place
from rlpipe.checkpoint.migrations import MIGRATIONS, Migration, migrated
from rlpipe.checkpoint.strict_json import Json, Strict, are_digests, scan
from rlpipe.checkpoint.table import DIGEST_DIGITS, Table, table_text
from rlpipe.errors import FormatVersionError, ManifestError

_CURRENT = f'{HEADS[0]}"{FORMAT}"{HEADS[1]}{VERSION},'
_REMEMBERED = 2**16
"""Of texts of at most this length the description is kept for the next text with it."""

_LONG = 2 * _REMEMBERED
"""Of longer texts the hashes are counted before they are read."""

_METADATA, _ORIGIN = (HEADS[FIELDS.index(name)] for name in ("metadata", "origin"))
_NO_METADATA = f"{_METADATA}{{}}{_ORIGIN}"
_HASHES, _CONTENT = (HEADS[FIELDS.index(name)] for name in ("xxh3", "content_hash"))
_NO_HASHES = '[],\n"content_hash":"",\n"inference_hash":"",\n"manifest_hash":'
_LAYOUT = re.compile(
    r'\[(?:\n"((?:[0-9a-f]{32}",\n")*[0-9a-f]{32})"\n)?\],\n'
    r'"content_hash":"([0-9a-f]{64})",\n"inference_hash":"([0-9a-f]{64})",\n"manifest_hash":"[0-9a-f]{64}"\n\}\n'
)
"""The hashes as they are written; those of arrays are to be split at what stands between two of them."""
_BETWEEN = '",\n"'
_NAMELESS = Strict("")
"""For a first reading; what it finds wrong is found again by one that knows the file."""

_LFS_POINTER = "version https://git-lfs.github.com/spec/"


def parse_manifest(text: str, file: str, *, migrations: Mapping[int, Migration] = MIGRATIONS) -> tuple[Manifest, str]:
    """The manifest of a text, and its hash.

    Args:
        text: The whole file; its line endings may have been rewritten.
        file: How errors name it.
        migrations: Version n -> what makes it n + 1.

    Raises:
        ManifestError: The text breaks the format, or is not the text that was written.
        FormatVersionError: It was written by a newer rlpipe.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    broken = broken_seal(text)
    found = None if broken else _remembered(text)
    return found or _parse(text, broken, Strict(file), migrations), text[-68:-4]


def _remembered(text: str) -> Manifest | None:
    """The manifest of a text with a right seal; None if it is not laid out as it is written today, or is wrong."""
    if len(text) > _REMEMBERED:
        return None
    before, _, after = text.rpartition(_HASHES)
    hashes = _LAYOUT.fullmatch(after)
    if hashes is None:
        return None
    digests, content, inference = hashes.groups()
    rest, metadata = _apart(before)
    try:
        description = _describe_once(rest)
        known = None if metadata is None else _metadata(metadata)
        own = _by_key(digests.split(_BETWEEN) if digests else [], description.table, _NAMELESS)
    except ManifestError:
        return None
    return description.manifest(own, content, inference, known)


def _apart(before: str) -> tuple[str, str | None]:
    """A description without metadata, which often differ where nothing else does, and their text, if it has any."""
    # What stands in it once, as what it must have, is nothing else.
    if _NO_METADATA in before or (before.count(_METADATA), before.count(_ORIGIN)) != (1, 1):
        return before, None
    head, _, rest = before.partition(_METADATA)
    metadata, _, rest = rest.partition(_ORIGIN)
    return f"{head}{_NO_METADATA}{rest}", metadata


def _metadata(text: str) -> dict[str, Json]:
    with _NAMELESS.reading():
        value, end = scan(text, 0)
    if end != len(text):
        _NAMELESS.fail("metadata", "JSON")
    return _NAMELESS.plain(value, "metadata")


@lru_cache(maxsize=128)
def _describe_once(before: str) -> Description:
    if not before.startswith(_CURRENT):
        _NAMELESS.fail("version", f"{VERSION}")
    with _NAMELESS.reading():
        return describe(_values(before + _HASHES + _NO_HASHES, _NAMELESS)[:-3], _NAMELESS)


def _parse(text: str, broken: str, strict: Strict, migrations: Mapping[int, Migration]) -> Manifest:
    """The manifest of a text, read from its start to its end; its seal is known to be right or not."""
    if broken or not text.startswith(_CURRENT):
        members = _members(text, strict)
        if broken or members["version"] == VERSION:
            _explain(members, strict, broken)
        with strict.reading():
            return _of_older(members, migrations, strict)
    if len(text) > _LONG:
        _require_counts(text, strict)
    if found := excess_of(text):
        strict.fail("", "fewer values", found=found)
    with strict.reading():
        return _manifest(_values(text, strict), strict)


def _require_counts(text: str, strict: Strict) -> None:
    """Count names, arrays and hashes, the last two a line each, before a long text of them is read into memory."""
    start, end = table_place(text)
    for name in ("children", "attachments"):
        here, after = (text.find(HEADS[FIELDS.index(name) + step]) for step in (0, 1))
        if (names := text.count('":', here, after)) > MAX_LISTED + 1:
            strict.fail(name, f"at most {MAX_LISTED} names", found=f"{names - 1}")
    arrays, hashes = text.count("\n", start, end), text.count("\n", end + len(_HASHES), text.rfind(_CONTENT))
    if arrays != hashes:
        strict.fail("xxh3", "a hash for each array, a line each", found=f"{arrays} lines of arrays, {hashes} of hashes")


def _members(text: str, strict: Strict) -> dict[str, Json]:
    """The fields of a text of any version and layout that this rlpipe may know."""
    if text.startswith(_LFS_POINTER):
        raise ManifestError(
            f"{strict.file} is a Git LFS pointer", expected="the manifest", fix="fetch it: git lfs pull"
        )
    members = strict.mapping(strict.parse(text.removesuffix("\n")), "")
    for name in ("format", "version"):
        if name not in members:
            strict.fail("", "the fields format and version", found=f"no {name}")
    strict.choice(members["format"], "format", (FORMAT,))
    version = strict.integer(members["version"], "version")
    if version > VERSION:
        raise FormatVersionError(f"{strict.file} was written by a newer rlpipe", version=version, known=VERSION)
    return members


def _of_older(members: dict[str, Json], migrations: Mapping[int, Migration], strict: Strict) -> Manifest:
    """The manifest of an older version, in the words of this one."""
    version = members["version"]
    found = migrated(members, version, VERSION, migrations, strict)
    *values, _ = strict.fields(found, "", FIELDS)
    values[FIELDS.index("file")] = table_text(found["file"])
    return replace(_manifest(values, strict), version=version)


def _explain(members: dict[str, Json], strict: Strict, broken: str) -> NoReturn:
    """Raise what is wrong with a text that was not written as it is."""
    if members["version"] == VERSION:
        strict.fields(members, "", FIELDS)
    if broken:
        strict.fail("manifest_hash", "the hash of all that is before it", found=broken)
    strict.fail("", "fields and lines in their one order, without spaces", found="the same in another layout")


def _values(text: str, strict: Strict) -> list[Json]:
    """The value of each field but the last, in their order; of `file` the text, as `table_of` reads it."""
    start, end = table_place(text)
    values: list[Json] = []
    at = 0
    for name, head in zip(FIELDS, HEADS, strict=True):
        is_last = name == "manifest_hash"
        # The seal is the last thing in the text: what stands behind another one before it belongs to no field.
        if not text.startswith(head, at) or (is_last and at != text.rindex(head)):
            _explain(_members(text, strict), strict, "")
        if is_last:
            break
        at += len(head)
        if name == "file" and at == start:
            value, at = text[start:end], end
        else:
            value, at = _value(text, at)
        values.append(value)
    return values


def _value(text: str, at: int) -> tuple[Json, int]:
    """The value that starts at a position, and the position after it; most are empty, and need no scanner."""
    if text.startswith("{}", at):
        return {}, at + 2
    return ([], at + 2) if text.startswith("[]", at) else scan(text, at)


def _manifest(values: list[Json], strict: Strict) -> Manifest:
    *before, hashes, content, inference = values
    description = describe(before, strict)
    return description.manifest(
        _digests(hashes, description.table, strict),
        strict.digest(content, "content_hash", SHA256_DIGITS),
        strict.digest(inference, "inference_hash", SHA256_DIGITS),
    )


def _digests(value: Json, table: Table, strict: Strict) -> dict[str, str]:
    """Array key -> digest."""
    hashes = strict.items(value, "xxh3")
    if not are_digests(hashes, DIGEST_DIGITS):
        for index, each in enumerate(hashes):
            strict.digest(each, f"xxh3.{index}", DIGEST_DIGITS)
    return _by_key(hashes, table, strict)


def _by_key(hashes: list[str], table: Table, strict: Strict) -> dict[str, str]:
    strict.items(hashes, "xxh3", count=len(table.extents))
    digests = dict(zip(table.extents, hashes, strict=True))
    for key, first in table.tied.items():
        if digests[key] != digests[first]:
            strict.fail("xxh3", "one hash for arrays in one place", found=f"two for {first} and {key}")
    return digests
