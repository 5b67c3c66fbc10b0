from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import xxhash

from rlpipe.backends import image as image_module
from rlpipe.backends.image import Image, ImageBuilder, write_image


def test_parts_come_one_after_the_other() -> None:
    builder = ImageBuilder()
    assert builder.put(b"abc") == 0
    builder.align()
    assert builder.put(b"") == 64
    assert builder.put(b"def") == 64
    assert Image(tuple(builder.parts), {}).tobytes() == b"abc" + bytes(61) + b"def"


@pytest.mark.parametrize(
    "sizes", [[], [0], [10], [300_000], [10, 300_000, 20, 30], [2**18] * 3, [5] * 1000, [3 * 2**20 + 1]]
)
def test_writes_every_byte_in_order(tmp_path: Path, sizes: list[int]) -> None:
    parts = [np.random.default_rng(index).bytes(size) for index, size in enumerate(sizes)]
    write_image(Image(tuple(parts), {}), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_hashes_cover_the_file_piece_by_piece(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "PIECE_SIZE", 100)
    data = np.random.default_rng(0).bytes(size)
    digests = write_image(Image((data[:40], data[40:]), {}), tmp_path / "file")
    assert list(digests) == [xxhash.xxh3_128_hexdigest(data[start : start + 100]) for start in range(0, size, 100)]


def test_never_writes_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileExistsError):
        write_image(Image((b"x",), {}), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_image(Image((b"x",), {}), tmp_path / "file")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
