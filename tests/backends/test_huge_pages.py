from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from rlpipe.backends.huge_pages import want_huge_pages

MIB = 2**20
SMAPS = Path("/proc/self/smaps")


def wants(address: int) -> bool:
    """Whether the system notes the wish for the memory at an address."""
    is_inside = False
    for line in SMAPS.read_text().splitlines():
        head, _, rest = line.partition(" ")
        if "-" in head and not head.endswith(":"):
            start, end = (int(part, 16) for part in head.split("-"))
            is_inside = start <= address < end
        elif is_inside and head == "VmFlags:":
            return "hg" in rest.split()
    return False


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="a kernel with huge pages",
)
@pytest.mark.parametrize(("size", "start", "is_large"), [(8 * MIB, 0, True), (8 * MIB, 12, True), (MIB, 0, False)])
def test_large_memory_is_named_to_the_system(size: int, start: int, is_large: bool) -> None:
    with mmap.mmap(-1, 16 * MIB) as memory:
        array = np.frombuffer(memory, np.uint8, size, start)
        array[:100] = np.arange(100)
        want_huge_pages(array)
        assert wants(array.ctypes.data + size // 2) == is_large
        assert not wants(array.ctypes.data + size + MIB)
        assert array[:100].tolist() == list(range(100))
        assert not array[100:].any()
        del array


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2**20 + 1,)])
def test_any_array_will_do(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 7.0, np.float32)
    want_huge_pages(array)
    assert (array == 7).all()
