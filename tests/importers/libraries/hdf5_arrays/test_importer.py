"""HDF5 files without a manifest: plain ones are read as h5py reads them, all others are refused in words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rlpipe.checkpoint.arrays import Arrays
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import ForeignFormatError, UnsafePayloadError
from rlpipe.importers import ImportedFile, recognise
from rlpipe.importers.libraries.hdf5_arrays import Options, read
from rlpipe.snapshot import Snapshot, ties
from rlpipe.snapshot.state import State, arrays, equal
from tests.checkpoint.components import policy
from tests.conformance.importer_suite import FileSuite
from tests.fuzz.limits import outcomes
from tests.importers.libraries.hdf5_arrays.hostile import HOSTILE, SECRET

STATE: State = {
    "deep": {"er": {"weight": np.arange(6, dtype="f4").reshape(2, 3), "none": np.zeros((0, 3))}},
    "flag": np.array([True, False]),
    "complex": np.array(1 + 2j, "c8"),
    "counter": np.array(2**40, "i8"),
}


@pytest.fixture(scope="module", autouse=True)
def examples(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("hdf5")
    for name, libver in (("old", "earliest"), ("new", "latest")):
        with h5py.File(folder / f"{name}.h5", "w", libver=libver) as file:
            fill(file, STATE)
    TestHdf5Arrays.folder = folder


def fill(group: Any, state: State) -> None:
    for name, value in state.items():
        if isinstance(value, dict):
            fill(group.create_group(name), value)
        else:
            group[name] = value


class TestHdf5Arrays(FileSuite):
    importer_id = "hdf5_arrays"
    libraries = ("h5py",)
    flips = 6  # each takes a process
    folder: Path

    @staticmethod
    def examples() -> Mapping[str, Path]:
        return {path.stem: path for path in sorted(TestHdf5Arrays.folder.glob("*.h5"))}

    def test_holds_what_was_written(self) -> None:
        for path in self.examples().values():
            assert equal(self.read(path).snapshot.state, STATE)


def found_in(path: Path) -> ImportedFile:
    return read(path, Options())


def state_of(path: Path) -> State:
    return found_in(path).snapshot.state


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "<i2", ">i4", "<i8", "u1", ">u2", "u4", "u8", "f2", ">f4", "f8", "c8", ">c16"]
)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_every_number_is_what_h5py_reads(tmp_path: Path, dtype: str, libver: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    with h5py.File(tmp_path / "f", "w", libver=libver) as file:
        file["x"] = values
    with h5py.File(tmp_path / "f") as file:
        known = file["x"][()]
    found = state_of(tmp_path / "f")["x"]
    assert found.dtype == known.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, known)


def test_names_groups_and_ties(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f", "w", track_order=True, userblock_size=1024) as file:
        file["a/b.c/ünï"] = np.arange(3.0)
        file["a/%2F"] = file["a/b.c/ünï"]
        file.create_group("empty")
    assert recognise(tmp_path / "f") == "hdf5_arrays"
    snapshot = found_in(tmp_path / "f").snapshot
    assert snapshot.state["empty"] == {}
    assert sorted(snapshot.state["a"]) == ["%2F", "b.c"]
    assert ties(snapshot) == (("a/%252F", "a/b.c/ünï"),)


def test_many_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f", "w") as file:
        for index in range(3000):
            file[f"g/{index}"] = np.full(2, index)
    found = arrays(state_of(tmp_path / "f"))
    assert len(found) == 3000
    assert found["g/2999"].tolist() == [2999, 2999]


def test_attributes_are_left_out_and_said(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f", "w") as file:
        file["a"] = np.arange(3)
        file["a"].attrs["unit"] = "m"
        file.attrs["version"] = 3
    assert [name for name, _ in found_in(tmp_path / "f").report.skipped] == ["attributes of /", "attributes of a"]


def test_an_array_file_of_rlpipe_without_its_manifest(tmp_path: Path) -> None:
    path = write_checkpoint(policy(1), tmp_path / "ckpt")
    found = found_in(path / "state.h5")
    assert arrays(found.snapshot.state).keys() == arrays(policy(1).state).keys()
    assert any("name the directory" in note for note in found.report.notes)


def test_what_it_is_says_itself(tmp_path: Path) -> None:
    snapshot: Snapshot = found_in(next(iter(TestHdf5Arrays.examples().values()))).snapshot
    assert equal(Arrays.from_checkpoint(write_checkpoint(snapshot, tmp_path / "ckpt")).state, STATE)


def test_the_environment_does_not_steer_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDF5_VOL_CONNECTOR", "nonsense")
    monkeypatch.setenv("PYTHONHASHSEED", "nonsense")
    assert state_of(next(iter(TestHdf5Arrays.examples().values())))


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n\x00" + bytes(100), b"hello" * 300])
def test_what_is_no_hdf5_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(ForeignFormatError):
        found_in(tmp_path / "f")


def test_a_file_without_arrays(tmp_path: Path) -> None:
    h5py.File(tmp_path / "f", "w").close()
    with pytest.raises(ForeignFormatError, match="no arrays"):
        found_in(tmp_path / "f")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("hostile")
    paths = [folder / name for name in HOSTILE]
    for path, (make, _) in zip(paths, HOSTILE.values(), strict=True):
        make(path)
    return dict(zip(HOSTILE, outcomes("hdf5", paths), strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_time_and_memory(hostile: dict[str, Any], name: str) -> None:
    outcome = hostile[name]
    assert outcome.error in ("UnsafePayloadError", "ForeignFormatError"), outcome
    assert outcome.is_typed, outcome
    assert HOSTILE[name][1] in outcome.text
    assert SECRET.decode() not in outcome.text


@pytest.mark.parametrize("shape", [(0, 2**60), (2**62, 0, 2**62), (0, *[2**31] * 8)])
def test_lengths_beside_an_empty_axis_that_numpy_cannot_count(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", shape=shape, dtype="f8")
    with pytest.raises(ForeignFormatError, match="no file holds"):
        read(tmp_path / "a.h5", Options())


def test_all_that_is_refused_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f", "w") as file:
        file["text"], file["link"] = "words", h5py.SoftLink("/text")
        file["sub/text"] = "more words"
    with pytest.raises(UnsafePayloadError) as caught:
        found_in(tmp_path / "f")
    assert [name in caught.value.found for name in ("link:", "sub/text:", "text:")] == [True, True, True]


@pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("while True: pass", "no end within"),
        ("import os; os.abort()", "a crash of the HDF5 library"),
        ("x = bytearray(2**28)", "more memory"),
        ("raise OSError('no')", "found: /: no"),
    ],
)
def test_a_library_that_hangs_or_crashes_ends_its_own_process_only(tmp_path: Path, body: str, found: str) -> None:
    """The library is made to do so by a package of its name on the path."""
    (tmp_path / "h5py.py").write_text(FAKE.replace("BODY", body))
    example = next(iter(TestHdf5Arrays.examples().values()))
    script = (
        "import sys; from pathlib import Path; from rlpipe.importers.libraries.hdf5_arrays import read, Options\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "try: read(Path(sys.argv[2]), Options())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(example)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(("UnsafePayloadError", "ForeignFormatError")), done
    assert found in done.stdout


FAKE = """
from types import SimpleNamespace
class Type:
    def get_class(self): return 0
    def get_size(self): return 0
h5t = SimpleNamespace(py_create=lambda *a, **k: Type(), STD_I8BE=Type(), STD_U8BE=Type())
class h5p:
    FILE_ACCESS = 0
    @staticmethod
    def create(kind):
        BODY
"""
