"""Weights saved by torch, read without torch: the zip of torch >= 1.6, and the row of pickles before it.

The file's pickle only says which storage, offset, shape and strides a tensor has. Storages are raw numbers; where they
lived (CUDA, MPS ...) does not matter here. Format: torch/serialization.py.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from rlpipe.errors import UnsafePayloadError
from rlpipe.importers.restricted.archive import Archive, is_zip
from rlpipe.importers.restricted.numpy_names import KNOWN, checked_shape
from rlpipe.importers.restricted.reader import load_next, loads
from rlpipe.importers.restricted.values import Known, Name, RefusedError
from rlpipe.snapshot.state import Array

_DType: TypeAlias = np.dtype[Any]
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES: Mapping[str, Any] = MappingProxyType(
    {"Double": np.float64, "Float": np.float32, "Half": np.float16, "BFloat16": ml_dtypes.bfloat16}
    | {"Long": np.int64, "Int": np.int32, "Short": np.int16, "Char": np.int8, "Byte": np.uint8, "Bool": np.bool_}
    | {"ComplexFloat": np.complex64, "ComplexDouble": np.complex128, "Untyped": np.uint8}
)
"""Storage class of torch, without "Storage" -> dtype."""

_DTYPES: Mapping[str, Any] = MappingProxyType(
    {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    | {"int64": np.int64, "int32": np.int32, "int16": np.int16, "int8": np.int8, "bool": np.bool_}
    | {"uint64": np.uint64, "uint32": np.uint32, "uint16": np.uint16, "uint8": np.uint8}
    | {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
)
"""torch.<name> -> dtype."""


@dataclass(frozen=True, slots=True)
class _Storage:
    """Raw numbers of a file, and the dtype that the class of the storage names."""

    raw: bytes
    dtype: _DType


_Fetch = Callable[[str, _DType], bytes]


def read_torch(data: bytes, *, subject: str) -> Any:
    """What `torch.save` wrote: plain values, with each tensor as a read-only numpy array.

    Tensors that shared a storage share memory here too. Kinds of tensors that are not plain numbers stay records.

    Raises:
        UnsafePayloadError: The bytes are no torch file, are cut, or hold more than numbers.
        ForeignFormatError: The zip around them is damaged.
    """
    return _read_zip(data, subject) if is_zip(data) else _read_legacy(data, subject)


def _read_zip(data: bytes, subject: str) -> Any:
    archive = Archive(io.BytesIO(data), subject=subject)
    root = _root(archive, subject)
    foreign_order = _byte_order(archive, root, subject) != sys.byteorder
    raw: dict[str, bytes] = {}

    def fetch(key: str, dtype: _DType) -> bytes:
        if key not in raw:
            found = archive.read(f"{root}data/{key}")
            raw[key] = np.frombuffer(found, dtype).byteswap().tobytes() if foreign_order else found
        return raw[key]

    return loads(archive.read(f"{root}data.pkl"), subject=subject, known=_TENSORS, persistent=_storages(fetch))


def _byte_order(archive: Archive, root: str, subject: str) -> str:
    """The order of the bytes of its numbers; files of older versions do not say it, and are little-endian."""
    name = f"{root}byteorder"
    order = archive.read(name) if name in archive.names else b"little"
    if order not in (b"little", b"big"):
        raise _not_torch(subject, f"numbers of the byte order {order[:20]!r}")
    return order.decode()


def _root(archive: Archive, subject: str) -> str:
    """The folder inside the zip that holds everything, with its slash."""
    roots = [name.removesuffix("data.pkl") for name in archive.names if name.endswith("/data.pkl")]
    if len(roots) != 1 or f"{roots[0]}constants.pkl" in archive.names:
        raise _not_torch(subject, "a TorchScript program" if roots else "a zip file without data.pkl")
    return roots[0]


def _read_legacy(data: bytes, subject: str) -> Any:
    """Magic number, protocol version, system facts, the object, the keys of its storages, and then their numbers.

    The object is read twice: once for the storages that it names, and again when their numbers are known.
    """
    stream = io.BytesIO(data)
    head = [load_next(stream, subject=subject, known=KNOWN)]
    if head[0] != _LEGACY_MAGIC:
        raise _not_torch(subject, "a pickle of something else")
    head += [load_next(stream, subject=subject, known=KNOWN) for _ in range(2)]
    start = stream.tell()
    dtypes: dict[str, _DType] = {}

    def note(key: str, dtype: _DType) -> bytes:
        dtypes[key] = dtype
        return b""

    load_next(stream, subject=subject, known=_UNBUILT, persistent=_storages(note))
    keys = load_next(stream, subject=subject, known=KNOWN)
    raw = _legacy_numbers(stream, keys, dtypes, subject)
    stream.seek(start)
    return load_next(stream, subject=subject, known=_TENSORS, persistent=_storages(lambda key, _: raw[key]))


def _legacy_numbers(stream: io.BytesIO, keys: Any, dtypes: Mapping[str, _DType], subject: str) -> dict[str, bytes]:
    """Key -> the numbers of its storage: a count of eight bytes, then as many elements, in the order of the keys."""
    if type(keys) is not list or sorted(map(str, keys)) != sorted(dtypes):
        raise _not_torch(subject, "storages other than those that its tensors name")
    raw = {}
    for key in keys:
        count = int.from_bytes(stream.read(8), "little")
        raw[key] = stream.read(min(count * dtypes[key].itemsize, stream.getbuffer().nbytes))
        if len(raw[key]) != count * dtypes[key].itemsize:
            raise _not_torch(subject, f"a cut file: storage {key} should have {count} elements")
    if stream.read(1):
        raise _not_torch(subject, "more bytes after its last storage")
    return raw


def _not_torch(subject: str, found: str) -> UnsafePayloadError:
    return UnsafePayloadError(
        f"{subject} does not hold weights that torch.save wrote",
        expected="a state dict written by torch.save",
        found=found,
        fix="save the model again, or copy the file again",
    )


def _storages(fetch: _Fetch) -> Callable[[Any], _Storage]:
    """What a persistent id stands for: ("storage", class, key, location, elements[, view])."""

    def storage(argument: Any) -> _Storage:
        if not isinstance(argument, tuple) or len(argument) < 5 or argument[0] != "storage":
            raise RefusedError("a persistent id that is no storage")
        kind, key = argument[1], argument[2]
        if not isinstance(kind, Name) or type(key) is not str or any(view is not None for view in argument[5:]):
            raise RefusedError("a storage of an unknown form")
        name = kind.name.removesuffix("Storage")
        if kind.module not in ("torch", "torch.storage", "torch.cuda") or name not in _STORAGES:
            raise RefusedError(f"a storage of the class {kind.path}")
        dtype = np.dtype(_STORAGES[name])
        return _Storage(fetch(key, dtype), dtype)

    return storage


def _rebuild_tensor(args: tuple[Any, ...]) -> Any:
    """(storage, offset, shape, strides, ...): _rebuild_tensor and _rebuild_tensor_v2."""
    if len(args) < 4 or not isinstance(args[0], _Storage):
        raise RefusedError("a tensor without a storage")
    storage, offset, shape, strides = args[:4]
    return _view(storage, storage.dtype, offset, checked_shape(shape), checked_shape(strides))


def _rebuild_typed(args: tuple[Any, ...]) -> Any:
    """(storage, offset, shape, strides, gradient, hooks, dtype, ...): _rebuild_tensor_v3."""
    if len(args) < 7 or not isinstance(args[0], _Storage) or not isinstance(args[6], Name):
        raise RefusedError("a tensor without a storage or dtype")
    if args[6].module != "torch" or args[6].name not in _DTYPES:
        raise RefusedError(f"a tensor of the dtype {args[6].path}")
    dtype = np.dtype(_DTYPES[args[6].name])
    return _view(args[0], dtype, args[1], checked_shape(args[2]), checked_shape(args[3]))


def _view(storage: _Storage, dtype: _DType, offset: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """A view of a storage; offset and strides count elements. Every element lies inside, and none is shown twice."""
    available = len(storage.raw) // dtype.itemsize
    if type(offset) is not int or offset < 0 or len(shape) != len(strides):
        raise RefusedError("a tensor with a broken offset or strides")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= available or math.prod(shape) > available:
        raise RefusedError(f"a tensor of shape {shape} that reaches beyond its storage of {available} elements")
    return np.ndarray(
        shape, dtype, storage.raw, offset * dtype.itemsize, [stride * dtype.itemsize for stride in strides]
    )


def _first(args: tuple[Any, ...]) -> Any:
    if not args:
        raise RefusedError("a parameter without a tensor")
    return args[0]


_TENSORS: Known = MappingProxyType(
    {
        **KNOWN,
        ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
        ("torch._utils", "_rebuild_tensor_v3"): _rebuild_typed,
        ("torch._utils", "_rebuild_parameter"): _first,
        ("torch._utils", "_rebuild_parameter_with_state"): _first,
        ("torch", "Size"): _first,
    }
)
_UNBUILT: Known = MappingProxyType(
    {**_TENSORS, **{name: (lambda _: None) for name in _TENSORS if name[1].startswith("_rebuild_tensor")}}
)
"""The same names, with no tensor built: for the first reading of a legacy file."""
