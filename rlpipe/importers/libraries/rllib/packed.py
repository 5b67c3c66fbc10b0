"""Arrays as RLlib packs them into text: base64 of a compressed .npy file (ray/rllib/utils/serialization.py).

The header of the .npy is matched, not evaluated: numpy's own parser takes any Python literal and fails in many ways.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from typing import Any

import numpy as np

from rlpipe.snapshot.state import Array

_MOST_BYTES = 64 * 2**20
_START = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|][biuf]\d)', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18},? ?){0,32})\), \} *\n"
)


def unpacked(text: Any) -> Array:
    """The array in a text; plain numbers only, of exactly the size that the text has bytes for.

    Raises:
        ValueError: The text is none of these; says why.
    """
    try:
        return _array(_inflated(base64.b64decode(text, validate=True)))
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a broken array ({type(error).__name__}: {error})"[:120]) from None


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    raw = inflater.decompress(data, _MOST_BYTES)
    if not inflater.eof:
        raise ValueError(f"an array that is cut, or larger than {_MOST_BYTES} bytes")
    return raw


def _array(raw: bytes) -> Array:
    length = int.from_bytes(raw[8:10], "little")
    header, body = _HEADER.fullmatch(raw[10 : 10 + length]), raw[10 + length :]
    if not raw.startswith(_START) or header is None:
        raise ValueError("no .npy of version 1.0 that holds plain numbers")
    dtype = np.dtype(header["dtype"].decode())
    shape = tuple(map(int, re.findall(rb"\d+", header["shape"])))
    if math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"{len(body)} bytes for an array of {dtype} {shape}")
    flat = np.frombuffer(body, dtype) if body else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if header["fortran"] == b"True" else "C")
