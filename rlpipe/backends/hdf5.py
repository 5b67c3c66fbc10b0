"""The `hdf5` backend: a plain HDF5 file in which every array is a dataset at the path of its key.

`h5py.File(path)["encoder/0/weight"][:]`, h5dump and HDFView read it. The bytes are made here, not by libhdf5, because
the library spends about 100 us on each dataset. From the "HDF5 File Format Specification Version 3.0":

    superblock, version 0                 96 bytes; names the object header of the root group
    arrays                                contiguous, 64-byte aligned: inference first, then training
    object headers, version 1             one for each dataset, then for each group, the root last

A header is a list of messages. A dataset's are dataspace, datatype, fill value and layout; a group's are link info,
group info and one hard link for each member. A tied array is one dataset with several links. There are no attributes,
no times and no creation order, so that equal arrays give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from types import MappingProxyType
from typing import TypeAlias

from rlpipe.backends.layout import Layout, LayoutBuilder, Slot, by_role
from rlpipe.errors import UnsupportedStateError
from rlpipe.snapshot.dtypes import DType, storage_dtype

Group: TypeAlias = "dict[str, Group | int]"
"""Name -> group inside, or address of a dataset's object header."""

MAX_RANK = 32
MAX_MEMBERS = 2**16 - 3
"""A header counts its messages in 16 bits; two of a group's are not links."""
MAX_NAME = 2**16 - 64
"""A message counts its bytes in 16 bits."""

_UNDEFINED = 2**64 - 1
_SUPERBLOCK_SIZE = 96
_DATASPACE, _LINK_INFO, _DATATYPE, _FILL_VALUE, _LINK, _LAYOUT, _GROUP_INFO = 1, 2, 3, 5, 6, 8, 10
_CONSTANT = 1
"""Flag of a message that never changes."""


@dataclass(frozen=True, slots=True)
class Hdf5:
    """Arrays as datasets of an HDF5 file."""

    id: str = "hdf5"
    file_name: str = "state.h5"

    def layout(self, slots: Sequence[Slot]) -> Layout:
        """The HDF5 file that holds these arrays.

        Raises:
            UnsupportedStateError: More than 32 dimensions, more than 65,533 names in one group, a name of 65 KB, or a
                key that goes on below another one.
        """
        builder = LayoutBuilder()
        builder.put(bytes(_SUPERBLOCK_SIZE))
        ordered = by_role(slots)
        for slot in ordered:
            builder.align()
            builder.leave_room(slot)
        builder.align()
        root: Group = {}
        for slot in ordered:
            header = builder.put(_dataset_header(slot, builder.offsets[slot.key]))
            for key in (slot.key, *slot.aliases):
                _add_link(root, key, header)
        address = _put_group(builder, root, "")
        builder.frame[0][:_SUPERBLOCK_SIZE] = _superblock(address, builder.size)
        return builder.done()


BACKEND = Hdf5()


def _add_link(root: Group, key: str, header: int) -> None:
    *groups, name = key.split("/")
    node: Group | int = root
    for group in groups:
        node = node.setdefault(group, {}) if isinstance(node, dict) else node
    if not isinstance(node, dict) or name in node:
        raise UnsupportedStateError(f"{key} cannot be stored", expected="keys apart", found="another key at its path")
    node[name] = header


def _put_group(builder: LayoutBuilder, group: Group, key: str) -> int:
    """Append the headers of the groups inside, then this one's; returns its address."""
    if len(group) > MAX_MEMBERS:
        raise UnsupportedStateError(
            f"{key or 'the state'} has too many names for HDF5",
            expected=f"at most {MAX_MEMBERS} in one dict",
            found=str(len(group)),
            fix="nest them, or use checkpoint=pickle",
        )
    links = {}
    for name, member in sorted(group.items()):
        path = f"{key}/{name}".lstrip("/")
        links[name] = member if isinstance(member, int) else _put_group(builder, member, path)
    return builder.put(_group_header(links, key))


def _superblock(root: int, size: int) -> bytes:
    """Version 0, addresses and lengths of 8 bytes; the symbol table entry of the root names its object header."""
    versions = pack("<8B2HI", 0, 0, 0, 0, 0, 8, 8, 0, 4, 16, 0)
    addresses = pack("<4Q", 0, _UNDEFINED, size, _UNDEFINED)
    return b"\x89HDF\r\n\x1a\n" + versions + addresses + pack("<2Q24x", 0, root)


