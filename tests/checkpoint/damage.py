"""Ways in which the files of a checkpoint come to harm, each for any file of any component."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.checkpoint.texts import fields_of, sealed

PAGE = 64
"""Stands for a page of the disk, so that small files have several."""


def resealed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and give it its right hash again."""
    fields = fields_of(file.read_text())
    change(fields)
    file.write_text(sealed(fields))


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 4
    file.write_bytes(data)


def cut_by_one(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def extended_by_one(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"\n")


def extended_by_zeros(file: Path) -> None:
    os.truncate(file, file.stat().st_size + 4096)


def first_page_zeroed(file: Path) -> None:
    file.write_bytes(bytes(PAGE) + file.read_bytes()[PAGE:])


def last_page_zeroed(file: Path) -> None:
    data = file.read_bytes()
    start = (len(data) - 1) // PAGE * PAGE
    file.write_bytes(data[:start] + bytes(len(data) - start))


def all_zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def pages_swapped(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[PAGE : 2 * PAGE] + data[:PAGE] + data[2 * PAGE :])


def deleted(file: Path) -> None:
    file.unlink()


def made_a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def made_a_pointer_of_lfs(file: Path) -> None:
    file.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {file.stat().st_size}\n")


ANY_FILE: Mapping[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        *(flipped, cut_by_one, cut_in_half, emptied, extended_by_one, extended_by_zeros, first_page_zeroed),
        *(last_page_zeroed, all_zeroed, pages_swapped, deleted, made_a_directory, made_a_pointer_of_lfs),
    )
}
"""Name -> what happens to a file."""


def files_of(path: Path) -> Iterator[Path]:
    """All files of a checkpoint, sorted."""
    yield from sorted(each for each in path.rglob("*") if each.is_file())


def swapped(one: Path, other: Path) -> None:
    """Let two files change their places."""
    spare = one.with_name("spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def put_back(original: Path, path: Path) -> None:
    """Make a checkpoint what it was."""
    shutil.rmtree(path)
    shutil.copytree(original, path)
