"""The arrays of a component but for the numbers in them: the field `file` of a manifest.

It follows from the architecture alone (see `rlpipe.backends.layout`): policies of one architecture have the same text
here, so that it is read, and checked, once for all of them. One function makes tables, out of their text; the writer
asks it too, so that what was written can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from json.encoder import encode_basestring_ascii as json_text
from math import prod
from typing import NamedTuple, TypeAlias, cast

from rlpipe.backends.backend import Backend
from rlpipe.backends.extents import ArrayFile, Extent
from rlpipe.backends.layout import ALIGNMENT, Layout, Slot
from rlpipe.checkpoint.strict_json import MAX_INTEGER, Json, Strict
from rlpipe.errors import ManifestError, UnsupportedStateError
from rlpipe.snapshot.dtypes import DTYPES, DType, is_countable, logical_name, storage_dtype
from rlpipe.snapshot.identity import array_row
from rlpipe.snapshot.skeleton import MAX_DEPTH
from rlpipe.snapshot.snapshot import ROLES, Role
from rlpipe.snapshot.state import Nesting, join, nesting, split

DIGEST_DIGITS = 32
"""Of xxh3-128 in hex."""

NO_ARRAYS = "null"
"""The text of a table without arrays."""

_START, _END = ',"arrays":[\n', "\n]}"
"""What stands before and after the rows; a line break stands in no JSON string, so that rows can be told apart."""


_FIELDS = ("backend", "name", "size", "frame")
_MAX_RANK = 64
_MAX_ARRAYS = 100_000
"""In one component. Reading the table of as many takes two seconds."""

_FILE_NAME = re.compile(r"state\.[a-z0-9]{1,16}")
_TAME_KEY = re.compile(r"(?:[A-Za-z0-9_]+/)*[A-Za-z0-9_]+")
_REMEMBERED, _REMEMBERED_ROWS = 2**16, 2**10
"""Texts of at most this length, and so many arrays, are kept for the next component of the same architecture."""


@dataclass(frozen=True, eq=False)
class Table:
    """The arrays of a component but for the numbers in them.

    Attributes:
        backend: Id of the backend that wrote the file; "" without arrays.
        file: The array file, each array once; None without arrays.
        extents: Array key -> place in the file, sorted by key. Tied arrays have one place.
        roles: Array key -> role.
        tied: Further key of an array -> the key that it is stored under.
        text: What a manifest says of it.
    """

    backend: str
    file: ArrayFile | None
    extents: Mapping[str, Extent]
    roles: Mapping[str, Role]
    tied: Mapping[str, str]
    text: str

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """What each array adds to the hash of its component, but for its digest."""
        return tuple(array_row(each.key, each.dtype, each.shape) for each in self.extents.values())

    @cached_property
    def nesting(self) -> Nesting | None:
        """How the state of the arrays alone is nested; None if they are none: a key goes on below another one."""
        try:
            return nesting(self.extents)
        except UnsupportedStateError:
            return None


class Row(NamedTuple):
    """An array that is to be written; in a text its place in the file stands last, and tied arrays have one place.

    Attributes:
        key: Its array key.
        dtype: Name of its dtype.
        shape: Its shape.
        role: The role of its entry.
        tied_to: The key that it is stored under; "" if that is its own.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    role: Role
    tied_to: str


LiveRow: TypeAlias = tuple[str, DType, tuple[int, ...], Role, str]
"""A `Row` with the dtype itself in place of its name: what it costs least to ask an array for."""


def table_of(text: str, strict: Strict) -> Table:
    """The table of a text.

    Raises:
        ManifestError: The text breaks the format, named by file and field.
    """
    if len(text) > _REMEMBERED:
        return _parse(text, strict)
    try:
        return _parse_once(text)
    except ManifestError:
        return _parse(text, strict)


@lru_cache(maxsize=256)
def _parse_once(text: str) -> Table:
    return _parse(text, Strict(""))


def table_for(backend: Backend, rows: tuple[LiveRow, ...]) -> tuple[Table, Layout]:
    """The table, and the layout, of arrays that are to be written by a backend.

    Args:
        backend: The backend.
        rows: One for each array, sorted by key.

    Raises:
        UnsupportedStateError: Something that the backend cannot hold, named by its key.
    """
    return _make_once(backend, rows) if len(rows) <= _REMEMBERED_ROWS else _make(backend, rows)


def _make(backend: Backend, rows: tuple[LiveRow, ...]) -> tuple[Table, Layout]:
    named = [Row(key, logical_name(dtype), shape, role, tied_to) for key, dtype, shape, role, tied_to in rows]
    aliases: dict[str, list[str]] = {}
    for row in named:
        if row.tied_to:
            aliases.setdefault(row.tied_to, []).append(row.key)
    layout = backend.layout([Slot(*row[:4], tuple(aliases.get(row.key, ()))) for row in named if not row.tied_to])
    head = {"backend": backend.id, "name": backend.file_name, "size": layout.size, "frame": layout.frame_digest}
    lines = [_line(row, layout.offsets[row.tied_to or row.key]) for row in named]
    text = json.dumps(head, separators=(",", ":"))[:-1] + _START + ",\n".join(lines) + _END
    return _parse(text, Strict("a new manifest")), layout