def _header(messages: Sequence[bytes], *, links: int = 1) -> bytes:
    body = b"".join(messages)
    return pack("<BxHII4x", 1, len(messages), links, len(body)) + body


def _message(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    padding = -len(body) % 8
    return pack("<HHB3x", kind, len(body) + padding, flags) + body + bytes(padding)


def _group_header(links: Mapping[str, int], key: str) -> bytes:
    return _header([_LINK_INFO_MESSAGE, _GROUP_INFO_MESSAGE, *_link_messages(links, key)])


_LINK_INFO_MESSAGE = _message(_LINK_INFO, pack("<BBQQ", 0, 0, _UNDEFINED, _UNDEFINED))
"""No creation order; links stand in the header, not in a heap with an index."""

_GROUP_INFO_MESSAGE = _message(_GROUP_INFO, pack("<BB", 0, 0))


def _link_messages(links: Mapping[str, int], key: str) -> Iterator[bytes]:
    """Hard links with names in UTF-8; the flags say how wide the length of the name is."""
    for name, address in links.items():
        text = name.encode()
        if len(text) > MAX_NAME:
            raise UnsupportedStateError(
                f"{key or 'the state'} has a name too long for HDF5",
                expected=f"at most {MAX_NAME} bytes",
                found=f"{len(text)} bytes: {name[:40]}...",
                fix="shorten it, or use checkpoint=pickle",
            )
        head = pack("<BBBB", 1, 0x10, 1, len(text)) if len(text) < 256 else pack("<BBBH", 1, 0x11, 1, len(text))
        yield _message(_LINK, head + text + pack("<Q", address))


def _dataset_header(slot: Slot, offset: int) -> bytes:
    rank = len(slot.shape)
    if rank > MAX_RANK:
        raise UnsupportedStateError(
            f"{slot.key} has too many dimensions for HDF5",
            expected=f"at most {MAX_RANK}",
            found=str(rank),
            fix="reshape it, or use checkpoint=pickle",
        )
    size = slot.nbytes
    messages = [
        _message(_DATASPACE, pack(f"<BBB5x{rank}Q", 1, rank, 0, *slot.shape)),
        _message(_DATATYPE, _datatype(storage_dtype(slot.dtype)), flags=_CONSTANT),
        _FILL_VALUE_MESSAGE,
        _message(_LAYOUT, pack("<BBQQ", 3, 1, offset if size else _UNDEFINED, size)),
    ]
    return _header(messages, links=1 + len(slot.aliases))


_FILL_VALUE_MESSAGE = _message(_FILL_VALUE, pack("<BBBBI", 2, 2, 2, 1, 0), flags=_CONSTANT)
"""Version 2, late allocation, written if set, defined as the default: zero."""


def _datatype(dtype: DType) -> bytes:
    if dtype.kind == "b":
        return _BOOL
    if dtype.kind == "f":
        return _FLOATS[dtype.itemsize]
    if dtype.kind == "c":
        return _complex(dtype.itemsize)
    return _integer(dtype.itemsize, is_signed=dtype.kind == "i")


def _integer(size: int, *, is_signed: bool) -> bytes:
    return pack("<BBxxIHH", 0x10, 0x08 if is_signed else 0, size, 0, 8 * size)


def _float(size: int, exponent_bits: int, mantissa_bits: int, bias: int) -> bytes:
    """IEEE 754, little endian: the sign in the highest bit, then exponent, then mantissa with an implied leading 1."""
    bits = 8 * size
    head = pack("<BBBxI", 0x11, 0x20, bits - 1, size)
    return head + pack("<HHBBBBI", 0, bits, mantissa_bits, exponent_bits, 0, mantissa_bits, bias)


_FLOATS: Mapping[int, bytes] = MappingProxyType(
    {2: _float(2, 5, 10, 15), 4: _float(4, 8, 23, 127), 8: _float(8, 11, 52, 1023)}
)


def _complex(size: int) -> bytes:
    """A compound of two floats named r and i, as h5py writes and reads complex numbers."""
    part = _FLOATS[size // 2]
    members = (pack("<8sIB3x24x", name, at, 0) + part for name, at in ((b"r", 0), (b"i", size // 2)))
    return pack("<BHxI", 0x16, 2, size) + b"".join(members)


_BOOL = pack("<BHxI", 0x18, 2, 1) + _integer(1, is_signed=True) + b"FALSE\0\0\0" + b"TRUE\0\0\0\0" + bytes([0, 1])
"""An enumeration of FALSE and TRUE over int8, as h5py writes and reads booleans."""
