"""The dtypes that a state may hold, each under a name that never changes on disk."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from rlpipe.errors import ManifestError, UnsupportedStateError

DType = np.dtype[Any]

_NATIVE = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_EXTENDED = (
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)

DTYPES: MappingProxyType[str, DType] = MappingProxyType(
    {name: np.dtype(name) for name in _NATIVE} | {name: np.dtype(getattr(ml_dtypes, name)) for name in _EXTENDED}
)
"""Name on disk -> numpy dtype in memory, native byte order."""

_NAMES: MappingProxyType[DType, str] = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})


def logical_name(dtype: DType) -> str:
    """The name on disk of a dtype, whatever its byte order.

    Raises:
        UnsupportedStateError: The dtype cannot be stored.
    """
    try:
        return _NAMES[dtype if dtype in _NAMES else dtype.newbyteorder("=")]
    except (KeyError, TypeError):  # some dtypes have no byte order
        raise UnsupportedStateError(
            f"dtype {dtype} cannot be stored", expected=f"one of {', '.join(DTYPES)}", found=str(dtype)
        ) from None


def dtype_of(name: str) -> DType:
    """The numpy dtype of a name on disk.

    Raises:
        ManifestError: The name is not a known dtype.
    """
    try:
        return DTYPES[name]
    except KeyError:
        raise ManifestError("unknown dtype", expected=f"one of {', '.join(DTYPES)}", found=repr(name)) from None


def storage_dtype(name: str) -> DType:
    """The little-endian dtype whose bytes are stored: bfloat16 and float8 as unsigned integers of their width.

    Raises:
        ManifestError: The name is not a known dtype.
    """
    return _STORED[dtype_of(name)]


_STORED: MappingProxyType[DType, DType] = MappingProxyType(
    {
        dtype: (np.dtype(f"u{dtype.itemsize}") if name in _EXTENDED else dtype).newbyteorder("<")
        for name, dtype in DTYPES.items()
    }
)


def is_countable(shape: Iterable[int], itemsize: int) -> bool:
    """Whether numpy makes arrays of a shape: it refuses 2**63 bytes and more, also where a length is 0.

    Lengths of 0 are left out of its count, so that it refuses some arrays without elements.
    """
    return prod(filter(None, shape)) * itemsize < 2**63
