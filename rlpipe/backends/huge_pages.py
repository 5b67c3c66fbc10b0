"""Large pages for memory that was just asked for: the system then makes it in steps of 2 MiB, not of 4 KiB.

That is most of what reading into new memory costs. numpy asks for it by itself where it allocates, torch does not.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from functools import cache

from rlpipe.snapshot.state import Array

_LARGE = 2**22
"""Bytes from which on numpy asks too."""


def want_huge_pages(memory: Array) -> None:
    """Tell the system that the untouched memory of a large array may come in huge pages. It is a hint only.

    Args:
        memory: The array, in C order; its numbers stay as they are.
    """
    madvise = _madvise() if memory.nbytes >= _LARGE else None
    if madvise is not None:
        end = memory.ctypes.data + memory.nbytes
        start = -(-memory.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        madvise(start, end - start, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "madvise", None)
    if function is not None:
        function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
