"""Pickles of dicts of arrays: read as pickle reads them, with nothing in them called."""

from __future__ import annotations

import codecs
import copyreg
import io
import os
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers import ImportedFile, recognise
from rlpipe.importers.libraries.pickle_arrays import Options, read
from rlpipe.snapshot import ties
from rlpipe.snapshot.state import State, arrays, equal
from tests.checkpoint.components import policy
from tests.conformance.importer_suite import FileSuite
from tests.fuzz.limits import outcomes
from tests.importers.pickles import pickled_as

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
STATE: State = {
    "encoder": {"0": {"weight": np.arange(6, dtype="f4").reshape(2, 3), "none": np.zeros((0, 3))}},
    "flag": np.array([True, False]),
    "count": 3,
    "history": [1, (2.5, None), np.arange(3)],
    "name": "ünï",
}


@pytest.fixture(scope="module", autouse=True)
def examples(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pickles")
    for protocol in PROTOCOLS:
        (folder / f"p{protocol}.pkl").write_bytes(pickle.dumps(STATE, protocol))
    TestPickleArrays.folder = folder


class TestPickleArrays(FileSuite):
    importer_id = "pickle_arrays"
    libraries = ("pickle5", "cloudpickle")
    folder: Path

    @staticmethod
    def examples() -> Mapping[str, Path]:
        return {path.stem: path for path in sorted(TestPickleArrays.folder.glob("*.pkl"))}

    def test_holds_what_was_written(self) -> None:
        for path in self.examples().values():
            assert equal(self.read(path).snapshot.state, STATE)


def imported(tmp_path: Path, value: Any, protocol: int = 4) -> ImportedFile:
    (tmp_path / "f").write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return read(tmp_path / "f", Options())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scalars_orders_and_layouts(tmp_path: Path, protocol: int) -> None:
    base = np.arange(24.0).reshape(2, 3, 4)
    value = OrderedDict(a=np.float32(1.5), b=base.astype(">f8"), c=np.asfortranarray(base), d=base[::-1, :, ::2])
    found = imported(tmp_path, value, protocol).snapshot.state
    assert recognise(tmp_path / "f") == "pickle_arrays"
    for name, known in value.items():
        np.testing.assert_array_equal(found[name], known)
        assert found[name].dtype.isnative


def test_an_array_under_two_names_is_one(tmp_path: Path) -> None:
    shared = np.arange(3.0)
    assert ties(imported(tmp_path, {"a": shared, "b": [shared]}).snapshot) == (("a", "b/0"),)


def test_numbers_for_names(tmp_path: Path) -> None:
    found = imported(tmp_path, {"state": {0: np.arange(3), 12: np.arange(2)}})
    assert sorted(arrays(found.snapshot.state)) == ["state/0", "state/12"]
    assert any("whole numbers" in note for note in found.report.notes)


def test_an_array_file_of_rlpipe_without_its_manifest(tmp_path: Path) -> None:
    path = write_checkpoint(policy(1), tmp_path / "ckpt", backend="pickle")
    found = read(path / "state.pkl", Options())
    assert recognise(path / "state.pkl") == "pickle_arrays"
    known = arrays(policy(1).state)
    assert sorted(found.snapshot.state) == sorted(known)
    assert all(equal(found.snapshot.state[key], known[key]) for key in known)


def test_what_it_is_says_itself(tmp_path: Path) -> None:
    snapshot = read(next(iter(TestPickleArrays.examples().values())), Options()).snapshot
    assert equal(Arrays.from_checkpoint(write_checkpoint(snapshot, tmp_path / "ckpt")).state, STATE)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([np.arange(3)], "a list"),
        (np.arange(3), "a ndarray"),
        ({"a": 1}, "none"),
        ({"a": np.arange(3), "b": {"c": [1, {2, 3}]}}, "b/c/1: an object of builtins.set"),
        ({"a": np.arange(3), "b": len}, "b: the name builtins.len"),
        ({"a": np.arange(3), (1, 2): 3}, "a dict name of type tuple"),
        ({"a": np.arange(3), None: 3}, ": a name of type NoneType"),
        ({"a": np.arange(3), 1: 2, "1": 3}, "as text and as a number"),
        ({"a": np.ma.masked_array([1.0], [True])}, "a: an object of numpy.ma.core._mareconstruct"),
    ],
)
def test_what_is_no_dict_of_arrays_is_named(tmp_path: Path, value: Any, found: str) -> None:
    with pytest.raises((ForeignFormatError, UnsafePayloadError)) as caught:
        imported(tmp_path, value)
    assert found in caught.value.found


