"""What a manifest says before its hashes: all of it that follows from what a component is, and not from its numbers.

Policies of one training say the same here, word for word, and so does each save of a run. So it is read, and checked,
once for all of them (see `manifest_parser`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

from rlpipe.checkpoint.attachments import Attachment, parse_attachments
from rlpipe.checkpoint.format import MAX_LISTED, VERSION
from rlpipe.checkpoint.manifest import Manifest, Origin, Plain, TieMember, frames_of, roles_of
from rlpipe.checkpoint.strict_json import Json, Strict, are_digests
from rlpipe.checkpoint.table import Table, require_key, table_of
from rlpipe.errors import IdError, ManifestError, UnsupportedStateError
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.moved import name_of_today, with_names_of_today
from rlpipe.snapshot.skeleton import decode, encode
from rlpipe.snapshot.snapshot import ROLES, Role, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import from_entries

SHA256_DIGITS = 64
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True, eq=False)
class Description:
    """What a manifest says before its hashes; see `Manifest` for the attributes. Its mappings cannot be changed."""

    spec: Spec
    plain: Mapping[str, Plain]
    table: Table
    children: Mapping[str, str]
    ties: tuple[tuple[TieMember, ...], ...]
    metadata: Mapping[str, Json]
    origin: Origin | None
    attachments: Mapping[str, Attachment]

    def manifest(
        self,
        digests: Mapping[str, str],
        content_hash: str,
        inference_hash: str,
        metadata: Mapping[str, Json] | None = None,
    ) -> Manifest:
        """The manifest that goes on with these hashes; what a snapshot takes over of it is its own.

        Args:
            digests: Array key -> digest, in the order of the table.
            content_hash: See `Manifest`.
            inference_hash: See `Manifest`.
            metadata: Those of the manifest, where they are not those of the description.
        """
        manifest = object.__new__(Manifest)
        # A large tree is made of hundreds of these, and __init__ would set each attribute by a call.
        manifest.__dict__.update(
            self._shared,
            spec=Spec(self.spec.class_path, _fresh(self.spec.config), _fresh(self.spec.options)),
            metadata=_fresh(self.metadata) if metadata is None else metadata,
            origin=self.origin and Origin(self.origin.created, _fresh(self.origin.provenance)),
            roles=self._roles.copy(),
            digests=digests,
            content_hash=content_hash,
            inference_hash=inference_hash,
        )
        return manifest

    @cached_property
    def _shared(self) -> dict[str, Any]:
        """The attributes of a manifest that nobody changes, so that all can have the same."""
        names = ("plain", "table", "children", "ties", "attachments")
        frames = frames_of(self.spec, self.plain, self.table, self.children)
        return {**{name: getattr(self, name) for name in names}, "version": VERSION, "frames": frames}

    @cached_property
    def _roles(self) -> dict[str, Role]:
        return roles_of(self.plain, self.table)


def _fresh(json: Json) -> Json:
    """A copy that shares no list and no dict."""
    if type(json) is dict:
        return {name: _fresh(each) for name, each in json.items()} if json else {}
    return [*map(_fresh, json)] if type(json) is list else json


def describe(values: list[Json], strict: Strict) -> Description:
    """The description of the values of its fields, in their order; of `file` the text, as `table_of` reads it.

    Raises:
        ManifestError: They break the format, named by file and field.
    """
    _, _, spec, metadata, origin, children, ties, attachments, entries, file = values
    table = table_of(file, strict)
    inside = _children(children, strict)
    return Description(
        spec=_spec(spec, strict),
        plain=MappingProxyType(_plain(entries, table, strict)),
        table=table,
        children=MappingProxyType(inside),
        ties=tuple(_tie(tie, f"ties.{index}", inside, strict) for index, tie in enumerate(strict.items(ties, "ties"))),
        metadata=strict.plain(metadata, "metadata"),
        origin=None if origin is None else _origin(origin, strict),
        attachments=MappingProxyType(parse_attachments(attachments, strict)),
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
        if plain or table.nesting is None:
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


def _children(value: Json, strict: Strict) -> dict[str, str]:
    members = strict.mapping(value, "children")
    if len(members) > MAX_LISTED:
        strict.fail("children", f"at most {MAX_LISTED} components", found=f"{len(members)}")
    try:
        validate_ids(members, kind="component")
    except IdError as error:
        strict.fail("children", "names that can stand side by side as directories", found=error.found)
    if not are_digests(members.values(), SHA256_DIGITS):
        for name, digest in members.items():
            strict.digest(digest, f"children.{name}", SHA256_DIGITS)
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
