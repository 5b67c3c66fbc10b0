"""From the text of a manifest to a `Manifest`, believing nothing: what breaks the format is named by file and field."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NoReturn, cast

from rlpipe.checkpoint.attachments import parse_attachments
from rlpipe.checkpoint.format import FORMAT, VERSION
from rlpipe.checkpoint.manifest import (
    FIELDS,
    HEADS,
    Manifest,
    Origin,
    Plain,
    TieMember,
    broken_seal,
    excess_of,
    table_place,
)
from rlpipe.checkpoint.migrations import MIGRATIONS, Migration, migrated
from rlpipe.checkpoint.strict_json import Json, Strict, scan
from rlpipe.checkpoint.table import DIGEST_DIGITS, Table, require_key, table_of, table_text
from rlpipe.errors import FormatVersionError, IdError, ManifestError, UnsupportedStateError
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.moved import name_of_today, with_names_of_today
from rlpipe.snapshot.skeleton import decode, encode
from rlpipe.snapshot.snapshot import ROLES, Role, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import from_entries

_SHA256 = 64
_HEX = re.compile("[0-9a-f]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_CURRENT = f'{HEADS[0]}"{FORMAT}"{HEADS[1]}{VERSION},'
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
    text = text.replace("\r\n", "\n")
    strict = Strict(file)
    broken = broken_seal(text)
    if broken or not text.startswith(_CURRENT):
        members = _members(text, strict)
        if broken or members["version"] == VERSION:
            _explain(members, strict, broken)
        with strict.reading():
            return _of_older(members, migrations, strict), text[-68:-4]
    if found := excess_of(text):
        strict.fail("", "fewer values", found=found)
    with strict.reading():
        return _manifest(_values(text, strict), strict), text[-68:-4]


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
        if not text.startswith(head, at):
            _explain(_members(text, strict), strict, "")
        at += len(head)
        if name == "manifest_hash":
            break
        value, at = (text[start:end], end) if name == "file" and at == start else scan(text, at)
        values.append(value)
    return values


def _manifest(values: list[Json], strict: Strict) -> Manifest:
    _, _, spec, metadata, origin, children, ties, attachments, entries, file, hashes, content, inference = values
    table = table_of(file, strict)
    inside = _children(children, strict)
    return Manifest(
        spec=_spec(spec, strict),
        plain=_plain(entries, table, strict),
        table=table,
        digests=_digests(hashes, table, strict),
        children=inside,
        ties=tuple(_tie(tie, f"ties.{index}", inside, strict) for index, tie in enumerate(strict.items(ties, "ties"))),
        metadata=strict.plain(metadata, "metadata"),
        content_hash=strict.digest(content, "content_hash", _SHA256),
        inference_hash=strict.digest(inference, "inference_hash", _SHA256),
        origin=None if origin is None else _origin(origin, strict),
        attachments=parse_attachments(attachments, strict),
    )


def _spec(value: Json, strict: Strict) -> Spec:
    class_path, config, options = strict.fields(value, "spec", ("class", "config", "options"))
    return Spec(
        name_of_today(strict.text(class_path, "spec.class")),
        with_names_of_today(strict.plain(config, "spec.config")),
        strict.plain(options, "spec.options"),
    )


def _plain(value: Json, table: Table, strict: Strict) -> dict[str, Plain]:
    """The entries that are no array, after checking that they and the table name each thing once."""
    plain = {key: _entry(key, pair, strict) for key, pair in strict.mapping(value, "entries").items()}
    rest: dict[str, object] = dict(table.extents)
    for key, entry in plain.items():
        _require_typed(key, entry.json, rest, strict)
    for key in table.extents.keys() - rest.keys():
        if table.roles[key] != plain[entry_of(key, plain)].role:
            strict.fail(f"file.arrays.{key}.role", "one role for each entry", found="another one than its list has")
    try:
        if plain or not table.is_state:
            from_entries(plain | rest)
    except UnsupportedStateError as error:
        strict.fail("entries", "keys apart from each other", found=error.subject)
    if plain.keys() & rest.keys():
        strict.fail("entries", "entries that are no array", found=f"{sorted(plain.keys() & rest.keys())[:5]}")
    return plain


def _entry(key: str, value: Json, strict: Strict) -> Plain:
    place = f"entries.{require_key(key, 'entries', strict)}"
    role, json = strict.items(value, place, count=2)
    return Plain(cast(Role, strict.choice(role, place, ROLES)), json)


def _require_typed(key: str, json: Json, rest: dict[str, object], strict: Strict) -> None:
    """Check that an entry is the one typed JSON of a value that is no array; takes its arrays out of the rest."""
    try:
        value = decode(json, key, rest)
    except (ManifestError, UnicodeDecodeError) as error:
        strict.fail(f"entries.{key}", "typed JSON whose arrays are listed", found=str(error).replace("\n ", ";"))
    is_entry = json != {"array": None} and not (isinstance(value, dict) and value)
    if not is_entry or canonical_json(encode(value, key)) != canonical_json(json):
        strict.fail(f"entries.{key}", "the one form of typed JSON", found="the same value in another form")


def _digests(value: Json, table: Table, strict: Strict) -> dict[str, str]:
    """Array key -> digest."""
    hashes = strict.items(value, "xxh3", count=len(table.extents))
    if not _are_digests(hashes, DIGEST_DIGITS):
        for index, each in enumerate(hashes):
            strict.digest(each, f"xxh3.{index}", DIGEST_DIGITS)
    digests = dict(zip(table.extents, hashes, strict=True))
    for key, first in table.tied.items():
        if digests[key] != digests[first]:
            strict.fail("xxh3", "one hash for arrays in one place", found=f"two for {first} and {key}")
    return digests


def _are_digests(hashes: Collection[Json], digits: int) -> bool:
    """Whether all are digests, asked of all at once."""
    try:
        return {*map(len, hashes)} <= {digits} and _HEX.fullmatch("".join(hashes)) is not None
    except TypeError:
        return False


def _children(value: Json, strict: Strict) -> dict[str, str]:
    members = strict.mapping(value, "children")
    try:
        validate_ids(members, kind="component")
    except IdError as error:
        strict.fail("children", "names that can stand side by side as directories", found=error.found)
    if not _are_digests(members.values(), _SHA256):
        for name, digest in members.items():
            strict.digest(digest, f"children.{name}", _SHA256)
    return members


def _tie(value: Json, place: str, children: Mapping[str, str], strict: Strict) -> tuple[TieMember, ...]:
    members = tuple(_tie_member(member, place, children, strict) for member in strict.items(value, place))
    heads = {member.component.partition("/")[0] for member in members}
    if len(heads) < 2 or len(set(members)) < len(members):
        strict.fail(place, "arrays of at least two components, each once", value=value)
    return members


def _tie_member(value: Json, place: str, children: Mapping[str, str], strict: Strict) -> TieMember:
    component, key = strict.items(value, place, count=2)
    if strict.text(component, place) and component.partition("/")[0] not in children:
        strict.fail(place, "the path of a component inside this one", value=component)
    return TieMember(component, require_key(key, place, strict))


def _origin(value: Json, strict: Strict) -> Origin:
    created, provenance = strict.fields(value, "origin", ("created", "provenance"))
    if not _TIME.fullmatch(strict.text(created, "origin.created")):
        strict.fail("origin.created", "a time in UTC, such as 2026-01-31T12:00:00.123456Z", value=created)
    return Origin(created, strict.plain(provenance, "origin.provenance"))
