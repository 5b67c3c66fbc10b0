from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rlpipe.backends.ranges import open_ranges, read_whole
from rlpipe.errors import IntegrityError
from tests.benchmarks.counting import counted

DATA = bytes(range(256)) * 40
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"

OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: path, "nothing"),
    "a shorter file": (lambda path: path.write_bytes(DATA[:-1]), f"{len(DATA) - 1} bytes"),
    "a longer file": (lambda path: path.write_bytes(DATA + b"x"), f"{len(DATA) + 1} bytes"),
    "an empty file": (lambda path: path.write_bytes(b""), "0 bytes"),
    "a directory": (lambda path: path.mkdir(), "no regular file"),
    "a pointer": (lambda path: path.write_bytes(POINTER), "a Git LFS pointer"),
}
if os.name != "nt":
    OTHERS |= {
        "a pipe": (os.mkfifo, "no regular file"),
        "an endless device": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
        "an empty device": (lambda path: path.symlink_to("/dev/null"), "no regular file"),
        "itself": (lambda path: path.symlink_to(path), "cannot be opened"),
    }


def open_files() -> int:
    """How many files this process has open, where the system tells."""
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def test_a_whole_file_is_read_by_three_calls(tmp_path: Path) -> None:
    path = tmp_path / "state.h5"
    path.write_bytes(DATA)
    with counted("open", "pread", "close", "fstat", "stat", "read") as calls:
        assert read_whole(str(path), len(DATA)) == DATA
    if hasattr(os, "pread"):
        assert {name: len(results) for name, results in calls.items() if results} == {"open": 1, "pread": 1, "close": 1}


@pytest.mark.parametrize("read", [read_whole, open_ranges])
@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_in_its_place_is_named(tmp_path: Path, name: str, read: Callable[[str, int], object]) -> None:
    make, found = OTHERS[name]
    path = tmp_path / "state.h5"
    make(path)
    before = open_files()
    with pytest.raises(IntegrityError) as caught:
        read(str(path), len(DATA))
    assert found in str(caught.value.found)
    assert "state.h5 is damaged" in caught.value.subject
    assert open_files() == before
