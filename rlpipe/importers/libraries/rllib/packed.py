"""Arrays as RLlib packs them into text: base64 of a compressed .npy file (ray/rllib/utils/serialization.py)."""

from __future__ import annotations

import base64
import io
import math
import zlib
from typing import Any

import numpy as np
from numpy.lib import format as npy

from rlpipe.snapshot.state import Array

_MOST_BYTES = 64 * 2**20
_KINDS = "biuf"


def unpacked(text: Any) -> Array:
    """The array in a text; plain numbers only, of exactly the size that the text has bytes for.

    Raises:
        ValueError: The text is none of these; says why.
    """
    if not isinstance(text, (str, bytes)):
        raise ValueError(f"a {type(text).__name__}, not a text")
    try:
        return _array(_inflated(base64.b64decode(text, validate=True)))
    except (zlib.error, SyntaxError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"a broken array ({type(error).__name__}: {error})"[:120]) from None


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    raw = inflater.decompress(data, _MOST_BYTES)
    if not inflater.eof:
        raise ValueError(f"an array that is cut, or larger than {_MOST_BYTES} bytes")
    return raw


def _array(raw: bytes) -> Array:
    stream = io.BytesIO(raw)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array in another version of .npy than 1.0")
    shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
    body = raw[stream.tell() :]
    if dtype.kind not in _KINDS or math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"{len(body)} bytes for an array of {dtype} {shape}")
    flat = np.frombuffer(body, dtype) if body else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")
