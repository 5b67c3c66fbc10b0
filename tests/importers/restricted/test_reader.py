"""The restricted reader gives what pickle gives for plain numbers, and runs nothing for anything else."""

import codecs
import copyreg
import io
import operator
import pickle
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import UnsafePayloadError
from rlpipe.importers.restricted.numpy_names import KNOWN
from rlpipe.importers.restricted.reader import load_next, loads
from rlpipe.importers.restricted.values import Name, Record

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read(data: bytes) -> Any:
    return loads(data, subject="it", known=KNOWN)


class Thing:
    """An object of a class that no reader knows."""

    def __init__(self) -> None:
        self.numbers = np.arange(3)
        self.name = "thing"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(value=plain, protocol=st.sampled_from(PROTOCOLS))
def test_plain_values_come_back_as_pickle_gives_them(value: Any, protocol: int) -> None:
    assert read(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "<i8", ">i8", "f2", "<f4", ">f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_arrays_come_back_as_numpy_gives_them(protocol: int, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape)) - 1).reshape(shape).astype(dtype)
    found = read(pickle.dumps(array, protocol))
    assert found.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, array, strict=dtype[0] != ">")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_layout_of_memory_comes_back(protocol: int) -> None:
    base = np.arange(24.0).reshape(2, 3, 4)
    for array in (np.asfortranarray(base), base[:, ::2], base.transpose(2, 0, 1), base[::-1]):
        np.testing.assert_array_equal(read(pickle.dumps(array, protocol)), array)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numpy_scalars_come_back(protocol: int) -> None:
    for scalar in (np.float64(1.5), np.int64(-3), np.bool_(1), np.float32(0.1), np.complex64(1 + 2j)):
        found = read(pickle.dumps(scalar, protocol))
        assert found == scalar
        assert found.dtype == scalar.dtype


