"""Files of msgpack with arrays as the package msgpack_numpy writes them: plain numbers of checked size only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlpipe.errors import MissingDependencyError, UnsafePayloadError
from rlpipe.importers.restricted.numpy_names import DtypeToken, checked_array
from rlpipe.importers.restricted.values import RefusedError

_MOST_BYTES = 2**31
_MOST_ITEMS = 2_000_000
_ORDERS = "<>|="
_BROKEN = (ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError)


def read_msgpack(path: Path) -> Any:
    """The value of a file that is one msgpack value; lists, dicts, text, bytes, numbers and numpy arrays.

    Raises:
        MissingDependencyError: The package msgpack is not installed.
        UnsafePayloadError: The file is broken or cut, goes on after its end, or holds more than plain values.
    """
    try:
        import msgpack
    except ImportError:
        raise MissingDependencyError("msgpack", extra="rllib", purpose=f"reading {path.name}") from None
    data = _bytes(path)
    most = min(len(data), _MOST_ITEMS)
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=False,
            object_hook=_array_or_dict,
            ext_hook=_no_extension,
            max_array_len=most,
            max_map_len=most,
            max_ext_len=0,
        )
    except (RefusedError, msgpack.UnpackException, *_BROKEN) as error:
        found = str(error) if isinstance(error, RefusedError) else f"broken msgpack ({type(error).__name__}: {error})"
        raise UnsafePayloadError(
            f"{path.name} is not read",
            expected="one whole msgpack value of plain numbers, text and arrays",
            found=found[:200],
            fix="save the checkpoint again with RLlib",
        ) from None


def _bytes(path: Path) -> bytes:
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise UnsafePayloadError(
            f"{path.name} is not read", expected=f"at most {_MOST_BYTES} bytes", found=f"{size} bytes"
        )
    return path.read_bytes()


def _no_extension(code: int, _: bytes) -> Any:
    raise RefusedError(f"a value of the extension type {code}")


def _array_or_dict(value: dict[Any, Any]) -> Any:
    """An array or scalar of msgpack_numpy; any other dict as it is."""
    is_array = value.get(b"nd", value.get("nd"))
    if type(is_array) is not bool:
        return value
    fields = {key.decode("ascii") if isinstance(key, bytes) else key: part for key, part in value.items()}
    array = _array(fields, tuple(fields.get("shape") or ()) if is_array else ())
    return array if is_array else array[()]


def _array(fields: dict[str, Any], shape: tuple[Any, ...]) -> Any:
    code, kind = _text(fields.get("type")), _text(fields.get("kind", ""))
    if kind or code[:1] not in _ORDERS:
        raise RefusedError(f"an array of dtype {code[:40]!r} and kind {kind[:40]!r}, which is not plain numbers")
    dtype = DtypeToken(code[1:])
    dtype.build((3, code[0], None, None, None, -1, -1, 0))
    return checked_array(fields.get("data"), dtype, shape, "C")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    if type(value) is not str:
        raise RefusedError("an array without a plain dtype")
    return value
