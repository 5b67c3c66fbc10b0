"""From the text of a manifest to a `Manifest`, believing nothing: what breaks the format is named by file and field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from rlpipe.backends.extents import Extent, FileRecord
from rlpipe.backends.image import ALIGNMENT, PIECE_SIZE
from rlpipe.checkpoint.format import FORMAT, VERSION
from rlpipe.checkpoint.manifest import ArrayFile, Manifest, Origin, TieMember, broken_seal
from rlpipe.checkpoint.strict_json import Node, parse
from rlpipe.errors import FormatVersionError, IdError, ManifestError
from rlpipe.snapshot.dtypes import DTYPES
from rlpipe.snapshot.ids import validate_ids
from rlpipe.snapshot.skeleton import Json, skeleton
from rlpipe.snapshot.snapshot import ROLES, Role, entry_of
from rlpipe.snapshot.spec import Spec, canonical_json
from rlpipe.snapshot.state import arrays, entries, join, split

_FIELDS = (
    *("format", "version", "spec", "state", "entries", "arrays", "file", "children", "ties", "metadata"),
    *("content_hash", "inference_hash", "origin", "manifest_hash"),
)
_MAX_RANK = 64
_SHA256, _XXH3_128 = 64, 32
_FILE_NAME = re.compile(r"state\.[a-z0-9]{1,16}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LFS_POINTER = "version https://git-lfs.github.com/spec/"


def parse_manifest(text: str, file: str) -> tuple[Manifest, str]:
    """The manifest of a text, and its hash.

    Args:
        text: The whole file; its line endings may have been rewritten.
        file: How errors name it.

    Raises:
        ManifestError: The text breaks the format, or is not the text that was written.
        FormatVersionError: It was written by a newer rlpipe.
    """
    text = text.replace("\r\n", "\n")
    if text.startswith(_LFS_POINTER):
        raise ManifestError(f"{file} is a Git LFS pointer", expected="the manifest", fix="fetch it: git lfs pull")
    root = parse(text, file)
    _require_version(root)
    fields = root.fields(*_FIELDS)
    if broken := broken_seal(text):
        fields["manifest_hash"].fail("the hash of all that is before it", found=broken)
    try:
        return _manifest(fields), fields["manifest_hash"].text()
    except RecursionError:
        root.fail("less nesting", found="nesting without end")
    except MemoryError:
        root.fail("less of everything", found="more than fits into memory")


def _require_version(root: Node) -> None:
    members = root.mapping()
    for name in ("format", "version"):
        if name not in members:
            root.fail("the fields format and version", found=f"no {name}")
    members["format"].choice((FORMAT,))
    version = members["version"].integer()
    if version > VERSION:
        raise FormatVersionError(f"{root.file} was written by a newer rlpipe", version=version, known=VERSION)


def _manifest(fields: Mapping[str, Node]) -> Manifest:
    file = None if fields["file"].value is None else _file(fields["file"])
    extents, aliases, array_roles = _arrays(fields["arrays"], file)
    children = _children(fields["children"])
    manifest = Manifest(
        spec=_spec(fields["spec"]),
        skeleton=fields["state"].value,
        roles=array_roles | {_key(key, node): _role(node) for key, node in fields["entries"].mapping().items()},
        extents=extents,
        aliases=aliases,
        file=file,
        children=children,
        ties=_ties(fields["ties"], children),
        metadata=_plain(fields["metadata"]),
        content_hash=fields["content_hash"].digest(_SHA256),
        inference_hash=fields["inference_hash"].digest(_SHA256),
        origin=None if fields["origin"].value is None else _origin(fields["origin"]),
    )
    return _with_entry_roles(manifest, fields["state"])


def _with_entry_roles(manifest: Manifest, node: Node) -> Manifest:
    """The manifest with roles of entries only, after checking that state, arrays and roles name the same things."""
    infos = manifest.infos()
    try:
        state = manifest.state(infos)
    except (ManifestError, UnicodeDecodeError) as error:
        node.fail("a typed state whose arrays are all listed", found=str(error).replace("\n ", ";"))
    if canonical_json(skeleton(state)) != canonical_json(node.value):
        node.fail("the one form of a typed state", found="the same state in another form")
    if arrays(state).keys() != infos.keys():
        node.fail("the listed arrays", found=f"others: {sorted(infos.keys() - arrays(state).keys())[:5]}")
    found = entries(state).keys()
    known = manifest.roles
    if found - known.keys() or known.keys() - found - infos.keys():
        node.fail("a role for each entry", found=f"others: {sorted(found ^ known.keys())[:5]}")
    roles = {key: known[key] for key in found}
    for key in infos:
        if known[key] != roles[entry_of(key, roles)]:
            node.fail("one role for each entry", found=f"another one for {key}")
    return replace(manifest, roles=roles)


def _spec(node: Node) -> Spec:
    fields = node.fields("class", "config", "options")
    return Spec(fields["class"].text(), _plain(fields["config"]), _plain(fields["options"]))


def _plain(node: Node) -> dict[str, Json]:
    if not isinstance(node.value, dict):
        node.fail("an object")
    return cast("dict[str, Json]", node.value)


def _role(node: Node) -> Role:
    return cast(Role, node.choice(ROLES))


def _children(node: Node) -> dict[str, str]:
    members = node.mapping()
    try:
        validate_ids(members, kind="component")
    except IdError as error:
        node.fail("names that can stand side by side as directories", found=error.found)
    return {name: member.digest(_SHA256) for name, member in members.items()}


def _key(key: str, node: Node) -> str:
    try:
        is_canonical = join(*split(key)) == key
    except UnicodeDecodeError:
        is_canonical = False
    if not is_canonical:
        node.fail("a percent-escaped key", found=repr(key)[:80])
    return key


def _file(node: Node) -> ArrayFile:
    fields = node.fields("backend", "name", "size", "piece_size", "pieces")
    if not _FILE_NAME.fullmatch(fields["name"].text()):
        fields["name"].fail("the name of an array file, such as state.h5")
    size = fields["size"].integer(low=1)
    piece_size = fields["piece_size"].integer(low=1, high=PIECE_SIZE)
    pieces = tuple(piece.digest(_XXH3_128) for piece in fields["pieces"].items())
    if len(pieces) != -(-size // piece_size):
        fields["pieces"].fail(f"{-(-size // piece_size)} hashes", found=f"{len(pieces)}")
    return ArrayFile(fields["backend"].text(), FileRecord(fields["name"].text(), size, piece_size, pieces))


def _arrays(node: Node, file: ArrayFile | None) -> tuple[dict[str, Extent], dict[str, str], dict[str, Role]]:
    """Extents, aliases, and the role beside each array."""
    members = {_key(key, member): member for key, member in node.mapping().items()}
    tied = {key: member.fields("alias", "role") for key, member in members.items() if "alias" in member.mapping()}
    stored = {
        key: member.fields("dtype", "shape", "role", "offset", "length", "xxh3")
        for key, member in members.items()
        if key not in tied
    }
    if bool(stored) != (file is not None):
        node.fail("arrays and an array file, or neither", found=f"{len(stored)} arrays, file: {file is not None}")
    for fields in tied.values():
        fields["alias"].choice(stored)
    extents = {key: _extent(key, fields, file.record.size if file else 0) for key, fields in stored.items()}
    _require_apart(extents, node)
    aliases = {key: fields["alias"].text() for key, fields in tied.items()}
    return extents, aliases, {key: _role(fields["role"]) for key, fields in (stored | tied).items()}


def _extent(key: str, fields: Mapping[str, Node], size: int) -> Extent:
    shape = tuple(length.integer() for length in fields["shape"].items())
    if len(shape) > _MAX_RANK:
        fields["shape"].fail(f"at most {_MAX_RANK} dimensions")
    dtype = fields["dtype"].choice(DTYPES.keys())
    extent = Extent(key, dtype, shape, fields["offset"].integer(), fields["xxh3"].digest(_XXH3_128))
    if fields["length"].integer(high=size) != extent.length:
        fields["length"].fail(f"{extent.length} bytes, as dtype and shape say")
    if extent.end > size or extent.offset % ALIGNMENT:
        fields["offset"].fail(f"a multiple of {ALIGNMENT} that leaves room in a file of {size} bytes")
    if not extent.length and extent.offset:
        fields["offset"].fail("0 for an array without elements")
    return extent


def _require_apart(extents: Mapping[str, Extent], node: Node) -> None:
    end, before = 0, ""
    for extent in sorted(extents.values(), key=lambda each: each.offset):
        if extent.length and extent.offset < end:
            node.fail("arrays apart from each other", found=f"{before} and {extent.key} overlap")
        if extent.length:
            end, before = extent.end, extent.key


def _ties(node: Node, children: Mapping[str, str]) -> tuple[tuple[TieMember, ...], ...]:
    return tuple(_tie(tie, children) for tie in node.items())


def _tie(node: Node, children: Mapping[str, str]) -> tuple[TieMember, ...]:
    members = tuple(_tie_member(member, children) for member in node.items())
    heads = {member.component.partition("/")[0] for member in members}
    if len(heads) < 2 or len(set(members)) < len(members):
        node.fail("arrays of at least two components, each once")
    return members


def _tie_member(node: Node, children: Mapping[str, str]) -> TieMember:
    pair = node.items()
    if len(pair) != 2:
        node.fail("a component and a key")
    component, key = pair[0].text(), _key(pair[1].text(), pair[1])
    if component and component.partition("/")[0] not in children:
        pair[0].fail("the path of a component inside this one")
    return TieMember(component, key)


def _origin(node: Node) -> Origin:
    fields = node.fields("created", "provenance")
    created = fields["created"].text()
    if not _TIME.fullmatch(created):
        fields["created"].fail("a time in UTC, such as 2026-01-31T12:00:00.123456Z")
    return Origin(created, _plain(fields["provenance"]))
