"""What stands for an array that was not read."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlpipe.backends.extents import ArrayFile, Extent
from rlpipe.snapshot.dtypes import DType


@dataclass(frozen=True)
class ArrayInfo:
    """An array as its manifest describes it. Equal infos mean equal arrays; tied arrays share one info.

    Attributes:
        dtype: Its dtype in memory.
        shape: Its shape.
        digest: xxh3-128 of its bytes in hex.
    """

    dtype: DType
    shape: tuple[int, ...]
    digest: str

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class StoredArray(ArrayInfo):
    """An array that is read when it is known where to: a restore reads it straight into live memory.

    Attributes:
        directory: The component that it lies in.
        file: The array file there.
        extent: Its place in the file.
    """

    directory: str = field(compare=False)
    file: ArrayFile = field(compare=False)
    extent: Extent = field(compare=False)
