"""Arrays that have a dtype and a shape and no numbers: those of an object that was built on the device "meta"."""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from rlpipe.snapshot.dtypes import DType
from rlpipe.snapshot.state import Array

_LIVE: WeakValueDictionary[int, Array] = WeakValueDictionary()
"""Address -> the one element that an array without numbers, and all views of it, repeat."""


def numberless(dtype: DType, shape: tuple[int, ...]) -> Array:
    """An array of one element's memory that stands for numbers nobody has. Two of them are never one array.

    `is_numberless` knows it, and every view of it, so that it is never taken for an array of zeros.
    """
    element = np.zeros((), dtype)
    _LIVE[_address(element)] = element
    return np.broadcast_to(element, shape)


def is_numberless(array: Array) -> bool:
    """Whether an array has no numbers; one without elements lacks none."""
    return bool(array.size) and not any(array.strides) and _address(array) in _LIVE


def any_numberless() -> bool:
    """Whether there is any such array in this process: looking for them costs as much as taking a snapshot."""
    return bool(_LIVE)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