def test_all_objects_are_named(tmp_path: Path) -> None:
    value = {"a": np.arange(3), "b": {1}, "c": [open, {2}]}
    with pytest.raises(ForeignFormatError) as caught:
        imported(tmp_path, value)
    assert [part in caught.value.found for part in ("b: ", "c/0: ", "c/1: ")] == [True, True, True]


class Call:
    """Pickles to a call of any function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_code_is_run(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    for call in (Call(exec, f"open({str(mark)!r}, 'w')"), Call(open, str(mark), "w"), Call(os.mkdir, str(mark))):
        with pytest.raises((ForeignFormatError, UnsafePayloadError)):
            imported(tmp_path, {"a": np.arange(3), "b": call}, protocol)
        recognise(tmp_path / "f")
    assert not mark.exists()


ARRAY = pickle.dumps(np.arange(3), 2)[2:-1]
"""The opcodes that leave an array on the stack."""


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def entry(body: bytes) -> bytes:
    """A dict of an honest array and of what some opcodes leave on the stack."""
    return b"\x80\x04}" + text("good") + ARRAY + b"s" + text("bad") + body + b"s."


def with_dtype(code: str, state: bytes = b"") -> bytes:
    made = b"cnumpy\ndtype\n" + text(code) + b"\x89\x88\x87R" + state
    return b"cnumpy._core.numeric\n_frombuffer\n(" + b"C\x08" + bytes(8) + made + b"K\x01\x85" + text("C") + b"tR"


def memo_bomb() -> bytes:
    value: list[Any] = [1]
    for _ in range(30):
        value = [value] * 10
    return pickle.dumps({"good": np.arange(3), "bad": value})


def long_name(calls: int) -> bytes:
    """One long name, of which each call would make a record with a copy."""
    return entry(b"(c" + b"m" * 10**6 + b"\nx\nq\x00" + b"h\x00)R" * calls + b"l")


def out_of_bounds() -> bytes:
    """The dtype whose field lies behind its item: numpy itself loads it, and reads what lies in memory there."""
    fields = pickle.dumps({"x": (np.dtype("f8"), 2**20)}, 2)[2:-1]
    state = b"(K\x03" + text("|") + b"N" + text("x") + b"\x85" + fields + b"K\x08K\x01K\x00tb"
    return entry(with_dtype("V8", state))


HOSTILE: dict[str, bytes] = {
    "extension registry 1": entry(b"\x82\x01"),
    "extension registry 2": entry(b"\x83\x01\x01"),
    "extension registry 4": entry(b"\x84\x01\x01\x01\x01"),
    "memo bomb": memo_bomb(),
    "endless lists": b"\x80\x04}" + text("numpy") + b"]" * 5_000_000 + b".",
    "lists in a list": entry(b"(" + b"]" * 2_000_000 + b"l"),
    "dicts in a list": entry(b"(" + b"}" * 2_000_000 + b"l"),
    "records in a list": entry(b"(cx\ny\nq\x00" + b"h\x00)R" * 700_000 + b"l"),
    "memo without end": entry(b"N" + b"\x94" * 3_000_000),
    "a record of a record": entry(b"cx\ny\n" + b")R" * 300_000),
    "a long name again and again": long_name(10_000),
    "a long whole number as a name": entry(
        b"}" + b"\x8b" + struct.pack("<I", 2**20) + b"\x01" * 2**20 + b"q\x00N" + b"sh\x00N" * 50_000 + b"s"
    ),
    "a text encoded again and again": entry(
        b"("
        + text("x" * 10**6)
        + b"q\x00"
        + text("latin1")
        + b"q\x01"
        + b"c_codecs\nencode\n(h\x00h\x01tR" * 9_999
        + b"l"
    ),
    "a shape of long whole numbers": entry(
        b"cnumpy\nndarray\n((\x8b"
        + struct.pack("<I", 2**20)
        + b"\x01" * 2**20
        + b"q\x00"
        + b"h\x00" * 30
        + b"t"
        + text("<f4")
        + b"C\x00tR"
    ),
    "dtype out of bounds": out_of_bounds(),
    "object dtype": entry(with_dtype("O8")),
    "void dtype": entry(with_dtype("V8")),
    "dtype of a long code": entry(with_dtype("f" * 10**6)),
    "date dtype": entry(with_dtype("M8")),
    "a terabyte to reconstruct": entry(
        b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n\x8a\x06"
        + (2**40).to_bytes(6, "little")
        + b"\x85C\x01btR"
    ),
    "a terabyte of ndarray": entry(
        b"cnumpy\nndarray\n(\x8a\x06" + (2**40).to_bytes(6, "little") + b"\x85" + text("<f4") + b"tR"
    ),
    "a terabyte by its length field": b"\x80\x04}" + text("numpy") + b"\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "a bytearray by its length field": b"\x80\x05}" + text("numpy") + b"\x96" + struct.pack("<Q", 2**40) + b"x.",
    "object array": pickle.dumps({"a": np.array([{}, None], dtype=object)}),
    "structured array": pickle.dumps({"a": np.zeros(2, [("a", "f4")])}),
    "text array": pickle.dumps({"a": np.array(["a"])}),
    "dotted name": entry(b"\x8c\x05numpy\x8c\x0fcore.os.systems\x93\x8c\x02ls\x85R"),
    "attributes of a function": entry(b"cnumpy._core.multiarray\n_reconstruct\n}" + text("a") + b"K\x01sb"),
    "bytes by a count": pickle.dumps({"a": np.arange(3), "b": Call(bytes, 2**40)}),
    "codec that runs code": pickle.dumps({"a": np.arange(3), "b": Call(codecs.encode, "a", "unicode_escape")}),
    "copyreg": pickle.dumps({"a": np.arange(3), "b": Call(copyreg._reconstructor, Path, object, None)}),  # type: ignore[attr-defined]
    "void scalar": pickle.dumps({"a": np.arange(3), "b": np.zeros(1, "V8")[0]}),
    "random state": pickle.dumps({"a": np.arange(3), "b": np.random.RandomState(0)}),
    "bytes behind the end": pickle.dumps({"a": np.arange(3)}) + b"x.",
    "cut": pickle.dumps({"a": np.arange(300)})[:-200],
    "too deep": entry(b"]" * 200 + b"a" * 199),
    "a list in itself": entry(b"]q\x05h\x05a"),
    "a tuple in itself": entry(b"(]q\x05(h\x05tq\x06at"),
    "out-of-band buffer": entry(b"\x97"),
    "persistent id": entry(b"K\x01Q"),
    "a state that another class set": pickled_as("evil.Thing", {"numpy": 1}),
}


def many_views() -> bytes:
    """The same bytes as arrays of many shapes: each is small to say, and large on a disk."""
    stream = io.BytesIO()
    stream.write(b"\x80\x05}" + text("numpy") + b"(" + b"\x8e" + struct.pack("<Q", 10**6) + bytes(10**6) + b"q\x00")
    for _ in range(1000):
        stream.write(b"cnumpy\nndarray\n(\x8a\x04" + struct.pack("<i", 10**6) + b"\x85" + text("|u1") + b"h\x00tR")
    stream.write(b"ls.")
    return stream.getvalue()


HOSTILE["one million bytes as a thousand arrays"] = many_views()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("hostile")
    paths = []
    for number, content in enumerate(HOSTILE.values()):
        paths.append(folder / str(number))
        paths[-1].write_bytes(content)
    return dict(zip(HOSTILE, outcomes("pickle", paths), strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused_in_time_and_memory(hostile: dict[str, Any], name: str) -> None:
    outcome = hostile[name]
    assert outcome.error in ("UnsafePayloadError", "ForeignFormatError"), outcome
    assert outcome.is_typed, outcome
