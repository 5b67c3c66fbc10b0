"""What the names in a pickle of numpy arrays stand for: plain numbers of checked size, and nothing else.

Numpy's own functions behind these names can be made to read out of bounds or to ask for any amount of memory by a
crafted state, so none of them is used.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.importers.restricted.machine import dict_of
from rlpipe.importers.restricted.values import Known, Name, Record, RefusedError, Token
from rlpipe.snapshot.state import Array

_CODE = re.compile(r"b1|[iu][1248]|f[248]|c(8|16)")
_MAX_DIMENSIONS = 32
_MAX_LENGTH = 2**63


class DtypeToken(Token):
    """A plain numeric dtype, little-endian until its state says otherwise."""

    def __init__(self, code: str) -> None:
        if not _CODE.fullmatch(code):
            raise RefusedError(f"an array of dtype {code[:40]!r}, which is not plain numbers")
        self.dtype = np.dtype(code)

    def build(self, state: Any) -> None:
        """Take (3, byte order, None, None, None, -1, -1, 0), and nothing that has fields or sub-arrays in it."""
        plain = isinstance(state, tuple) and len(state) >= 5 and all(part is None for part in state[2:5])
        if not plain or state[1] not in ("<", ">", "=", "|"):
            raise RefusedError("a dtype that is not plain numbers")
        self.dtype = self.dtype.newbyteorder(state[1])

    def finish(self) -> Any:
        """The dtype in native byte order."""
        return self.dtype.newbyteorder("=")


class ArrayToken(Token):
    """An array that gets its shape, dtype and bytes by a later opcode."""

    def __init__(self) -> None:
        self.array: Array | None = None

    def build(self, state: Any) -> None:
        """Take (version, shape, dtype, Fortran order, bytes)."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise RefusedError("an array without version, shape, dtype, order and bytes")
        _, shape, dtype, fortran, data = state
        raw = data.encode("latin1") if type(data) is str else data  # pickles of Python 2 hold bytes as text
        self.array = checked_array(raw, dtype, shape, "F" if fortran is True else "C")

    def finish(self) -> Any:
        """The array, read-only."""
        if self.array is None:
            raise RefusedError("an array without contents")
        return self.array


def checked_array(data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    """A read-only array over the bytes, which must be exactly as many as it needs; native byte order."""
    if not isinstance(data, (bytes, bytearray)) or not isinstance(dtype, DtypeToken) or order not in ("C", "F"):
        raise RefusedError("an array that is not plain bytes of a plain dtype")
    sizes = checked_shape((shape,) if type(shape) is int else shape)
    if math.prod(sizes) * dtype.dtype.itemsize != len(data):
        raise RefusedError(f"{len(data)} bytes for an array of {dtype.dtype} {sizes}")
    # frombuffer takes no empty buffer
    flat = np.frombuffer(data, dtype.dtype) if len(data) else np.empty(0, dtype.dtype)
    array = flat.reshape(sizes, order=order).astype(dtype.finish(), copy=False)
    array.flags.writeable = False
    return array


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The shape, if it is a tuple of few non-negative ints."""
    if not isinstance(shape, tuple) or len(shape) > _MAX_DIMENSIONS:
        raise RefusedError("a shape that is no short tuple")
    if any(type(size) is not int or not 0 <= size < _MAX_LENGTH for size in shape):
        raise RefusedError("a shape of something else than sizes")
    return shape


def _dtype(args: tuple[Any, ...]) -> Any:
    code = args[0] if args else None
    if isinstance(code, DtypeToken):
        return code
    if type(code) is not str:
        raise RefusedError("a dtype without a plain code")
    return DtypeToken(code)


def _frombuffer(args: tuple[Any, ...]) -> Any:
    """(bytes, dtype, shape, order), and for order "K" the order of the axes, which were stored as the array lay."""
    if len(args) not in (4, 5):
        raise RefusedError("an array without bytes, dtype, shape and order")
    data, dtype, shape, order, *axes = args
    if order != "K":
        return checked_array(data, dtype, shape, order)
    if len(axes) != 1 or not isinstance(shape, tuple) or sorted(checked_shape(axes[0])) != list(range(len(shape))):
        raise RefusedError("an array with a broken order of axes")
    return checked_array(data, dtype, shape, "C").transpose(axes[0])


def _reconstruct(args: tuple[Any, ...]) -> Any:
    if not args or args[0] != Name("numpy", "ndarray"):
        raise RefusedError("an array of another class than numpy.ndarray")
    return ArrayToken()


def _ndarray(args: tuple[Any, ...]) -> Any:
    """(shape, dtype with its byte order, bytes): how array files of rlpipe itself name their arrays."""
    if len(args) != 3 or type(args[1]) is not str or args[1][:1] not in ("<", ">", "|"):
        raise RefusedError("an array without shape, dtype and bytes")
    dtype = DtypeToken(args[1][1:])
    dtype.build((3, args[1][0], None, None, None, -1, -1, 0))
    return checked_array(args[2], dtype, args[0], "C")


def _scalar(args: tuple[Any, ...]) -> Any:
    if len(args) != 2:
        raise RefusedError("a scalar without dtype and bytes")
    dtype, data = args
    raw = data.encode("latin1") if type(data) is str else data
    return checked_array(raw, dtype, (), "C")[()]


def _encode(args: tuple[Any, ...]) -> Any:
    if len(args) != 2 or type(args[0]) is not str or args[1] != "latin1":
        raise RefusedError("text encoded otherwise than as latin1")
    return args[0].encode("latin1")


def _empty_bytes(args: tuple[Any, ...]) -> Any:
    if args:
        raise RefusedError("bytes made from arguments")
    return b""


def _ordered_dict(args: tuple[Any, ...]) -> Any:
    pairs = args[0] if args else []  # Python 2 gives the pairs as one list, Python 3 sets them later
    if type(pairs) is not list or any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise RefusedError("an OrderedDict that is not made from pairs")
    return dict_of([part for pair in pairs for part in pair])


def _deque(args: tuple[Any, ...]) -> Any:
    return list(args[0]) if args and type(args[0]) is list else []


def _object(args: tuple[Any, ...]) -> Any:
    if not args or not isinstance(args[0], Name):
        raise RefusedError("an object without a class")
    return Record(args[0].path)


def _numpy(module: str, name: str, stand_in: Any) -> dict[tuple[str, str], Any]:
    """Numpy 1 and numpy 2 call the same module by two names."""
    return {(f"numpy.{core}.{module}", name): stand_in for core in ("core", "_core")}


KNOWN: Known = MappingProxyType(
    {
        ("numpy", "dtype"): _dtype,
        ("numpy", "ndarray"): _ndarray,
        **_numpy("numeric", "_frombuffer", _frombuffer),
        **_numpy("multiarray", "_reconstruct", _reconstruct),
        **_numpy("multiarray", "scalar", _scalar),
        ("_codecs", "encode"): _encode,
        ("builtins", "bytes"): _empty_bytes,
        ("__builtin__", "bytes"): _empty_bytes,
        ("collections", "OrderedDict"): _ordered_dict,
        ("collections", "deque"): _deque,
        ("copyreg", "_reconstructor"): _object,
        ("copy_reg", "_reconstructor"): _object,
    }
)
"""Names of numpy-only pickles, protocols 0 to 5, numpy 1 and 2, Python 2 and 3."""