_make_once = lru_cache(maxsize=64)(_make)


def table_text(value: Json) -> str:
    """The text of a table out of its JSON, such as a migration gives; whether it is one is for `table_of` to say."""
    if not isinstance(value, dict) or not isinstance(value.get("arrays"), list):
        return json.dumps(value)
    head = json.dumps({name: value[name] for name in value if name != "arrays"}, separators=(",", ":"))
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value["arrays"])
    return head[:-1] + _START + rows + _END


def _line(row: Row, offset: int) -> str:
    shape = ",".join(map(str, row.shape))
    return f'[{json_text(row.key)},"{row.dtype}",[{shape}],"{row.role}",{offset}]'


def _parse(text: str, strict: Strict) -> Table:
    if text == NO_ARRAYS:
        return Table("", None, {}, {}, {}, text)
    head, start, lines = text.partition(_START)
    if not start or not lines.endswith(_END):
        strict.fail("file", "null, or an object whose arrays stand last, a line each", found="another layout")
    backend, name, size, frame = strict.fields(strict.parse(head + "}"), "file", _FIELDS)
    if not _FILE_NAME.fullmatch(strict.text(name, "file.name")):
        strict.fail("file.name", "the name of an array file, such as state.h5", value=name)
    strict.integer(size, "file.size", low=1, high=MAX_INTEGER)
    strict.digest(frame, "file.frame", DIGEST_DIGITS)
    extents: dict[str, Extent] = {}
    roles: dict[str, Role] = {}
    if (count := lines.count("\n")) > _MAX_ARRAYS:
        strict.fail("file.arrays", f"at most {_MAX_ARRAYS} arrays in one component", found=f"{count}")
    rows = lines.removesuffix(_END).split(",\n")
    for index, line in enumerate(rows):
        row = strict.parse(line)
        key, dtype, shape, role, offset = strict.items(row, f"file.arrays.{index}", count=len(Row._fields))
        place = f"file.arrays.{require_key(key, f'file.arrays.{index}', strict)}"
        extents[key] = _extent(key, dtype, shape, offset, place, size, strict)
        roles[key] = cast(Role, strict.choice(role, f"{place}.role", ROLES))
    if not extents or list(extents) != sorted(extents) or len(extents) != len(rows):
        strict.fail("file.arrays", "arrays sorted by key, each once", found="another order, or none")
    tied = _tied(extents, roles, strict)
    stored = sorted((each for each in extents.values() if each.key not in tied), key=lambda each: each.offset)
    file = ArrayFile(name, size, frame, tuple(stored))
    return Table(strict.text(backend, "file.backend"), file, extents, roles, tied, text)


def require_key(value: Json, place: str, strict: Strict) -> str:
    """A percent-escaped key of at most `MAX_DEPTH` names."""
    key = strict.text(value, place)
    if not _TAME_KEY.fullmatch(key) and not _is_canonical(key):
        strict.fail(place, "a percent-escaped key", value=key)
    if key.count("/") >= MAX_DEPTH:
        strict.fail(place, f"a key of at most {MAX_DEPTH} names", value=key)
    return key


def _is_canonical(key: str) -> bool:
    try:
        return join(*split(key)) == key
    except UnicodeDecodeError:
        return False


def _extent(key: str, dtype: Json, shape: Json, offset: Json, place: str, size: int, strict: Strict) -> Extent:
    lengths = tuple(strict.integer(length, f"{place}.shape") for length in strict.items(shape, f"{place}.shape"))
    if len(lengths) > _MAX_RANK:
        strict.fail(f"{place}.shape", f"at most {_MAX_RANK} dimensions", found=f"{len(lengths)}")
    itemsize = storage_dtype(strict.choice(dtype, f"{place}.dtype", DTYPES.keys())).itemsize
    nbytes = prod(lengths) * itemsize
    position = strict.integer(offset, f"{place}.offset")
    if position + nbytes > size or position % ALIGNMENT:
        strict.fail(
            f"{place}.offset",
            f"a multiple of {ALIGNMENT} that leaves room for {nbytes} bytes in a file of {size} bytes",
            value=offset,
        )
    if not nbytes and position:
        strict.fail(f"{place}.offset", "0 for an array without elements", value=offset)
    if not nbytes and not is_countable(lengths, itemsize):
        strict.fail(f"{place}.shape", "lengths that numpy can count, also beside a 0", value=shape)
    return Extent(key, dtype, lengths, position, nbytes)


def _tied(extents: Mapping[str, Extent], roles: Mapping[str, Role], strict: Strict) -> dict[str, str]:
    """Further key -> first key of one place in the file; arrays that lie over each other otherwise are refused."""
    tied: dict[str, str] = {}
    before = Extent("", "", (), 0, 0)
    for each in sorted(extents.values(), key=lambda each: (each.offset, roles[each.key], each.key)):
        if not each.length:
            continue
        if each[1:] == before[1:]:
            tied[each.key] = before.key
        elif each.offset < before.offset + before.length:
            strict.fail("file.arrays", "arrays apart from each other", found=f"{before.key} and {each.key} overlap")
        else:
            before = each
    return tied
