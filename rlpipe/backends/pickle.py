"""The `pickle` backend: a plain pickle that `pickle.load` turns into a flat dict of numpy arrays, with numpy alone.

The stream is written here by hand, opcode by opcode (protocol 5, see the standard module `pickletools`), and names one
global only: `numpy.ndarray`, called with a shape, a dtype string and a bytearray. Each bytearray starts at a multiple
of 64 bytes, so that the same file can be read, or mapped, without unpickling it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import pack

from rlpipe.backends.layout import ALIGNMENT, Layout, LayoutBuilder, Slot, by_role
from rlpipe.snapshot.dtypes import storage_dtype

_HEAD = b"\x80\x05}"  # PROTO 5, EMPTY_DICT
_NDARRAY = b"\x8c\x05numpy\x8c\x07ndarray\x93\x940"  # two names, STACK_GLOBAL, MEMOIZE as number 0, POP
_MARK, _TUPLE, _REDUCE, _MEMOIZE, _SETITEM, _POP, _STOP = b"(", b"t", b"R", b"\x94", b"s", b"0", b"."
_BYTEARRAY8, _SHORT_BINBYTES = b"\x96", b"C"
_MIN_PADDING = 3
"""Bytes of an empty bytes value that is pushed and popped."""


@dataclass(frozen=True, slots=True)
class Pickle:
    """Arrays as the values of a pickled dict."""

    id: str = "pickle"
    file_name: str = "state.pkl"

    def layout(self, slots: Sequence[Slot]) -> Layout:
        """The pickle that holds these arrays, without elements and with any number of dimensions included."""
        builder = LayoutBuilder()
        builder.put(_HEAD + _NDARRAY)
        memoized = 1
        for slot in by_role(slots):
            _put_array(builder, slot)
            if slot.aliases:
                builder.put(_MEMOIZE)
            builder.put(_SETITEM)
            for alias in slot.aliases:
                builder.put(_text(alias) + _recall(memoized) + _SETITEM)
            memoized += bool(slot.aliases)
        builder.put(_STOP)
        return builder.done()


BACKEND = Pickle()


def _put_array(builder: LayoutBuilder, slot: Slot) -> None:
    """Push the key and the array: numpy.ndarray(shape, dtype, bytearray)."""
    dtype = storage_dtype(slot.dtype).str
    builder.put(_text(slot.key) + _recall(0) + _MARK + b"".join(_shape(slot.shape)) + _text(dtype))
    opcode = _BYTEARRAY8 + pack("<Q", slot.nbytes)
    builder.put(_padding(builder.size + len(opcode)) + opcode)
    builder.leave_room(slot)
    builder.put(_TUPLE + _REDUCE)


def _padding(position: int) -> bytes:
    """Opcodes without effect, so many that `position` moves on to a multiple of the alignment."""
    count = -position % ALIGNMENT
    count += ALIGNMENT if count < _MIN_PADDING else 0
    return _SHORT_BINBYTES + bytes([count - _MIN_PADDING]) + bytes(count - _MIN_PADDING) + _POP


def _shape(shape: Sequence[int]) -> Iterator[bytes]:
    """MARK, the sizes, TUPLE."""
    yield _MARK
    for size in shape:
        yield b"J" + pack("<i", size) if size < 2**31 else b"\x8a\x08" + pack("<q", size)  # BININT, LONG1
    yield _TUPLE


def _text(value: str) -> bytes:
    """A str: SHORT_BINUNICODE or BINUNICODE."""
    data = value.encode()
    return b"\x8c" + pack("<B", len(data)) + data if len(data) < 256 else b"X" + pack("<I", len(data)) + data


def _recall(index: int) -> bytes:
    """A memoized value: BINGET or LONG_BINGET."""
    return b"h" + pack("<B", index) if index < 256 else b"j" + pack("<I", index)