def test_names_of_numpy_1_and_numpy_2_mean_the_same() -> None:
    new = pickle.dumps(np.arange(3), 3)
    old = new.replace(b"numpy._core.", b"numpy.core.")
    assert old != new
    np.testing.assert_array_equal(read(old), np.arange(3))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_of_collections_become_plain(protocol: int) -> None:
    found = read(pickle.dumps({"a": OrderedDict(x=1, y=2), "b": deque([1, 2], 5)}, protocol))
    assert found == {"a": {"x": 1, "y": 2}, "b": [1, 2]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_class_becomes_a_record_of_its_state(protocol: int) -> None:
    found = read(pickle.dumps(Thing(), protocol))
    assert isinstance(found, Record)
    assert found.class_path.endswith("test_reader.Thing")
    assert found.attribute("name") == "thing"
    np.testing.assert_array_equal(found.attribute("numbers"), np.arange(3))
    assert found.attribute("absent") is None


def test_a_masked_array_is_a_record_and_no_array() -> None:
    assert read(pickle.dumps(np.ma.masked_array([1.0], [True]))).class_path == "numpy.ma.core._mareconstruct"


def test_functions_and_classes_stay_names() -> None:
    assert read(pickle.dumps([len, OrderedDict])) == [Name("builtins", "len"), Name("collections", "OrderedDict")]


def test_shared_parts_stay_shared_and_cycles_end() -> None:
    part: list[Any] = []
    part.append(part)
    found = read(pickle.dumps((part, part)))
    assert found[0] is found[1]
    assert found[0][0] is found[0]


def test_several_pickles_follow_each_other() -> None:
    stream = io.BytesIO(pickle.dumps(1) + pickle.dumps("two") + b"rest")
    assert load_next(stream, subject="it", known=KNOWN) == 1
    assert load_next(stream, subject="it", known=KNOWN) == "two"
    assert stream.read() == b"rest"


class Call:
    """Pickles to a call of any function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


def nested(depth: int) -> bytes:
    return b"]" * depth + b"a" * (depth - 1) + b"."


def memo_bomb(levels: int) -> bytes:
    """A list of ten times the same list, of ten times ...: few bytes, 10**levels paths."""
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value] * 10
    return pickle.dumps(value)


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def array_call(shape: bytes, data: bytes, dtype: bytes = b"f4") -> bytes:
    """_frombuffer(data, dtype, shape, "C") with parts of one's own choosing."""
    made = b"cnumpy\ndtype\n(" + text(dtype.decode()) + b"\x89\x88tR"
    return b"\x80\x02cnumpy._core.numeric\n_frombuffer\n(" + data + made + shape + text("C") + b"tR."


def test_a_crafted_array_with_honest_parts_is_read() -> None:
    np.testing.assert_array_equal(read(array_call(b"(K\x02t", b"B\x08\0\0\0" + b"\0" * 8)), np.zeros(2, np.float32))


STRUCTURED = np.zeros(2, [("a", "f4"), ("b", "i4")])
HOSTILE = {
    "nothing": b"",
    "no pickle": b"hello",
    "cut": pickle.dumps(np.arange(9))[:-4],
    "bytes behind the end": pickle.dumps(1) + b"x",
    "two values on the stack": b"K\x01K\x02.",
    "stack underflow": b"0.",
    "tuple of too few": b"K\x01\x87.",
    "mark as a value": b"(.",
    "mark in the memo": b"(q\x00.",
    "mark in a tuple": b"(K\x01\x86.",
    "memo that is not there": b"h\x07.",
    "extension registry": b"\x80\x02\x82\x01.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "persistent id": b"\x80\x02K\x01Q.",
    "object array": pickle.dumps(np.array([{}, None], dtype=object)),
    "structured array": pickle.dumps(STRUCTURED),
    "text array": pickle.dumps(np.array(["a"])),
    "date array": pickle.dumps(np.array(["2020-01-01"], dtype="M8[D]")),
    "array larger than its bytes": array_call(b"J\x00\x00\x00\x40\x85", b"B\x04\0\0\0" + b"\0" * 4),
    "array smaller than its bytes": array_call(b"K\x01\x85", b"B\x08\0\0\0" + b"\0" * 8),
    "array of a negative size": array_call(b"J\xff\xff\xff\xff\x85", b"C\x00"),
    "array of a huge and an empty axis": array_call(b"\x8a\x09" + b"\xff" * 8 + b"\x00K\x00\x86", b"C\x00"),
    "array of an object dtype": array_call(b"K\x01\x85", b"C\x08" + b"\0" * 8, b"O8"),
    "array of a void dtype": array_call(b"K\x01\x85", b"C\x08" + b"\0" * 8, b"V8"),
    "array of a list": array_call(b"K\x01\x85", b"]"),
    "a terabyte by its length field": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "a bytearray by its length field": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
    "an unhashable name": b"}]K\x01s.",
    "a tuple as a name": b"}K\x01\x85K\x01s.",
    "items for a tuple": b")K\x01a.",
    "entries for a list": b"]K\x01K\x02s.",
    "a state for a number": b"K\x01}b.",
    "a state for a name": b"cbuiltins\nlen\n}b.",
    "a call of a number": b"K\x01)R.",
    "a call without a tuple": b"cbuiltins\nlen\nK\x01R.",
    "too deep": nested(200),
    "text as utf-16": pickle.dumps(Call(codecs.encode, "a", "utf-16")),
    "codec that runs code": pickle.dumps(Call(codecs.encode, "a", "unicode_escape")),
    "bytes by a count": pickle.dumps(Call(bytes, 2**40)),
    "ordered dict of a text": b"ccollections\nOrderedDict\n(S'ab'\ntR.",
    "dotted name into a module": b"\x80\x04\x8c\x05numpy\x8c\x0fcore.os.systems\x93\x8c\x02ls\x85R1.",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_bytes_are_refused(name: str) -> None:
    with pytest.raises(UnsafePayloadError) as caught:
        read(HOSTILE[name])
    assert caught.value.subject == "it is not read"
    assert caught.value.found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_called(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    calls = [
        Call(exec, f"open({str(mark)!r}, 'w')"),
        Call(open, str(mark), "w"),
        Call(operator.methodcaller("touch"), mark),
        Call(copyreg._reconstructor, Path, object, None),  # type: ignore[attr-defined]
    ]
    for call in calls:
        try:
            found = read(pickle.dumps(call, protocol))
        except UnsafePayloadError:
            continue
        assert isinstance(found, Record)
    assert not mark.exists()


def test_a_memo_bomb_is_a_small_value() -> None:
    start = time.perf_counter()
    found = read(memo_bomb(30))
    assert time.perf_counter() - start < 1.0
    assert len(found) == 10
    assert found[0] is found[9]


def test_copies_are_paid_for() -> None:
    """One long text, encoded again and again, would take the square of the file's size."""
    call = b"c_codecs\nencode\n(h\x00h\x01tR0"
    data = b"\x80\x02" + text("x" * 1_000_000) + b"q\x00" + text("latin1") + b"q\x01" + call * 100_000 + b"00N."
    with pytest.raises(UnsafePayloadError, match="copies"):
        read(data)


@given(data=st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    with suppress(UnsafePayloadError):
        read(data)


@given(at=st.integers(0, 10_000), new=st.integers(0, 255))
def test_a_changed_byte_raises_nothing_else(at: int, new: int) -> None:
    data = bytearray(pickle.dumps([Thing(), np.arange(4.0), np.float64(2.0), {"a": (1, b"2")}]))
    data[at % len(data)] = new
    with suppress(UnsafePayloadError):
        read(bytes(data))
